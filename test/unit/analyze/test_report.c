/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/dial9_case.h"
#include "../read/read_case.h"
#include <base/json_write.h>
#include <analyze/canonical.h>
#include <analyze/report.h>

static void report__calls_a_worker_that_never_parks_fully_active(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1400, 0, 7);
	case_poll(&c, 1500, 2000, 0, 7);
	case_park(&c, 1000, 1, 12);
	case_unpark(&c, 1900, 1, 12);
	case_poll(&c, 1950, 2000, 1, 8);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worker_count, 2);
	assert_int_equal(report->workers[0].active_permille, 1000);
	assert_int_equal(report->workers[0].busy_ns, 900);
	assert_int_equal(report->workers[0].other_ns, 100);
	assert_int_equal(report->workers[0].span_ns, 1000);
	assert_int_equal(report->workers[1].parked_ns, 900);
	assert_int_equal(report->workers[1].busy_ns, 50);
	assert_int_equal(report->workers[1].active_permille, 100);
	assert_int_equal(report->workers[1].sched_wait_ns, 77);
	ky_report_free(report);
	case_finish(&c);
}

static void report__lists_the_worst_first_and_the_hang_among_them(void **state)
{
	struct ky_report *report;
	struct read_case c;
	uint64_t i, ns = 1000;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 200; i++) {
		case_wake(&c, ns, 9, 7, 0);
		ns += 1 + (i * 37) % 101; /* the delay */
		case_start(&c, ns, 0, 7, "svc::poll");
		ns += 10 + (i * 53) % 199; /* the poll */
		case_end(&c, ns, 0);
		ns += 100;
	}
	case_start(&c, ns, 0, 8, "svc::hang");
	case_park(&c, ns + 100000, 1, 5);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->polls.count, 200);
	assert_int_equal(report->polls_open, 1);
	assert_int_equal(report->worst_poll_count, 10);
	assert_int_equal(report->worst_polls[0].poll.duration_ns, 100000);
	assert_true(report->worst_polls[0].poll.flags & KY_POLL_OPEN);
	for (i = 1; i < 10; i++) {
		assert_int_equal(report->worst_polls[i].poll.duration_ns,
				 i == 1 ? 208 : report->worst_polls[i].poll.duration_ns);
		assert_true(report->worst_polls[i].poll.duration_ns <=
			    report->worst_polls[i - 1].poll.duration_ns);
		assert_true(report->worst_delays[i].poll.delay_ns <=
			    report->worst_delays[i - 1].poll.delay_ns);
	}
	assert_int_equal(report->worst_delays[0].poll.delay_ns, 101);
	assert_int_equal(c.trace->tasks[report->worst_delays[0].waker].id, 9);
	assert_int_equal(report->delays.count, 200);
	assert_int_equal(report->delays_no_wake, 1);
	ky_report_free(report);
	case_finish(&c);
}

static void report__worst_polls_are_those_that_kept_a_worker(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1500, 0, 7);
	case_nested(&c, 1500, 0, 11, 0, 7);
	case_move(&c, 1500, 0, 11, 12, 0);
	case_poll(&c, 2000, 2200, 0, 8);
	case_nested_end(&c, 90000, 0, 11);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_poll_count, 2);
	assert_int_equal(report->worst_polls[0].poll.duration_ns, 500);
	assert_int_equal(report->worst_polls[1].poll.duration_ns, 200);
	assert_int_equal(report->polls.count, 2);
	assert_int_equal(report->handed_over.count, 1);
	assert_int_equal(report->handed_over.max_ns, 88500);
	ky_report_free(report);
	case_finish(&c);
}

static void report__lists_a_hang_whose_length_is_not_known(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	for (uint64_t i = 0; i < 12; i++)
		case_poll(&c, 1000 + i * 1000, 1100 + i * 1000, 0, 7);
	case_start(&c, 20000, 0, 8, "svc::hang"); /* the last that was recorded */
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_poll_count, 10);
	assert_int_equal(report->worst_polls[8].poll.duration_ns, 100);
	assert_int_equal(c.trace->tasks[report->worst_polls[9].poll.task].id, 8);
	assert_true(report->worst_polls[9].poll.flags & KY_POLL_OPEN);
	ky_report_free(report);
	case_finish(&c);
}

