/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "metrics_case.h"

#define LINTS (&m.lints)
#define SECOND UINT64_C(1000000000)

/* Polled so often, each time with a wake of its own or of another one before it. */
static void woken(struct read_case *c, uint64_t task, uint32_t own, uint32_t others)
{
	uint64_t ns = 10000 * task;

	case_spawn(c, ns, task);
	for (uint32_t i = 0; i < own + others; i++, ns += 10) {
		if (i < others)
			case_wake(c, ns + 1, 0, task, 0);
		case_start(c, ns + 2, 0, task, "svc::task");
		if (i >= others)
			case_wake(c, ns + 3, task, task, 0);
		case_end(c, ns + 4, 0);
	}
}

static void console_lints__self_wakes_are_more_than_half(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	woken(&c, 7, 50, 50);
	woken(&c, 8, 51, 49);
	woken(&c, 9, 101, 99); /* 50.5 %: tokio-console's percents are whole */
	woken(&c, 10, 1, 0);
	metrics_make(&m, &c);
	is_exactly(LINTS, "self-wakes", 2);
	assert_int_equal(metric_of(LINTS, "self-wakes")->task_count, 4);
	metrics_release(&m, &c);
}

static void console_lints__a_task_that_waits_may_have_lost_its_waker(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	for (uint64_t task = 7; task < 12; task++) {
		case_spawn(&c, 1000 * task, task);
		case_poll(&c, 1000 * task + 100, 1000 * task + 200, 0, task);
	}
	case_over(&c, 20000, 7, true);
	case_wake(&c, 21000, 0, 8, 0);            /* ready */
	case_spawn(&c, 22000, 12);                /* not polled yet */
	case_start(&c, 23000, 0, 9, "svc::task"); /* running */
	metrics_make(&m, &c);
	is_between(LINTS, "lost-waker", 0, 2);
	metrics_release(&m, &c);
}

static void console_lints__lost_waker_is_exact_where_no_task_waits(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_spawn(&c, 1000, 7);
	case_poll(&c, 2000, 3000, 0, 7);
	case_over(&c, 3000, 7, false);
	metrics_make(&m, &c);
	is_exactly(LINTS, "lost-waker", 0);
	is_missing(LINTS, "auto-boxed-future");
	is_missing(LINTS, "large-future");
	assert_int_equal(m.lints.count, 5);
	metrics_release(&m, &c);
}

static void console_lints__never_yielded_is_a_first_poll_of_a_second(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_spawn(&c, 1000, 7);
	case_poll(&c, 2000, 2000 + SECOND, 0, 7);
	case_spawn(&c, 3 * SECOND, 8);
	case_poll(&c, 3 * SECOND + 1, 4 * SECOND, 0, 8); /* 1 ns less */
	case_spawn(&c, 5 * SECOND, 9);
	case_poll(&c, 5 * SECOND + 1, 5 * SECOND + 2, 0, 9); /* it has yielded before */
	case_wake(&c, 5 * SECOND + 3, 0, 9, 0);
	case_poll(&c, 6 * SECOND, 8 * SECOND, 0, 9);
	metrics_make(&m, &c);
	is_exactly(LINTS, "never-yielded", 1);
	metrics_release(&m, &c);

	case_begin(&c);
	case_poll(&c, 2000, 2000 + SECOND, 0, 7); /* its first one? */
	metrics_make(&m, &c);
	is_between(LINTS, "never-yielded", 0, 1);
	metrics_release(&m, &c);
}

static void console_lints__are_open_where_records_are_missing(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	woken(&c, 7, 10, 1);
	case_loss(&c, 0, 200000, 300000);
	metrics_make(&m, &c);
	is_between(LINTS, "self-wakes", 0, 1);
	is_between(LINTS, "never-yielded", 0, 1);
	metrics_release(&m, &c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(console_lints__self_wakes_are_more_than_half),
		cmocka_unit_test(console_lints__a_task_that_waits_may_have_lost_its_waker),
		cmocka_unit_test(console_lints__lost_waker_is_exact_where_no_task_waits),
		cmocka_unit_test(console_lints__never_yielded_is_a_first_poll_of_a_second),
		cmocka_unit_test(console_lints__are_open_where_records_are_missing),
	};

	return cmocka_run_group_tests_name("console_lints", tests, NULL, NULL);
}
