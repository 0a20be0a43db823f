/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "read_case.h"

#define AT_END (KY_WAKE_AT_END + 4u) /* by a thread that is no worker */

static void wake(struct read_case *c, uint64_t ns, uint64_t woken, uint32_t origin, uint32_t tid)
{
	case_wake_of(c, ns, 0, woken, 255, origin, tid);
}

static void run(struct read_case *c, uint64_t from_ns, uint64_t to_ns, uint64_t task, uint32_t tid)
{
	case_run(c, from_ns, tid, task, "svc::run");
	case_run(c, to_ns, tid, task, NULL);
}

/* Of the n-th run by its start; 0: none. */
static uint64_t waiter(const struct read_case *c, uint32_t n)
{
	uint32_t task = c->trace->blocking_runs[n].waiter;

	return task == KY_NONE ? 0 : c->trace->tasks[task].id;
}

static void run_waiters__is_who_the_end_wakes(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	wake(&c, 1500, 8, 4, 13); /* by the closure itself */
	wake(&c, 1990, 7, AT_END, 13);
	wake(&c, 1995, 9, AT_END, 13); /* by what its output drops */
	run(&c, 1000, 2000, 20, 13);
	run(&c, 1100, 2100, 21, 14); /* another thread's */
	wake(&c, 3500, 8, 4, 13);
	run(&c, 3000, 4000, 22, 13);
	case_open(&c);
	assert_int_equal(c.trace->blocking_count, 3);
	assert_int_equal(waiter(&c, 0), 7);
	assert_int_equal(c.trace->blocking_runs[0].woken_ns, 1990);
	assert_int_equal(waiter(&c, 1), 0);
	assert_int_equal(waiter(&c, 2), 0);
	case_finish(&c);
}

static void run_waiters__needs_a_run_of_that_thread_at_that_moment(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	run(&c, 1000, 2000, 20, 13);
	wake(&c, 2500, 7, AT_END, 13);
	wake(&c, 900, 7, AT_END, 13);
	wake(&c, 1900, 7, AT_END, 12);
	wake(&c, 1900, 7, AT_END, 0);
	case_wake_of(&c, 1900, 3, 7, 0, KY_WAKE_AT_END + 2, 0); /* a task's end, on a worker */
	case_poll(&c, 1000, 2000, 0, 3);
	case_open(&c);
	assert_int_equal(waiter(&c, 0), 0);
	case_finish(&c);
}

static void run_waiters__without_memory_the_trace_does_not_open(void **state)
{
	struct read_case c;
	int result = -ENOMEM;

	(void)state;
	case_begin(&c);
	wake(&c, 1990, 7, AT_END, 13);
	run(&c, 1000, 2000, 20, 13);
	for (uint64_t n = 1; result; n++) {
		test_alloc_fail_at(n);
		result = case_try_open(&c, c.buf.used, NULL);
		test_alloc_fail_at(UINT64_MAX);
		if (!result)
			assert_int_equal(waiter(&c, 0), 7);
		else
			assert_int_equal(result, -ENOMEM);
		case_shut(&c);
	}
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_waiters__is_who_the_end_wakes),
		cmocka_unit_test(run_waiters__needs_a_run_of_that_thread_at_that_moment),
		cmocka_unit_test(run_waiters__without_memory_the_trace_does_not_open),
	};

	return cmocka_run_group_tests_name("run_waiters", tests, NULL, NULL);
}