static void report__is_never_led_by_what_is_no_task_of_the_program(void **state)
{
	static const char launch[] =
		"tokio::runtime::scheduler::multi_thread::worker::Launch::launch::{{closure}}";
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_run(&c, 1000, 31, 20, launch); /* until the end */
	case_run(&c, 1000, 32, 21, "svc::resize");
	case_open_of(&c, 1500, 254, 32, 21, 1000, false, false);
	case_run(&c, 1055, 32, 21, NULL);
	case_start(&c, 2000, 255, 22, launch);
	case_end(&c, 800000, 255);
	case_poll(&c, 3000, 3100, 0, 7);
	case_poll(&c, 899000, 900000, 0, 8);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_poll_count, 2);
	assert_int_equal(report->worst_polls[0].poll.duration_ns, 1000);
	assert_int_equal(report->worker_count, 1); /* 255 is none */
	assert_string_equal(ky_trace_name(c.trace, report->groups[0].name), "svc::task");
	assert_int_equal(report->blocking_group_count, 2);
	assert_string_equal(ky_trace_name(c.trace, report->blocking_groups[0].name), "svc::resize");
	assert_int_equal(report->blocking_groups[0].run_max_ns, 55);
	assert_int_equal(report->blocking.count, 1);
	assert_int_equal(report->blocking.max, 55);
	ky_report_free(report);
	case_finish(&c);
}

static void report__names_the_waker_of_a_task_inside_its_own_poll(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a");
	case_wake(&c, 1100, 9, 7, 1);
	case_wake(&c, 1200, 7, 7, 0);
	case_end(&c, 1300, 0);
	case_poll(&c, 1900, 2000, 1, 7);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_delays[0].poll.delay_ns, 600);
	assert_int_equal(c.trace->tasks[report->worst_delays[0].waker].id, 9);
	ky_report_free(report);
	case_finish(&c);
}

static void report__leaves_unproven_polls_out_of_every_figure(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a");
	case_poll(&c, 900000, 900100, 0, 8);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->polls_end_unproven, 1);
	assert_int_equal(report->polls.count, 1);
	assert_int_equal(report->polls.max, 100);
	assert_int_equal(report->worst_poll_count, 1);
	assert_int_equal(report->busy_ns, 100);
	ky_report_free(report);
	case_finish(&c);
}

static void check_use(const struct ky_worker_use *use, uint64_t busy_ns, uint64_t parked_ns,
		      uint64_t other_ns, uint64_t unknown_ns)
{
	assert_int_equal(use->busy_ns, busy_ns);
	assert_int_equal(use->parked_ns, parked_ns);
	assert_int_equal(use->other_ns, other_ns);
	assert_int_equal(use->unknown_ns, unknown_ns);
	assert_int_equal(use->span_ns, busy_ns + parked_ns + other_ns + unknown_ns);
}

static void report__of_a_worker_counts_known_time_only(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 7, "a"); /* its end is lost */
	case_poll(&c, 10001000, 10001100, 0, 8);
	case_park(&c, 10001200, 0, 1);
	case_unpark(&c, 10001500, 0, 1);
	case_park(&c, 1000, 1, 2); /* its unpark is lost */
	case_poll(&c, 5000, 5300, 1, 9);
	case_park(&c, 5300, 1, 2);
	case_unpark(&c, 6000, 1, 2);
	case_start(&c, 1000, 2, 10, "a"); /* nothing else of this worker is known */
	case_start(&c, 1500, 2, 10, "a");
	case_end(&c, 1500, 2);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	check_use(&report->workers[0], 100, 300, 100, 10000000);
	assert_int_equal(report->workers[0].busy_permille, 200);
	assert_int_equal(report->workers[0].active_permille, 400);
	check_use(&report->workers[1], 300, 700, 0, 4000);
	assert_int_equal(report->workers[1].busy_permille, 300);
	assert_int_equal(report->workers[1].active_permille, 300);
	check_use(&report->workers[2], 0, 0, 0, 500);
	assert_true(report->workers[2].busy_permille == UINT64_MAX);
	assert_true(report->workers[2].active_permille == UINT64_MAX);
	ky_report_free(report);
	case_finish(&c);
}

