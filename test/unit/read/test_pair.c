/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "read_case.h"

static void pair__ends_a_poll_at_its_end_or_at_the_park(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1500, 0, 7);
	case_start(&c, 2000, 0, 8, "svc::lost_end");
	case_park(&c, 2600, 0, 11);
	case_unpark(&c, 9000, 0, 11);
	case_open(&c);
	poll = case_nth_poll(&c, 0, 0);
	assert_int_equal(poll.start_ns, 1000);
	assert_int_equal(poll.duration_ns, 500);
	assert_int_equal(poll.flags, 0);
	assert_int_equal(c.trace->tasks[poll.task].id, 7);
	assert_string_equal(ky_trace_name(c.trace, poll.name), "svc::task");
	poll = case_nth_poll(&c, 0, 1);
	assert_int_equal(poll.duration_ns, 600);
	assert_int_equal(poll.flags, KY_POLL_ENDED_BY_PARK);
	assert_int_equal(c.trace->end_unproven, 0);
	case_finish(&c);
}

static void pair__does_not_believe_a_later_start(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a");
	case_poll(&c, 5000, 5100, 0, 8);
	case_end(&c, 6000, 0);
	case_open(&c);
	poll = case_nth_poll(&c, 0, 0);
	assert_int_equal(poll.flags, KY_POLL_END_UNPROVEN);
	assert_int_equal(poll.duration_ns, 4000);
	assert_int_equal(c.trace->end_unproven, 1);
	assert_int_equal(c.trace->workers[0].end_unproven_count, 1);
	assert_int_equal(c.trace->workers[0].end_without_start, 1);
	assert_int_equal(c.trace->tasks[poll.task].busy_ns, 0);
	case_finish(&c);
}

static void pair__sorts_batches_that_come_out_of_order(void **state)
{
	struct read_case c;
	uint64_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 100; i++) {
		case_poll(&c, 100000 - i * 1000, 100000 - i * 1000 + 300 + i, 0, i);
		ky_trc_enc_begin(&c.enc);
	}
	case_open(&c);
	assert_int_equal(c.trace->polls, 100);
	assert_int_equal(c.trace->back_steps, 99);
	for (i = 0; i < 100; i++) {
		struct ky_poll poll = case_nth_poll(&c, 0, 99 - i);

		assert_int_equal(poll.start_ns, 100000 - i * 1000);
		assert_int_equal(poll.duration_ns, 300 + i);
		assert_int_equal(c.trace->tasks[poll.task].id, i);
	}
	case_finish(&c);
}

static void pair__finds_a_park_that_comes_late_inside_a_poll(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 5000, 0, 7);
	case_poll(&c, 6000, 6500, 0, 8);
	ky_trc_enc_begin(&c.enc);
	case_park(&c, 3000, 0, 11); /* another thread's batch, written later */
	case_unpark(&c, 4000, 0, 11);
	case_open(&c);
	assert_int_equal(c.trace->polls, 2);
	poll = case_nth_poll(&c, 0, 0);
	assert_int_equal(poll.start_ns, 1000);
	assert_int_equal(poll.duration_ns, 2000);
	assert_int_equal(poll.flags, KY_POLL_ENDED_BY_PARK);
	assert_int_equal(c.trace->workers[0].end_without_start, 1);
	assert_int_equal(c.trace->workers[0].last_ns, 6500);
	assert_int_equal(c.trace->run_last_ns, 6500);
	poll = case_nth_poll(&c, 0, 1);
	assert_int_equal(poll.duration_ns, 500);
	assert_int_equal(poll.flags, 0);
	case_finish(&c);
}

static void pair__measures_parks_and_their_kernel_delay(void **state)
{
	struct ky_park park;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_park(&c, 1000, 3, 21);
	case_unpark(&c, UINT64_C(20000001000), 3, 22);
	case_park(&c, UINT64_C(20000005000), 3, 22);
	case_open(&c);
	ky_trace_park(c.trace, 0, 0, &park);
	assert_int_equal(park.start_ns, 1000);
	assert_int_equal(park.duration_ns, UINT64_C(20000000000));
	assert_int_equal(park.sched_wait_ns, 77);
	assert_int_equal(park.ready_count, 3);
	assert_int_equal(park.wait, 1);
	assert_true(park.flags & KY_PARK_MOVED);
	assert_int_equal(c.trace->workers[0].moved_count, 1);
	assert_int_equal(c.trace->workers[0].tid, 22);
	ky_trace_park(c.trace, 0, 1, &park);
	assert_int_equal(park.flags, KY_PARK_OPEN);
	case_finish(&c);
}

static void pair__keeps_long_polls_in_the_side_table(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, UINT64_C(90000000000), 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).duration_ns, UINT64_C(90000000000) - 1000);
	assert_int_equal(c.trace->tasks[0].poll_max_ns, UINT64_C(90000000000) - 1000);
	case_finish(&c);
}

