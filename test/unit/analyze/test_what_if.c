/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What it computes: test/cli/test_what_if.py. */
#include "../read/read_case.h"
#include <analyze/what_if.h>

/* A hog that wakes many, on two of four workers, with parks and wakes from outside. */
static void many_open(struct read_case *c)
{
	case_begin(c);
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t ns = 1000 + (uint64_t)round * 100000;
		uint32_t worker = round % 2 * 3;

		case_wake(c, ns, 0, 1, 255);
		case_start(c, ns + 100, worker, 1, "svc::hog");
		for (uint64_t task = 2; task < 40; task++)
			case_wake(c, ns + 100 * task, 1, task, worker);
		case_end(c, ns + 50000, worker);
		for (uint64_t task = 2; task < 40; task++) {
			case_start(c, ns + 50000 + task * 1000, worker, task, "svc::task");
			case_end(c, ns + 50000 + task * 1000 + 500, worker);
		}
		case_wake(c, ns + 91000, 0, 50 + round, 255);
		case_park(c, ns + 91000, worker, 12);
		case_unpark(c, ns + 92000, worker, 12);
		case_start(c, ns + 93000, worker, 50 + round, "svc::io");
		case_end(c, ns + 93500, worker);
	}
	case_open(c);
}

static void what_if__shortens_on_each_worker(void **state)
{
	const struct ky_why_options options = {.over_ns = 20000};
	struct ky_what_if_cap cap = {.cap_ns = 10000};
	static struct ky_what_if what_if;
	struct read_case c;

	(void)state;
	many_open(&c);
	assert_int_equal(ky_what_if_find(c.trace, "hog", &cap.name, 1), 1);
	assert_int_equal(ky_what_if_make(&what_if, c.trace, &options, &cap, 1), 0);
	assert_int_equal(what_if.places[0].shortened_count, 20);
	assert_int_equal(what_if.places[0].shortened_ns, UINT64_C(20) * 39900);
	assert_int_equal(what_if.all.before.ns.count, c.trace->delays_measured);
	assert_int_equal(what_if.all.after.ns.count, what_if.all.before.ns.count);
	assert_int_equal(what_if.all.before.over_count, 20 * 38);
	/* Task 39, the last one: woken at 39 / 500 of the hog, polled as long after its end. */
	assert_int_equal(what_if.all.before.ns.max, 50000 + 39 * 1000 - 39 * 100);
	assert_true(what_if.all.after.ns.max < what_if.all.before.ns.max - 30000);
	assert_int_equal(what_if.replay.kept_home_count, 0);
	case_finish(&c);
}

static void what_if__survives_each_failing_allocation(void **state)
{
	const struct ky_why_options options = {.over_ns = 20000};
	struct ky_what_if_cap cap = {.cap_ns = 10000};
	static struct ky_what_if what_if;
	int result = -ENOMEM;
	struct read_case c;
	uint64_t n;

	(void)state;
	many_open(&c);
	for (n = 0; result != 0; n++) {
		test_alloc_fail_at(n);
		result = ky_what_if_find(c.trace, "svc::hog", &cap.name, 1);
		if (result == 1)
			result = ky_what_if_make(&what_if, c.trace, &options, &cap, 1);
		test_alloc_normal();
		assert_true(result == 0 || result == -ENOMEM);
	}
	assert_true(n > 20);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_if__shortens_on_each_worker),
		cmocka_unit_test(what_if__survives_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("what_if", tests, NULL, NULL);
}