static void report__knows_nothing_about_lost_records(void **state)
{
	struct ky_report_options options = {.from_ns = 2500, .to_ns = 3500};
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_park(&c, 1000, 0, 1); /* a gap inside */
	case_unpark(&c, 2000, 0, 1);
	case_poll(&c, 2000, 2200, 0, 7);
	case_park(&c, 3000, 0, 1); /* a gap between, up to this park */
	case_unpark(&c, 3200, 0, 1);
	case_poll(&c, 3300, 3900, 0, 7); /* a gap inside */
	case_poll(&c, 3900, 4000, 0, 7);
	case_park(&c, 1000, 1, 2); /* the gaps are not of its thread */
	case_unpark(&c, 4000, 1, 2);
	case_loss(&c, 1, 1400, 1500);
	case_loss(&c, 1, 2300, 3000);
	case_loss(&c, 1, 2400, 2900);
	case_loss(&c, 1, 3400, 3500);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	check_use(&report->workers[0], 200 + 100, 200, 100 + 100, 1000 + 700 + 600);
	check_use(&report->workers[1], 0, 3000, 0, 0);
	ky_report_free(report);
	assert_int_equal(ky_report_make(&report, c.trace, &options), 0);
	check_use(&report->workers[0], 0, 200, 100, 500 + 200);
	check_use(&report->workers[1], 0, 1000, 0, 0);
	ky_report_free(report);
	case_finish(&c);
}

static void report__groups_tasks_by_name_and_cuts_to_a_range(void **state)
{
	struct ky_report_options options = {.from_ns = 2000, .to_ns = 3000, .worst_count = 1};
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1900, 0, 1);
	case_poll(&c, 2000, 2300, 0, 2);
	case_poll(&c, 2400, 2500, 0, 3);
	case_start(&c, 2600, 0, 4, "svc::other");
	case_end(&c, 2610, 0);
	case_poll(&c, 3000, 3900, 0, 1);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->group_count, 2);
	assert_int_equal(report->groups[0].task_count, 3);
	assert_int_equal(report->groups[0].poll_count, 4);
	assert_int_equal(report->groups[0].busy_ns, 2200);
	assert_int_equal(report->groups[0].share_ppm, 2200u * 1000000u / 2210);
	assert_string_equal(ky_trace_name(c.trace, report->groups[1].name), "svc::other");
	ky_report_free(report);
	assert_int_equal(ky_report_make(&report, c.trace, &options), 0);
	assert_int_equal(report->polls.count, 3);
	assert_int_equal(report->worst_poll_count, 1);
	assert_int_equal(report->worst_polls[0].poll.duration_ns, 300);
	assert_int_equal(report->workers[0].busy_ns, 410);
	ky_report_free(report);
	case_finish(&c);
}

static void end_task(struct read_case *c, uint64_t ns, uint64_t task)
{
	ky_trc_enc_event(&c->enc, KY_EV_TASK_TERMINATE, ns);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u8(&c->enc, 0);
}

static void report__of_a_range_lists_the_tasks_that_are_in_it(void **state)
{
	struct ky_report_options options = {.from_ns = 2000, .to_ns = 3000};
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 1, "svc::idle"); /* not ended, and nothing of it in the range */
	case_end(&c, 1100, 0);
	case_wake(&c, 1200, 0, 1, 0);
	case_wake(&c, 1200, 0, 2, 0);
	case_poll(&c, 1500, 1600, 0, 2);
	case_wake(&c, 2000, 0, 2, 0);
	case_wake(&c, 2100, 0, 2, 1);
	case_poll(&c, 2200, 2300, 0, 3);
	end_task(&c, 2300, 3);
	case_start(&c, 1900, 1, 4, "svc::long"); /* reaches into the range */
	case_end(&c, 2050, 1);
	case_wake(&c, 3000, 0, 2, 0);
	case_poll(&c, 3100, 3200, 0, 2);
	end_task(&c, 3200, 2); /* alive when the range ends */
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, &options), 0);
	assert_int_equal(report->group_count, 2);
	assert_string_equal(ky_trace_name(c.trace, report->groups[0].name), "svc::task");
	assert_int_equal(report->groups[0].task_count, 2);
	assert_int_equal(report->groups[0].alive_count, 1);
	assert_int_equal(report->groups[0].wake_count, 2);
	assert_string_equal(ky_trace_name(c.trace, report->groups[1].name), "svc::long");
	assert_int_equal(report->groups[1].wake_count, 0);
	ky_report_free(report);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->group_count, 3);
	assert_int_equal(report->groups[0].task_count, 2);
	assert_int_equal(report->groups[0].alive_count, 0);
	assert_int_equal(report->groups[0].wake_count, 4);
	ky_report_free(report);
	case_finish(&c);
}

