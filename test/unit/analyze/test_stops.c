/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A time in which the process was stopped is no task's fault. */
#include "../read/stop_case.h"

#include <analyze/poll_parts.h>
#include <analyze/report.h>
#include <analyze/stop_json.h>
#include <analyze/wait_ahead.h>
#include <analyze/why.h>
#include <signal.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

static struct read_case c;

/* A poll of 3 ms that a stop of 100 ms makes 103 ms long, a wait behind it, and a poll of 10 ms. */
static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	case_start(&c, 10 * MS, 0, 7, "svc::stopped");
	case_wake(&c, 11 * MS, 7, 8, 0);
	case_state(&c, KY_PROCESS_STOPPED, SIGSTOP, 0, 12 * MS, KY_STATE_TOLD);
	case_state(&c, KY_PROCESS_CONTINUED, 0, 0, 112 * MS, KY_STATE_TOLD);
	case_end(&c, 113 * MS, 0);
	case_start(&c, 114 * MS, 0, 8, "svc::slow");
	case_end(&c, 124 * MS, 0);
	case_throttled(&c, 115 * MS, 120 * MS, 2 * MS);
	case_state(&c, KY_PROCESS_EXITED, 3, 0, 130 * MS, KY_STATE_TOLD);
	case_open(&c);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static void report__ranks_polls_without_it(void **state)
{
	struct ky_report *report;

	(void)state;
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_polls[0].poll.start_ns, 114 * MS);
	assert_int_equal(report->worst_polls[0].stopped_ns, 0);
	assert_int_equal(report->worst_polls[1].stopped_ns, 100 * MS);
	assert_int_equal(ky_worst_poll_ns(&report->worst_polls[1]), 3 * MS);
	assert_int_equal(report->polls.max, 10 * MS);
	assert_int_equal(report->busy_ns, 13 * MS);
	assert_int_equal(report->workers[0].busy_ns, 13 * MS);
	assert_int_equal(report->workers[0].unknown_ns, 100 * MS);
	ky_report_free(report);
}

static void report__ranks_waits_without_it(void **state)
{
	struct ky_wait_ahead ahead;
	struct ky_report *report;

	(void)state;
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_delay_count, 1);
	assert_int_equal(report->worst_delays[0].delay_stopped_ns, 100 * MS);
	assert_int_equal(ky_worst_delay_ns(&report->worst_delays[0]), 3 * MS);
	assert_int_equal(report->delays.max, 3 * MS);
	assert_true(ky_wait_ahead(&ahead, c.trace, &report->worst_delays[0]));
	assert_int_equal(ahead.busy_ns, 2 * MS);
	assert_int_equal(ahead.longest.duration_ns, 3 * MS);
	ky_report_free(report);
}

static void parts__of_a_poll_have_it_apart(void **state)
{
	struct ky_trace_poll_cost cost = {.start_ns = 10 * MS, .worker_id = 0, .cpu_ns = 2 * MS};
	struct ky_poll poll = case_nth_poll(&c, 0, 0);
	struct ky_poll_parts parts;

	(void)state;
	for (uint32_t i = 0; i < KY_COST_VALUES; i++)
		cost.values[i] = UINT64_MAX;
	cost.values[KY_COST_DELAY_NS] = MS / 2;
	c.trace->poll_costs = &cost;
	c.trace->poll_cost_count = 1;
	assert_true(ky_poll_parts(c.trace, &poll, &parts));
	assert_int_equal(parts.cpu_ns, 2 * MS);
	assert_int_equal(parts.stopped_ns, 100 * MS);
	assert_int_equal(parts.delay_ns, MS / 2);
	assert_int_equal(parts.blocked_ns, MS / 2);
	c.trace->poll_costs = NULL;
	c.trace->poll_cost_count = 0;
}

static void why__counts_it_as_nobodys(void **state)
{
	uint64_t sum = 0;
	struct ky_why *why;

	(void)state;
	assert_int_equal(ky_why_make(&why, c.trace, &(const struct ky_why_options){0}), 0);
	assert_int_equal(why->slow_count, 1);
	for (uint32_t i = 0; i < KY_PARTS; i++)
		sum += why->sums[i];
	assert_int_equal(sum, 103 * MS);
	assert_int_equal(why->sums[KY_PART_STOPPED], 100 * MS);
	ky_why_free(why);
}

static void json__has_stops_throttling_and_the_end(void **state)
{
	struct ky_buf out;
	char got[512];

	(void)state;
	ky_buf_init(&out, 0);
	ky_stops_json(&out, c.trace);
	assert_int_equal(out.failed, 0);
	assert_non_null(out.bytes);
	(void)snprintf(got, sizeof(got), "%.*s", (int)out.used, (const char *)out.bytes);
	assert_string_equal(
		got, "\"stops\":[{\"from_ns\":12000000,\"to_ns\":112000000,"
		     "\"unsure_ns\":0,\"signal\":19,\"source\":\"reported\",\"open\":false}],"
		     "\"throttled\":[{\"from_ns\":115000000,\"to_ns\":120000000,"
		     "\"throttled_ns\":2000000,\"level\":0}],"
		     "\"exit\":{\"time_ns\":130000000,\"status\":3,\"signal\":null}");
	ky_buf_release(&out);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(report__ranks_polls_without_it),         CASE(report__ranks_waits_without_it),
		CASE(parts__of_a_poll_have_it_apart),         CASE(why__counts_it_as_nobodys),
		CASE(json__has_stops_throttling_and_the_end),
	};

	return cmocka_run_group_tests_name("stops", tests, NULL, NULL);
}
