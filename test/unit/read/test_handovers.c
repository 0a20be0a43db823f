/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "read_case.h"

#include <read/handovers.h>
#include <read/turns.h>

/* Row of the nested polls of the thread. */
static struct ky_poll nested_poll(const struct read_case *c, uint32_t tid, uint64_t row)
{
	struct ky_poll poll = {0};

	for (uint32_t i = 0; i < c->trace->worker_count; i++) {
		if (c->trace->workers[i].is_thread_lane && c->trace->workers[i].tid == tid)
			ky_trace_poll(c->trace, i, row, &poll);
	}
	return poll;
}

static void handovers__split_a_poll_in_two(void **state)
{
	const struct ky_trace_handover *handover;
	struct read_case c;
	struct ky_poll poll;

	(void)state;
	case_begin(&c);
	case_nested(&c, 500, 0, 11, 0, 6); /* of no worker, and no move at its start */
	case_nested_end(&c, 600, 0, 11);
	case_poll(&c, 1000, 1500, 0, 7);
	case_nested(&c, 1500, 0, 11, 0, 7);
	case_move(&c, 1500, 0, 11, 12, 1400);
	case_nested(&c, 2000, 0, 11, 1, 9); /* block_on in it */
	case_nested_end(&c, 2100, 0, 11);
	case_poll(&c, 1600, 1700, 0, 8);
	case_nested_end(&c, 9000, 0, 11);
	case_nested(&c, 9500, 0, 11, 0, 10);
	case_nested_end(&c, 9600, 0, 11);
	case_move(&c, 9700, 0, 12, 11, 0); /* between polls */
	case_poll(&c, 9700, 9800, 0, 8);
	case_open(&c);
	poll = case_nth_poll(&c, 0, 0);
	/* Its worker was on its way from then on. */
	assert_int_equal(poll.start_ns + poll.duration_ns, 1400);
	handover = ky_trace_handover(c.trace, &poll);
	assert_non_null(handover);
	assert_int_equal(handover->to_tid, 12);
	assert_int_equal(handover->until_ns, 9000);
	assert_false(ky_trace_is_handed_over(c.trace, &poll));
	for (uint64_t row = 1; row < 3; row++) {
		poll = case_nth_poll(&c, 0, row);
		assert_null(ky_trace_handover(c.trace, &poll));
		assert_false(ky_trace_is_handed_over(c.trace, &poll));
	}
	assert_int_equal(ky_trace_thread_at(c.trace, 0, 1000), 11);
	assert_int_equal(ky_trace_thread_at(c.trace, 0, 1600), 12);
	assert_int_equal(ky_trace_thread_at(c.trace, 0, 9699), 12);
	assert_int_equal(ky_trace_thread_at(c.trace, 0, 9700), 11);
	for (uint64_t row = 0; row < 4; row++) {
		poll = nested_poll(&c, 11, row);
		assert_int_equal(ky_trace_is_handed_over(c.trace, &poll), row == 1 || row == 2);
		assert_null(ky_trace_handover(c.trace, &poll));
	}
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handovers__split_a_poll_in_two),
	};

	return cmocka_run_group_tests_name("handovers", tests, NULL, NULL);
}
