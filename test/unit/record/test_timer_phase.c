/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads of many lengths beside a model of the kernel, which checks a timer at each tick: the
 * weights of what is sampled are, on average over the moments at which threads can begin between
 * two ticks, over draws, and over lengths of a third more and less, the threads' CPU time. */
#include "../../lib/cmocka_all.h"

#include <math.h>
#include <record/sample/timer_phase.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define PHASES 101u /* of the tick, at the thread's begin */
#define DRAWS 101u
#define LENGTHS 15u

struct rate {
	uint64_t period_ns, tick_ns;
};

static const struct rate rates[] = {
	{10101010, 4 * MS}, /* 99 Hz where the tick is 250 Hz */
	{10101010, MS},     {10101010, 10 * MS}, {4 * MS, 4 * MS}, {1001001, 4 * MS}, /* 999 Hz */
	{1001001, 10 * MS}, {50 * MS, 4 * MS},
};

/* What the samples of one thread stand for. */
static uint64_t run_thread(uint64_t cpu_ns, const struct rate *rate, uint64_t tick_ns,
			   uint64_t draw)
{
	uint64_t due_ns = ky_timer_first_ns(draw, rate->period_ns, rate->tick_ns);
	uint64_t sum_ns = 0, periods;
	bool is_first = true;

	for (; tick_ns <= cpu_ns; tick_ns += rate->tick_ns) {
		if (tick_ns < due_ns)
			continue;
		periods = (tick_ns - due_ns) / rate->period_ns + 1;
		due_ns += periods * rate->period_ns;
		sum_ns += ky_timer_value_ns(is_first, periods, rate->period_ns, rate->tick_ns);
		is_first = false;
	}
	return sum_ns;
}

/* Sampled of what was run. */
static double average(uint64_t mean_ns, const struct rate *rate)
{
	double sampled = 0.0, run = 0.0;

	for (uint64_t length = 0; length < LENGTHS; length++) {
		uint64_t cpu_ns = mean_ns * 2 / 3 + mean_ns * 2 / 3 * length / (LENGTHS - 1);

		for (uint64_t i = 0; i < PHASES * DRAWS; i++)
			sampled += (double)run_thread(
				cpu_ns, rate, (i % PHASES * 2 + 1) * rate->tick_ns / (2 * PHASES),
				UINT64_MAX / DRAWS * (i / PHASES) + UINT64_MAX / DRAWS / 2);
		run += (double)cpu_ns * PHASES * DRAWS;
	}
	return sampled / run;
}

static void timer_phase__threads_of_any_length_have_their_share(void **state)
{
	static const uint64_t lengths_ns[] = {400 * US, MS,      2 * MS,  3900 * US, 7 * MS,
					      10 * MS,  13 * MS, 47 * MS, 90 * MS};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		for (size_t j = 0; j < sizeof(lengths_ns) / sizeof(lengths_ns[0]); j++) {
			double share = average(lengths_ns[j], &rates[i]);

			if (fabs(share - 1.0) > 0.04)
				fail_msg(
					"period %.3f ms, tick %.0f ms, threads of %.3f ms: %.1f %%",
					(double)rates[i].period_ns / 1e6,
					(double)rates[i].tick_ns / 1e6, (double)lengths_ns[j] / 1e6,
					share * 100.0);
		}
	}
}

static void timer_phase__each_tick_of_a_period_is_equally_likely(void **state)
{
	uint64_t counts[5] = {0};

	(void)state;
	for (uint64_t draw = 0; draw < 1000; draw++) {
		uint64_t first_ns = ky_timer_first_ns(UINT64_MAX / 1000 * draw, 20 * MS, 4 * MS);

		assert_in_range(first_ns, 1, 16 * MS);
		counts[first_ns / (4 * MS)]++;
	}
	for (size_t i = 0; i < 5; i++)
		assert_in_range(counts[i], 199, 201);
}

static void timer_phase__without_a_tick_the_first_expiry_is_anywhere_in_the_period(void **state)
{
	(void)state;
	assert_int_equal(ky_timer_first_ns(0, 10 * MS, 0), 1);
	assert_in_range(ky_timer_first_ns(UINT64_MAX / 2, 10 * MS, 0), 5 * MS - US, 5 * MS);
	assert_in_range(ky_timer_first_ns(UINT64_MAX, 10 * MS, 0), 10 * MS - US, 10 * MS);
	assert_int_equal(ky_timer_value_ns(true, 2, 10 * MS, 0), 20 * MS);
}

static void timer_phase__a_period_longer_than_the_tick_is_one_sample(void **state)
{
	(void)state;
	assert_int_equal(ky_timer_value_ns(true, 1, 10 * MS, 4 * MS), 10 * MS);
	assert_int_equal(ky_timer_value_ns(false, 3, MS, 4 * MS), 3 * MS);
	assert_int_equal(ky_timer_value_ns(true, 1, MS, 4 * MS), 4 * MS);
}

/* Threads that are made one after the other have numbers, and moments, that hardly differ. */
static void timer_phase__draws_of_neighbours_are_even(void **state)
{
	uint64_t counts[16] = {0};

	(void)state;
	for (uint64_t i = 0; i < 16000; i++)
		counts[ky_timer_draw(1000 + i, 5000000 + i * 40) >> 60]++;
	for (size_t i = 0; i < 16; i++) /* four standard deviations, of a sequence that is fixed */
		assert_in_range(counts[i], 1000 - 124, 1000 + 124);
}

static void timer_phase__tick_is_at_most_20_ms(void **state)
{
	uint64_t tick_ns = ky_timer_tick_ns();

	(void)state;
	assert_true(tick_ns <= 20 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timer_phase__threads_of_any_length_have_their_share),
		cmocka_unit_test(timer_phase__each_tick_of_a_period_is_equally_likely),
		cmocka_unit_test(
			timer_phase__without_a_tick_the_first_expiry_is_anywhere_in_the_period),
		cmocka_unit_test(timer_phase__a_period_longer_than_the_tick_is_one_sample),
		cmocka_unit_test(timer_phase__draws_of_neighbours_are_even),
		cmocka_unit_test(timer_phase__tick_is_at_most_20_ms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