static void pair__takes_a_start_from_the_snapshot_once(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_open_poll(&c, 5000, 0, 7, 900, false); /* began before the trace */
	case_end(&c, 6000, 0);
	case_start(&c, 7000, 0, 8, "svc::task");
	case_open_poll(&c, 8000, 0, 8, 7000, false); /* the next chunk repeats it */
	case_open_poll(&c, 9000, 0, 8, 7000, true);
	case_park(&c, 9500, 1, 5);
	case_open(&c);
	assert_int_equal(c.trace->polls, 2);
	poll = case_nth_poll(&c, 0, 0);
	assert_int_equal(poll.start_ns, 900);
	assert_int_equal(poll.duration_ns, 5100);
	assert_int_equal(poll.flags, KY_POLL_FROM_SNAPSHOT);
	poll = case_nth_poll(&c, 0, 1);
	assert_int_equal(poll.start_ns, 7000);
	assert_int_equal(poll.duration_ns, 2500);
	assert_int_equal(poll.flags, KY_POLL_OPEN | KY_POLL_AT_EXIT);
	assert_int_equal(c.trace->open_poll_count, 1);
	assert_int_equal(c.trace->open_polls[0].row, 1);
	case_finish(&c);
}

/* Nothing else happened after it began; what reports it says when the process ended. */
static void pair__an_open_poll_lasts_until_the_process_ended(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "svc::task");
	case_end(&c, 2000, 0);
	case_start(&c, 7000, 0, 8, "svc::task");
	case_open_poll(&c, 9000, 0, 8, 7000, true);
	case_open(&c);
	poll = case_nth_poll(&c, 0, 1);
	assert_int_equal(poll.duration_ns, 2000);
	assert_int_equal(poll.flags, KY_POLL_OPEN | KY_POLL_AT_EXIT);
	assert_int_equal(c.trace->run_last_ns, 9000);
	case_finish(&c);
}

static void nested(struct read_case *c, uint64_t ns, uint64_t task)
{
	uint32_t name = case_text(c, "svc::inner");

	ky_trc_enc_event(&c->enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, 1);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
}

static void nested_end(struct read_case *c, uint64_t ns)
{
	ky_trc_enc_event(&c->enc, KY_EV_NESTED_POLL_END, ns);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, 11);
}

static void pair__keeps_nested_polls_on_a_lane_of_their_own(void **state)
{
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "svc::outer");
	nested(&c, 1100, 8);
	nested(&c, 1200, 9);
	nested_end(&c, 1300);
	nested_end(&c, 1400);
	case_end(&c, 2000, 0);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).duration_ns, 1000);
	assert_int_equal(c.trace->worker_count, 2);
	assert_true(c.trace->workers[1].is_thread_lane);
	ky_trace_poll(c.trace, 1, 0, &poll);
	assert_int_equal(poll.start_ns, 1100);
	assert_int_equal(poll.duration_ns, 300);
	assert_int_equal(poll.flags, KY_POLL_NESTED);
	ky_trace_poll(c.trace, 1, 1, &poll);
	assert_int_equal(poll.duration_ns, 100);
	case_finish(&c);
}

static void pair__ends_a_nested_poll_that_a_snapshot_reported(void **state)
{
	struct read_case c;
	struct ky_poll poll;
	uint32_t lane;

	(void)state;
	case_begin(&c);
	case_poll(&c, 500, 600, 0, 3);
	case_open_of(&c, 1000, 255, 11, 8, 900, false, true); /* began before the trace */
	case_open_of(&c, 1000, 255, 11, 9, 950, false, true);
	case_open_of(&c, 1100, 255, 11, 8, 900, false, true); /* the next chunk repeats them */
	case_open_of(&c, 1100, 255, 11, 9, 950, false, true);
	nested_end(&c, 1200);
	nested_end(&c, 1300);
	nested(&c, 5000, 8);
	case_open_of(&c, 6000, 0, 11, 8, 4999, false, true); /* of a worker that moved */
	nested_end(&c, 7000);
	case_poll(&c, 20000, 30000, 0, 3);
	case_open(&c);
	lane = ky_trace_worker(c.trace, UINT64_MAX - 11);
	assert_int_not_equal(lane, KY_NONE);
	assert_int_equal(c.trace->workers[lane].poll_count, 3);
	ky_trace_poll(c.trace, lane, 0, &poll);
	assert_int_equal(poll.duration_ns, 400);
	assert_int_equal(poll.flags, KY_POLL_NESTED | KY_POLL_FROM_SNAPSHOT);
	ky_trace_poll(c.trace, lane, 1, &poll);
	assert_int_equal(poll.duration_ns, 250);
	ky_trace_poll(c.trace, lane, 2, &poll);
	assert_int_equal(poll.duration_ns, 2000);
	assert_int_equal(poll.flags, KY_POLL_NESTED);
	assert_int_equal(c.trace->open_poll_count, 0);
	assert_int_equal(c.trace->end_unproven, 0);
	case_finish(&c);
}

