/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One test per clause of "Ready R of task T". */
#include "read_case.h"

static void spawn(struct read_case *c, uint64_t ns, uint64_t task)
{
	uint32_t name = case_text(c, "svc::task");

	ky_trc_enc_event(&c->enc, KY_EV_TASK_SPAWN, ns);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static void delay__counts_from_the_first_wake_while_idle(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_wake(&c, 1000, 0, 7, 255);
	case_wake(&c, 1200, 0, 7, 1);
	case_poll(&c, 1500, 1600, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, 500);
	assert_int_equal(c.trace->wakes_redundant, 1);
	assert_int_equal(c.trace->delays_measured, 1);
	case_finish(&c);
}

static void delay__counts_a_wake_in_the_own_poll_from_its_end(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a");
	case_wake(&c, 1100, 7, 7, 0);
	case_wake(&c, 1150, 9, 7, 1);
	case_end(&c, 1300, 0);
	case_poll(&c, 1900, 2000, 1, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_state, KY_DELAY_NO_WAKE);
	assert_int_equal(case_nth_poll(&c, 1, 0).delay_ns, 600);
	assert_int_equal(c.trace->wakes_in_own_poll, 1);
	assert_int_equal(c.trace->wakes_redundant, 1);
	case_finish(&c);
}

static void delay__is_zero_when_the_next_poll_precedes_the_end_stamp(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a");
	case_wake(&c, 1100, 7, 7, 0);
	case_start(&c, 1290, 1, 7, "a");
	case_end(&c, 1300, 0);
	case_end(&c, 1400, 1);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 1, 0).delay_ns, 0);
	case_finish(&c);
}

static void delay__counts_from_the_spawn(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	spawn(&c, 1000, 7);
	case_wake(&c, 1200, 0, 7, 0);
	case_poll(&c, 1700, 1800, 0, 7);
	case_poll(&c, 2700, 2800, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, 700);
	assert_int_equal(case_nth_poll(&c, 0, 1).delay_ns, UINT64_MAX);
	assert_int_equal(c.trace->delays_no_wake, 1);
	case_finish(&c);
}

static void delay__is_not_invented_without_a_wake(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	case_poll(&c, 2000, 2100, 0, 7);
	case_open(&c);
	assert_int_equal(c.trace->delays_no_wake, 2);
	assert_int_equal(c.trace->delays_measured, 0);
	case_finish(&c);
}

static void delay__is_withheld_across_a_loss(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_wake(&c, 1000, 0, 7, 255);
	case_loss(&c, 99, 1200, 1300);
	case_poll(&c, 1500, 1600, 0, 7);
	case_wake(&c, 1700, 0, 7, 255);
	case_poll(&c, 1800, 1900, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_state, KY_DELAY_WITHHELD);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, UINT64_MAX);
	assert_int_equal(case_nth_poll(&c, 0, 1).delay_ns, 100);
	assert_int_equal(c.trace->delays_withheld, 1);
	case_finish(&c);
}

static void runtimes(struct read_case *c)
{
	ky_trc_enc_event(&c->enc, KY_EV_SEGMENT_METADATA, 100);
	ky_trc_enc_count(&c->enc, 2);
	ky_trc_enc_bytes(&c->enc, "runtime.main", 12);
	ky_trc_enc_bytes(&c->enc, "0,1", 3);
	ky_trc_enc_bytes(&c->enc, "runtime.other", 13);
	ky_trc_enc_bytes(&c->enc, "2,3", 3);
}

/* A wake at 1000, the poll at 1500 on worker 0, and a loss. Returns the state of the delay. */
static uint32_t state_beside(uint32_t tid, uint64_t from_ns, uint64_t to_ns, uint32_t tid_of_3)
{
	struct read_case c;
	struct ky_poll poll;
	uint32_t i;

	case_begin(&c);
	runtimes(&c);
	for (i = 0; i < 3; i++)
		case_park(&c, 200, i, 11 + i);
	case_park(&c, 200, 3, tid_of_3);
	for (i = 0; i < 3; i++)
		case_unpark(&c, 300, i, 11 + i);
	case_wake(&c, 1000, 0, 7, 0);
	case_poll(&c, 1500, 1600, 0, 7);
	case_loss(&c, tid, from_ns, to_ns);
	case_open(&c);
	assert_int_equal(c.trace->runtime_count, 2);
	poll = case_nth_poll(&c, 0, 0);
	if (poll.delay_state == 0)
		assert_int_equal(poll.delay_ns, 500);
	case_finish(&c);
	return poll.delay_state;
}

static void delay__stands_beside_a_loss_in_another_runtime(void **state)
{
	(void)state;
	assert_int_equal(state_beside(13, 1200, 1300, 14), 0);
	/* An earlier wake may be among what was lost. */
	assert_int_equal(state_beside(13, 900, 1300, 14), KY_DELAY_WITHHELD);
	/* Another worker of the same runtime may have polled the task; so may who is not named. */
	assert_int_equal(state_beside(12, 1200, 1300, 14), KY_DELAY_WITHHELD);
	assert_int_equal(state_beside(11, 1200, 1300, 14), KY_DELAY_WITHHELD);
	assert_int_equal(state_beside(0, 1200, 1300, 14), KY_DELAY_WITHHELD);
	assert_int_equal(state_beside(99, 1200, 1300, 14), KY_DELAY_WITHHELD);
	/* One thread carried workers of both. */
	assert_int_equal(state_beside(12, 1200, 1300, 12), KY_DELAY_WITHHELD);
}

