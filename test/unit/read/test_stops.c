/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "stop_case.h"

#include <signal.h>

static struct read_case c;

static void expect(uint32_t at, uint64_t from_ns, uint64_t to_ns, uint64_t unsure_ns)
{
	assert_true(at < c.trace->stop_count);
	assert_int_equal(c.trace->stops[at].from_ns, from_ns);
	assert_int_equal(c.trace->stops[at].to_ns, to_ns);
	assert_int_equal(c.trace->stops[at].unsure_ns, unsure_ns);
}

static void stop__that_was_told_has_its_moments(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1400, 0, 7);
	case_state(&c, KY_PROCESS_STOPPED, SIGSTOP, 0, 2000, KY_STATE_TOLD);
	case_state(&c, KY_PROCESS_CONTINUED, 0, 0, 5000, KY_STATE_TOLD);
	case_poll(&c, 6000, 6400, 0, 7);
	case_state(&c, KY_PROCESS_STOPPED, SIGTSTP, 0, 7000, KY_STATE_TOLD);
	/* It continues before kymo hears of it. */
	case_poll(&c, 7900, 8100, 0, 7);
	case_state(&c, KY_PROCESS_CONTINUED, 0, 0, 8000, KY_STATE_TOLD);
	case_state(&c, KY_PROCESS_EXITED, 3, 0, 9000, KY_STATE_TOLD);
	case_open(&c);
	assert_int_equal(c.trace->stop_count, 2);
	expect(0, 2000, 5000, 0);
	expect(1, 7000, 7900, 0);
	assert_int_equal(c.trace->stops[0].signal_number, SIGSTOP);
	assert_int_equal(c.trace->stops[1].signal_number, SIGTSTP);
	assert_int_equal(ky_trace_stopped_ns(c.trace, 0, 10000), 3900);
	assert_int_equal(ky_trace_stopped_ns(c.trace, 3000, 4000), 1000);
	assert_int_equal(ky_trace_stopped_ns(c.trace, 4000, 7500), 1500);
	assert_int_equal(ky_trace_stopped_ns(c.trace, 5000, 7000), 0);
	assert_ptr_equal(ky_trace_stop_after(c.trace, 4999), &c.trace->stops[0]);
	assert_ptr_equal(ky_trace_stop_after(c.trace, 5000), &c.trace->stops[1]);
	assert_null(ky_trace_stop_after(c.trace, 7900));
	case_finish(&c);
}

/* Its own events are nearer than the looks: while it is stopped there are none. */
static void stop__that_was_seen_lies_between_its_own_events(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2100, 0, 7); /* after the last look that saw it run */
	case_start(&c, 2200, 0, 8, "svc::task");
	case_state(&c, KY_PROCESS_STOPPED, 0, 2000, 2500, KY_STATE_SEEN);
	case_park(&c, 5200, 1, 101);
	case_end(&c, 5400, 0); /* the poll in which it was stopped ends after it */
	case_state(&c, KY_PROCESS_CONTINUED, 0, 5000, 5500, KY_STATE_SEEN);
	case_open(&c);
	assert_int_equal(c.trace->stop_count, 1);
	expect(0, 2200, 5200, 300 + 200);
	case_finish(&c);
}

static void stop__that_has_no_end_lasts_to_the_last_event(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	case_state(&c, KY_PROCESS_STOPPED, SIGSTOP, 0, 2000, KY_STATE_TOLD);
	ky_trc_enc_event(&c.enc, KY_EV_PRESSURE, 9000);
	ky_trc_enc_u8(&c.enc, 0);
	for (int i = 0; i < 6; i++)
		ky_trc_enc_opt_varint(&c.enc, false, 0);
	case_open(&c);
	expect(0, 2000, 9000, 0);
	assert_true(c.trace->stops[0].is_open);
	case_finish(&c);
}

static void stop__that_the_reader_shared_is_the_longest_silence(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	case_poll(&c, 1200, 1300, 1, 8);
	case_wake(&c, 1350, 0, 7, 1);
	case_poll(&c, 8000, 8100, 0, 7);
	case_state(&c, KY_PROCESS_STOPPED, 0, 900, 8500, KY_STATE_WITH_READER);
	case_state(&c, KY_PROCESS_CONTINUED, 0, 900, 8500, KY_STATE_WITH_READER);
	case_open(&c);
	assert_int_equal(c.trace->stop_count, 1);
	expect(0, 1350, 8000, 8000 - 1350);
	case_finish(&c);
}

static void states__of_nonsense_are_no_stop(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	case_state(&c, KY_PROCESS_CONTINUED, 0, 0, 2000, KY_STATE_TOLD);
	case_state(&c, KY_PROCESS_STOPPED, 0, 5000, 4000, KY_STATE_SEEN); /* backwards */
	case_state(&c, 77, 0, 0, 4500, (enum ky_state_source)9);
	case_throttled(&c, 9, 8, 7);
	case_throttled(&c, 5000, 6000, 800);
	case_throttled(&c, 3000, 4000, 900);
	case_open(&c);
	assert_int_equal(c.trace->stop_count, 0);
	assert_int_equal(c.trace->throttle_count, 2);
	assert_int_equal(c.trace->throttles[0].throttled_ns, 900);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop__that_was_told_has_its_moments),
		cmocka_unit_test(stop__that_was_seen_lies_between_its_own_events),
		cmocka_unit_test(stop__that_has_no_end_lasts_to_the_last_event),
		cmocka_unit_test(stop__that_the_reader_shared_is_the_longest_silence),
		cmocka_unit_test(states__of_nonsense_are_no_stop),
	};

	return cmocka_run_group_tests_name("stops", tests, NULL, NULL);
}
