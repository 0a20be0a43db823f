/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <read/stops.h>
#include <report/stop_text.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

static struct ky_trace trace;
static struct ky_report report;
static struct ky_trace_stop stops[8];
static struct ky_trace_throttle throttles[2];

static void expect(const char *text)
{
	struct ky_buf out;
	char got[2048];

	ky_buf_init(&out, 0);
	ky_stop_text(&out, &trace, &report);
	assert_true(out.used < sizeof(got));
	(void)snprintf(got, sizeof(got), "%.*s", (int)out.used, (const char *)out.bytes);
	assert_string_equal(got, text);
	ky_buf_release(&out);
}

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	memset(stops, 0, sizeof(stops));
	trace.stops = stops;
	trace.throttles = throttles;
	trace.run_first_ns = 1000 * MS;
	report.from_ns = 1000 * MS;
	report.to_ns = 9000 * MS;
	return 0;
}

static void text__says_from_when_to_when_and_how_sure(void **state)
{
	(void)state;
	expect("");
	stops[0] = (struct ky_trace_stop){.from_ns = 1500 * MS,
					  .to_ns = 2200 * MS,
					  .signal_number = SIGTSTP,
					  .source = KY_STATE_TOLD};
	stops[1] = (struct ky_trace_stop){.from_ns = 3000 * MS,
					  .to_ns = 3100 * MS,
					  .unsure_ns = 60 * MS,
					  .source = KY_STATE_SEEN};
	stops[2] = (struct ky_trace_stop){.from_ns = 4000 * MS,
					  .to_ns = 4100 * MS,
					  .unsure_ns = 100 * MS,
					  .source = KY_STATE_WITH_READER};
	stops[3] = (struct ky_trace_stop){.from_ns = 8000 * MS,
					  .to_ns = 8500 * MS,
					  .signal_number = SIGSTOP,
					  .source = KY_STATE_TOLD,
					  .is_open = true};
	trace.stop_count = 4;
	expect("! The process was stopped from +0.500000 to +1.200000, 700 ms (SIGTSTP)\n"
	       "! The process was stopped from +2.000000 to +2.100000, 100 ms (by a signal or a "
	       "debugger); it may be shorter by 60.0 ms\n"
	       "! The process was stopped from +3.000000 to +3.100000, 100 ms (and kymo with it); "
	       "at most: it is the longest silence around it\n"
	       "! The process was stopped from +7.000000 to +7.500000, 500 ms (SIGSTOP); it did "
	       "not continue in this trace\n");
}

static void text__is_of_the_range_and_bounded(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		stops[i] = (struct ky_trace_stop){.from_ns = (1000 + 100 * i) * MS,
						  .to_ns = (1050 + 100 * i) * MS,
						  .source = KY_STATE_TOLD};
	trace.stop_count = 8;
	report.from_ns = 1050 * MS; /* the first is over */
	report.to_ns = 1150 * MS;
	expect("! The process was stopped from +0.100000 to +0.150000, 50.0 ms\n");
	report.to_ns = 9000 * MS;
	expect("! The process was stopped from +0.100000 to +0.150000, 50.0 ms\n"
	       "! The process was stopped from +0.200000 to +0.250000, 50.0 ms\n"
	       "! The process was stopped from +0.300000 to +0.350000, 50.0 ms\n"
	       "! The process was stopped from +0.400000 to +0.450000, 50.0 ms\n"
	       "! The process was stopped from +0.500000 to +0.550000, 50.0 ms\n"
	       "! and 2 times more, 100 ms in all\n");
}

static void text__has_the_most_throttled_interval(void **state)
{
	(void)state;
	throttles[0] = (struct ky_trace_throttle){2000 * MS, 3000 * MS, 300 * MS, 0};
	throttles[1] = (struct ky_trace_throttle){3000 * MS, 4000 * MS, 400 * MS, 0};
	trace.throttle_count = 2;
	expect("! The CPU limit of its cgroup stopped its threads, 700 ms in all (sum over CPUs); "
	       "most from +2.000000 to +3.000000: 400 ms; 2 intervals\n");
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup(fn, setup)
	const struct CMUnitTest tests[] = {
		CASE(text__says_from_when_to_when_and_how_sure),
		CASE(text__is_of_the_range_and_bounded),
		CASE(text__has_the_most_throttled_interval),
	};

	return cmocka_run_group_tests_name("stop_text", tests, NULL, NULL);
}
