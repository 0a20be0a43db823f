/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <probe/switch_duty.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

struct run {
	uint64_t observed_ns, whole_ns, cost_ns, windows;
};

/* A process with so many records a second, each of which costs a microsecond; a window costs
 * something itself. */
static struct run watch(struct ky_switch_duty *duty, uint64_t records_hz, uint64_t windows)
{
	struct run run = {0};

	for (; run.windows < windows; run.windows++) {
		uint64_t window_ns = duty->window_ns;
		uint64_t cost_ns = 20 * US + window_ns * records_hz / (1000 * MS) * US;
		uint64_t gap_ns = ky_switch_duty_after(duty, window_ns, cost_ns);

		run.observed_ns += window_ns;
		run.whole_ns += window_ns + gap_ns;
		run.cost_ns += cost_ns;
	}
	return run;
}

static void duty__costs_as_much_as_is_allowed(void **state)
{
	struct ky_switch_duty duty;
	struct run run;

	(void)state;
	for (uint64_t hz = 10000; hz <= 10000000; hz *= 10) {
		ky_switch_duty_init(&duty, hz);
		run = watch(&duty, hz, 1000);
		/* 0.3 %, within what the drawn times leave open. */
		assert_in_range(run.cost_ns * 100000 / run.whole_ns, 270, 330);
		assert_in_range(duty.window_ns, KY_DUTY_WINDOW_NS_MIN, KY_DUTY_WINDOW_NS_MAX);
	}
}

static void duty__few_records_are_watched_all_the_time(void **state)
{
	struct ky_switch_duty duty;
	struct run run;

	(void)state;
	ky_switch_duty_init(&duty, 1);
	(void)watch(&duty, 500, 20);
	assert_int_equal(duty.window_ns, KY_DUTY_WINDOW_NS_MAX);
	run = watch(&duty, 500, 100);
	assert_int_equal(run.observed_ns, run.whole_ns);
	/* Longer only at its owner's word. */
	duty.most_ns = KY_DUTY_WINDOW_NS_QUIET;
	(void)watch(&duty, 1, 20);
	assert_int_equal(duty.window_ns, KY_DUTY_WINDOW_NS_QUIET);
	duty.most_ns = KY_DUTY_WINDOW_NS_MAX;
	(void)watch(&duty, 500, 1);
	assert_int_equal(duty.window_ns, KY_DUTY_WINDOW_NS_MAX);
	/* And seldom as soon as they are many. */
	(void)watch(&duty, 100000, 20);
	run = watch(&duty, 100000, 100);
	assert_true(run.observed_ns * 20 < run.whole_ns);
}

static void duty__times_between_are_not_the_same(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct ky_switch_duty duty;

	(void)state;
	ky_switch_duty_init(&duty, 5);
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t gap_ns = ky_switch_duty_after(&duty, 20 * MS, MS);

		least = gap_ns < least ? gap_ns : least;
		most = gap_ns > most ? gap_ns : most;
	}
	/* A millisecond of cost pays for 333. */
	assert_in_range(least, 313 * MS / 2, 313 * MS / 10 * 6);
	assert_in_range(most, 313 * MS / 10 * 14, 313 * MS / 2 * 3);
}

static void duty__extreme_values_overflow_nothing(void **state)
{
	struct ky_switch_duty duty;

	(void)state;
	ky_switch_duty_init(&duty, 0);
	assert_true(ky_switch_duty_after(&duty, MS, UINT64_MAX) > MS);
	assert_int_equal(ky_switch_duty_after(&duty, MS, 0), 0);
	assert_int_equal(ky_switch_duty_after(&duty, 0, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duty__costs_as_much_as_is_allowed),
		cmocka_unit_test(duty__few_records_are_watched_all_the_time),
		cmocka_unit_test(duty__times_between_are_not_the_same),
		cmocka_unit_test(duty__extreme_values_overflow_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