static void pair__ends_a_blocking_run_that_a_snapshot_reported(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_open_of(&c, 1000, 254, 31, 8, 900, false, false); /* began before the trace */
	case_run(&c, 1300, 31, 8, NULL);
	case_run(&c, 2000, 31, 9, "svc::resize");
	case_open_of(&c, 2100, 254, 31, 9, 2000, false, false);
	case_run(&c, 2055, 31, 9, NULL);
	case_poll(&c, 3000, 90000, 0, 3);
	case_open(&c);
	assert_int_equal(ky_trace_worker(c.trace, 254), KY_NONE);
	assert_int_equal(c.trace->polls, 1);
	assert_int_equal(c.trace->open_poll_count, 0);
	assert_int_equal(c.trace->blocking_count, 2);
	assert_int_equal(c.trace->blocking_runs[0].start_ns, 900);
	assert_int_equal(c.trace->blocking_runs[0].duration_ns, 400);
	assert_int_equal(c.trace->blocking_runs[1].duration_ns, 55);
	assert_false(c.trace->blocking_runs[1].is_open);
	case_finish(&c);
}

static void pair__ends_no_blocking_run_where_its_end_may_be_lost(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_run(&c, 1000, 31, 8, "svc::lost");
	case_run(&c, 2000, 31, 9, "svc::resize"); /* so the one before has ended */
	case_open_of(&c, 5000, 254, 31, 9, 2000, false, false);
	case_run(&c, 1000, 32, 10, "svc::in_gap");
	case_loss(&c, 32, 3000, 4000);
	case_loss(&c, 31, 3000, 4000); /* it was open after this */
	case_poll(&c, 6000, 9000, 0, 3);
	case_open(&c);
	assert_int_equal(c.trace->blocking_count, 3);
	assert_true(c.trace->blocking_runs[0].is_end_unproven);
	assert_int_equal(c.trace->blocking_runs[0].duration_ns, 0);
	assert_true(c.trace->blocking_runs[1].is_end_unproven);
	assert_true(c.trace->blocking_runs[2].is_open);
	assert_int_equal(c.trace->blocking_runs[2].duration_ns, 7000);
	case_finish(&c);
}

static void pair__believes_no_open_poll_under_an_id_that_threads_share(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 255, 7, "svc::task");
	case_poll(&c, 6000, 9000, 0, 3);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 255, 0).flags, KY_POLL_END_UNPROVEN);
	assert_int_equal(c.trace->open_poll_count, 0);
	case_finish(&c);
}

static void pair__lets_an_open_poll_last_until_the_last_snapshot(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1500, 0, 7);
	case_start(&c, 2000, 0, 8, "svc::stuck");
	case_poll(&c, 1000, 3430, 1, 7); /* the last event of a thread */
	case_open_poll(&c, 119000000, 0, 8, 2000, false);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 1).flags, KY_POLL_OPEN);
	assert_int_equal(case_nth_poll(&c, 0, 1).duration_ns, 119000000 - 2000);
	assert_int_equal(c.trace->run_last_ns, 119000000);
	case_finish(&c);
}

static void pair__marks_polls_that_a_loss_of_their_thread_may_have_spoiled(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_park(&c, 500, 0, 11);
	case_unpark(&c, 600, 0, 11);
	case_park(&c, 700, 1, 12);
	case_unpark(&c, 800, 1, 12);
	case_start(&c, 1000, 0, 7, "a");
	case_start(&c, 1001, 1, 8, "b");
	case_loss(&c, 11, 2000, 3000);
	case_end(&c, 4000, 0);
	case_end(&c, 4001, 1);
	case_poll(&c, 5000, 5100, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).flags, KY_POLL_GAP);
	assert_int_equal(case_nth_poll(&c, 1, 0).flags, 0);
	assert_int_equal(case_nth_poll(&c, 0, 1).flags, 0);
	assert_int_equal(c.trace->lost_records, 42);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair__ends_a_poll_at_its_end_or_at_the_park),
		cmocka_unit_test(pair__does_not_believe_a_later_start),
		cmocka_unit_test(pair__sorts_batches_that_come_out_of_order),
		cmocka_unit_test(pair__finds_a_park_that_comes_late_inside_a_poll),
		cmocka_unit_test(pair__measures_parks_and_their_kernel_delay),
		cmocka_unit_test(pair__keeps_long_polls_in_the_side_table),
		cmocka_unit_test(pair__takes_a_start_from_the_snapshot_once),
		cmocka_unit_test(pair__an_open_poll_lasts_until_the_process_ended),
		cmocka_unit_test(pair__keeps_nested_polls_on_a_lane_of_their_own),
		cmocka_unit_test(pair__ends_a_nested_poll_that_a_snapshot_reported),
		cmocka_unit_test(pair__ends_a_blocking_run_that_a_snapshot_reported),
		cmocka_unit_test(pair__ends_no_blocking_run_where_its_end_may_be_lost),
		cmocka_unit_test(pair__believes_no_open_poll_under_an_id_that_threads_share),
		cmocka_unit_test(pair__lets_an_open_poll_last_until_the_last_snapshot),
		cmocka_unit_test(pair__marks_polls_that_a_loss_of_their_thread_may_have_spoiled),
	};

	return cmocka_run_group_tests_name("pair", tests, NULL, NULL);
}
