/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sampling in windows: what it costs, and that what is seen in them stands for the whole. */
#include "../../lib/cmocka_all.h"

#include <probe/perf_source.h>
#include <probe/sample_duty.h>

#define MS UINT64_C(1000000)
#define SECOND_NS (1000 * MS)
#define CPUS 2u
#define SWITCH_NS 1000u

struct run {
	uint64_t open_ns, whole_ns, toggles;
	double weighed_ns; /* what is sampled stands for so much time */
};

static uint64_t toggle_ns; /* what each stop and each start takes */

/* Checks come as late as they like: every now and then by 30 ms. */
static struct run follow(struct ky_sample_duty *duty, uint64_t switches_per_s, uint64_t seconds)
{
	struct run run = {0};
	uint64_t now_ns = duty->since_ns, end_ns = now_ns + seconds * SECOND_NS, readings = 0;

	while (now_ns < end_ns) {
		uint64_t pace_ns = ky_sample_duty_pace_ns(duty, now_ns), share_ppm;
		uint64_t step_ns = (pace_ns < 100 * MS ? pace_ns : 100 * MS) + MS;

		step_ns += readings++ % 7 == 0 ? 30 * MS : 0;
		now_ns += step_ns;
		run.whole_ns += step_ns;
		share_ppm = ky_sample_duty_share_ppm(duty);
		if (duty->is_open) {
			run.open_ns += step_ns;
			run.weighed_ns += (double)step_ns *
					  (share_ppm ? 1e6 / (double)share_ppm : 1);
		}
		if (ky_sample_duty_step(duty, now_ns, switches_per_s)) {
			run.toggles++;
			ky_sample_duty_toggled(duty, toggle_ns);
		}
	}
	return run;
}

static void begin(struct ky_sample_duty *duty, uint64_t seed)
{
	ky_sample_duty_init(duty, SWITCH_NS, CPUS, seed);
	ky_sample_duty_start(duty, 77 * SECOND_NS);
}

static void duty__few_switches_are_sampled_always(void **state)
{
	struct ky_sample_duty duty;
	struct run run;

	(void)state;
	begin(&duty, 1);
	/* 0.5 % of two CPUs pay for 10,000. */
	run = follow(&duty, 10000, 60);
	assert_int_equal(run.toggles, 0);
	assert_int_equal(run.open_ns, run.whole_ns);
	run = follow(&duty, 0, 60); /* unknown */
	assert_int_equal(run.toggles, 0);
	assert_int_equal(ky_sample_duty_pace_ns(&duty, UINT64_C(1) << 60), UINT64_MAX);
}

static void duty__many_cost_as_much_as_is_allowed(void **state)
{
	struct ky_sample_duty duty;
	struct run run;

	(void)state;
	for (uint64_t rate = 20000; rate <= 160000; rate *= 2) {
		double cost;

		begin(&duty, rate);
		(void)follow(&duty, rate, 2);
		run = follow(&duty, rate, 600);
		cost = (double)run.open_ns / (double)run.whole_ns * (double)rate * SWITCH_NS / 1e9;
		assert_true(cost > 0.009 && cost < 0.011);
	}
	begin(&duty, 3);
	run = follow(&duty, 10000000, 600);
	assert_in_range(run.whole_ns / run.open_ns, KY_SAMPLE_SHARE_INVERSE_MAX - 5,
			KY_SAMPLE_SHARE_INVERSE_MAX + 5);
}

static void duty__what_is_seen_stands_for_the_whole(void **state)
{
	struct ky_sample_duty duty;
	double ratio;
	struct run run;

	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		begin(&duty, seed);
		(void)follow(&duty, 15000 * seed, 5);
		run = follow(&duty, 15000 * seed, 600);
		ratio = run.weighed_ns / (double)run.whole_ns;
		assert_true(ratio > 0.99 && ratio < 1.01);
	}
}

/* 500 threads on 64 CPUs. */
static void duty__where_stops_and_starts_take_long_they_are_few(void **state)
{
	struct ky_sample_duty duty;
	struct run run;
	double ratio;

	(void)state;
	begin(&duty, 9);
	(void)follow(&duty, 40000, 60);
	run = follow(&duty, 40000, 600);
	assert_in_range(run.toggles, 2000, 6000);
	toggle_ns = 5 * MS;
	(void)follow(&duty, 40000, 60);
	run = follow(&duty, 40000, 6000);
	toggle_ns = 0;
	assert_true(run.toggles * 5 * MS * 1000 < run.whole_ns * 3 / 2);
	assert_true(run.toggles > 100);
	ratio = run.weighed_ns / (double)run.whole_ns;
	assert_true(ratio > 0.97 && ratio < 1.03);
}

static void duty__all_are_sampled_when_switches_are_few_again(void **state)
{
	struct ky_sample_duty duty;
	struct run run;

	(void)state;
	begin(&duty, 5);
	run = follow(&duty, 100000, 10);
	assert_true(run.toggles > 10);
	assert_in_range(ky_sample_duty_share_ppm(&duty), 99000, 101000);
	(void)follow(&duty, 100, 5);
	assert_true(duty.is_open);
	assert_int_equal(ky_sample_duty_share_ppm(&duty), 0);
	run = follow(&duty, 100, 10);
	assert_int_equal(run.toggles, 0);
}

static void duty__a_sample_has_the_weight_of_its_window(void **state)
{
	const struct ky_perf_sample sample = {.pid = 3, .period_ns = 10 * MS};
	struct ky_sample_duty duty;

	(void)state;
	begin(&duty, 7);
	assert_int_equal(ky_sample_duty_weigh(&duty, &sample).period_ns, 10 * MS);
	(void)follow(&duty, 40000, 10);
	assert_int_equal(ky_sample_duty_weigh(&duty, &sample).period_ns, 40 * MS);
	assert_int_equal(ky_sample_duty_weigh(&duty, &sample).pid, 3);
	ky_sample_duty_start(&duty, 200 * SECOND_NS); /* after a pause */
	assert_int_equal(ky_sample_duty_weigh(&duty, &sample).period_ns, 10 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duty__few_switches_are_sampled_always),
		cmocka_unit_test(duty__many_cost_as_much_as_is_allowed),
		cmocka_unit_test(duty__what_is_seen_stands_for_the_whole),
		cmocka_unit_test(duty__where_stops_and_starts_take_long_they_are_few),
		cmocka_unit_test(duty__all_are_sampled_when_switches_are_few_again),
		cmocka_unit_test(duty__a_sample_has_the_weight_of_its_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
