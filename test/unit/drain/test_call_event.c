/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls that fail again and again, from their record to their event. */
#include "../../lib/drain_case.h"

#include <errno.h>

static void failed_calls__are_of_the_task_that_is_polled(void **state)
{
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	test_poll(&w, T0 + MS, 7, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_FAILED_CALLS, EMFILE, 1,
		  UINT64_C(288) << 52 | UINT64_C(9) << 32 | 512, 0, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	/* Without a descriptor, and outside of any poll. */
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_FAILED_CALLS, EAGAIN, 1,
		  UINT64_C(1) << 52 | UINT32_MAX, 0, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, FAILED_CALLS), 2);
	event = EVENT(&c, FAILED_CALLS, 0);
	assert_int_equal(NUMBER(event, FAILED_CALLS, tid), 501);
	assert_int_equal(NUMBER(event, FAILED_CALLS, task_id), 7);
	assert_int_equal(NUMBER(event, FAILED_CALLS, syscall_number), 288);
	assert_int_equal(NUMBER(event, FAILED_CALLS, error), EMFILE);
	assert_int_equal(NUMBER(event, FAILED_CALLS, fd), 8);
	assert_int_equal(NUMBER(event, FAILED_CALLS, failed_count), 512);
	event = EVENT(&c, FAILED_CALLS, 1);
	assert_int_equal(NUMBER(event, FAILED_CALLS, task_id), 0);
	assert_int_equal(NUMBER(event, FAILED_CALLS, failed_count), UINT32_MAX);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_calls__are_of_the_task_that_is_polled),
	};

	return cmocka_run_group_tests_name("call_event", tests, NULL, NULL);
}