static void delay__is_withheld_when_a_thread_of_the_runtime_is_not_known(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	runtimes(&c);
	case_park(&c, 200, 0, 11);
	case_unpark(&c, 300, 0, 11);
	case_park(&c, 200, 2, 13);
	case_wake(&c, 1000, 0, 7, 0);
	case_poll(&c, 1100, 1110, 1, 8); /* the thread of worker 1 is not known */
	case_poll(&c, 1500, 1600, 0, 7);
	case_loss(&c, 13, 1200, 1300);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_state, KY_DELAY_WITHHELD);
	assert_int_equal(c.trace->delays_withheld, 1);
	case_finish(&c);
}

static void delay__prefers_what_the_writer_measured(void **state)
{
	static const struct ky_trc_field_def fields[] = {
		{"worker_id", 9, KY_TYPE_VARINT},
		{"task_id", 7, KY_TYPE_VARINT},
		{"scheduling_delay_ns", 19, KY_TYPE_VARINT},
	};
	struct read_case c;

	(void)state;
	case_begin(&c);
	ky_trc_enc_schema(&c.enc, 300, "PollStartEvent", 14, true, fields, 3);
	ky_trc_enc_raw_event(&c.enc, 300, true, 5000);
	ky_trc_enc_varint(&c.enc, 0);
	ky_trc_enc_varint(&c.enc, 7);
	ky_trc_enc_varint(&c.enc, 321);
	case_end(&c, 5100, 0);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, 321);
	assert_int_equal(c.trace->delays_recorded, 1);
	case_finish(&c);
}

static void delay__holds_more_than_32_bits(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_wake(&c, 1000, 0, 7, 255);
	case_poll(&c, UINT64_C(8000000001000), UINT64_C(8000000001100), 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, UINT64_C(8000000000000));
	case_finish(&c);
}

static void delay__of_one_moment_takes_the_wake_before_the_poll(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_wake(&c, 1000, 0, 7, 3); /* of the worker that comes last */
	case_start(&c, 1000, 0, 7, "a");
	case_wake(&c, 1000, 7, 7, 0); /* its own: inside the poll */
	case_end(&c, 1100, 0);
	case_poll(&c, 1500, 1600, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_state, 0);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, 0);
	assert_int_equal(case_nth_poll(&c, 0, 1).delay_ns, 400);
	assert_int_equal(c.trace->wakes_in_own_poll, 1);
	case_finish(&c);
}

static void delay__walks_time_stamps_to_the_end_of_64_bits(void **state)
{
	static const uint64_t starts[] = {10,
					  UINT64_C(1) << 40,
					  (UINT64_C(1) << 62) - 1,
					  UINT64_C(1) << 62,
					  (UINT64_C(1) << 62) + 9,
					  (UINT64_C(1) << 62) + 10,
					  UINT64_C(3) << 62,
					  UINT64_MAX - 2000};
	struct read_case c;
	uint32_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 8; i++) {
		case_wake(&c, starts[i], 0, 7, i % 3);
		case_poll(&c, starts[i] + 100 + i, starts[i] + 200, i % 2, 7);
		ky_trc_enc_begin(&c.enc);
	}
	case_open(&c);
	assert_int_equal(c.trace->delays_measured + c.trace->wakes_redundant, 8);
	assert_int_equal(c.trace->tasks[0].poll_count, 8);
	for (i = 0; i < 8; i++) {
		struct ky_poll poll = case_nth_poll(&c, i % 2, i / 2);

		assert_true(poll.start_ns == starts[i] + 100 + i);
		if (i < 3 || i > 5) /* the others overlap */
			assert_int_equal(poll.delay_ns, 100 + i);
	}
	case_finish(&c);
}

static void delay__starts_from_the_snapshot_of_ready_tasks(void **state)
{
	struct read_case c;
	uint32_t name;

	(void)state;
	case_begin(&c);
	name = case_text(&c, "svc::task");
	ky_trc_enc_event(&c.enc, KY_EV_LIVE_TASK, 1000);
	ky_trc_enc_varint(&c.enc, 7);
	ky_trc_enc_u32(&c.enc, name);
	ky_trc_enc_varint(&c.enc, 0);
	ky_trc_enc_u8(&c.enc, 1);
	ky_trc_enc_varint(&c.enc, 800);
	case_poll(&c, 1300, 1400, 0, 7);
	case_open(&c);
	assert_int_equal(case_nth_poll(&c, 0, 0).delay_ns, 500);
	assert_true(c.trace->tasks[0].flags & KY_TASK_LIVE_AT_START);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delay__counts_from_the_first_wake_while_idle),
		cmocka_unit_test(delay__counts_a_wake_in_the_own_poll_from_its_end),
		cmocka_unit_test(delay__is_zero_when_the_next_poll_precedes_the_end_stamp),
		cmocka_unit_test(delay__counts_from_the_spawn),
		cmocka_unit_test(delay__is_not_invented_without_a_wake),
		cmocka_unit_test(delay__is_withheld_across_a_loss),
		cmocka_unit_test(delay__stands_beside_a_loss_in_another_runtime),
		cmocka_unit_test(delay__is_withheld_when_a_thread_of_the_runtime_is_not_known),
		cmocka_unit_test(delay__prefers_what_the_writer_measured),
		cmocka_unit_test(delay__holds_more_than_32_bits),
		cmocka_unit_test(delay__of_one_moment_takes_the_wake_before_the_poll),
		cmocka_unit_test(delay__walks_time_stamps_to_the_end_of_64_bits),
		cmocka_unit_test(delay__starts_from_the_snapshot_of_ready_tasks),
	};

	return cmocka_run_group_tests_name("delay", tests, NULL, NULL);
}