static void report__writes_json_that_survives_any_name(void **state)
{
	static const uint8_t raw[] = {'"', '\\', '\n', 0xff, 0xc3, 0xa4, 0x7f};
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 0);
	ky_json_string(&out, (const char *)raw, sizeof(raw));
	ky_buf_append(&out, "", 1);
	assert_string_equal((const char *)out.bytes,
			    "\"\\\"\\\\\\u000a\xef\xbf\xbd\xc3\xa4\\u007f\"");
	ky_buf_release(&out);
}

static void report__of_dial9_equals_the_sum_of_its_events(void **state)
{
	struct ky_byte_source source;
	struct ky_report *report;
	struct ky_trace *trace;
	uint64_t polls = 0, busy_ns = 0;
	uint32_t i;
	size_t count;
	uint8_t *bytes = dial9_bytes(DIAL9_057, &count);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(ky_byte_source_memory(&source, bytes, count, "dial9"), 0);
	assert_int_equal(ky_trace_open(&trace, &source, 1, NULL), 0);
	assert_int_equal(ky_report_make(&report, trace, NULL), 0);
	assert_int_equal(report->polls.count, 99717);
	assert_int_equal(report->polls.max, 32334125);
	for (i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		assert_int_equal(use->busy_ns + use->parked_ns + use->other_ns + use->unknown_ns,
				 use->span_ns);
		busy_ns += use->busy_ns;
		polls += use->poll_count;
	}
	assert_int_equal(polls, 99717);
	assert_int_equal(busy_ns, report->busy_ns);
	assert_int_equal(report->polls.total, report->busy_ns);
	for (polls = 0, i = 0; i < report->group_count; i++)
		polls += report->groups[i].poll_count;
	assert_int_equal(polls, 99717);
	ky_report_free(report);
	ky_trace_close(trace);
	source.close(source.ctx);
	free(bytes);
}

static void report__survives_each_failing_allocation(void **state)
{
	struct read_case c;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1900, 0, 1);
	case_open(&c);
	for (n = 0; result != 0; n++) {
		struct ky_buf out;

		ky_buf_init(&out, 0);
		test_alloc_fail_at(n);
		result = ky_canonical_json(&out, c.trace, NULL);
		test_alloc_normal();
		assert_true(result == 0 || result == -ENOMEM);
		ky_buf_release(&out);
	}
	assert_true(n > 10);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report__calls_a_worker_that_never_parks_fully_active),
		cmocka_unit_test(report__lists_the_worst_first_and_the_hang_among_them),
		cmocka_unit_test(report__worst_polls_are_those_that_kept_a_worker),
		cmocka_unit_test(report__lists_a_hang_whose_length_is_not_known),
		cmocka_unit_test(report__is_never_led_by_what_is_no_task_of_the_program),
		cmocka_unit_test(report__names_the_waker_of_a_task_inside_its_own_poll),
		cmocka_unit_test(report__leaves_unproven_polls_out_of_every_figure),
		cmocka_unit_test(report__of_a_worker_counts_known_time_only),
		cmocka_unit_test(report__knows_nothing_about_lost_records),
		cmocka_unit_test(report__groups_tasks_by_name_and_cuts_to_a_range),
		cmocka_unit_test(report__of_a_range_lists_the_tasks_that_are_in_it),
		cmocka_unit_test(report__writes_json_that_survives_any_name),
		cmocka_unit_test(report__of_dial9_equals_the_sum_of_its_events),
		cmocka_unit_test(report__survives_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
