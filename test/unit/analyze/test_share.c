/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include <analyze/share.h>

static struct ky_share share_of(uint64_t part, uint64_t all, uint64_t lost)
{
	struct ky_weights weights = {0};

	for (uint64_t i = 0; i < all; i++)
		ky_weights_add(&weights, 1.0);
	return ky_share_of((double)part, &weights, lost);
}

/* By R: prop.test(x, n, correct = FALSE)$conf.int */
static void share__is_wilsons(void **state)
{
	struct ky_share share = share_of(1, 10, 0);

	(void)state;
	assert_int_equal(share.ppm, 100000);
	assert_int_equal(share.low_ppm, 17876);
	assert_int_equal(share.high_ppm, 404150);
	share = share_of(0, 10, 0);
	assert_int_equal(share.low_ppm, 0);
	assert_int_equal(share.high_ppm, 277533);
	share = share_of(50, 100, 0);
	assert_int_equal(share.low_ppm, 403832);
	assert_int_equal(share.high_ppm, 596168);
	share = share_of(1, 1, 0); /* one sample says little */
	assert_int_equal(share.low_ppm, 206549);
	assert_int_equal(share.high_ppm, 1000000);
	share = share_of(0, 0, 0);
	assert_int_equal(share.low_ppm, 0);
	assert_int_equal(share.high_ppm, 1000000);
}

static void share__widens_by_what_was_lost(void **state)
{
	struct ky_share share = share_of(50, 100, 100), whole = share_of(50, 100, 0);

	(void)state;
	assert_int_equal(share.ppm, 500000);
	assert_int_equal(share.low_ppm, whole.low_ppm / 2);
	assert_int_equal(share.high_ppm, whole.high_ppm / 2 + 500000);
}

static void share__counts_unequal_weights_as_fewer(void **state)
{
	struct ky_weights weights = {0};
	struct ky_share share;

	(void)state;
	ky_weights_add(&weights, 98.0);
	for (int i = 0; i < 98; i++)
		ky_weights_add(&weights, 1.0);
	share = ky_share_of(98.0, &weights, 0);
	assert_int_equal(share.ppm, 500000);
	assert_true(share.low_ppm < 180000 && share.high_ppm > 820000);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* 1,000 seeded runs each: the interval holds the truth in about 95 of 100. */
static void share__interval_covers_the_truth(void **state)
{
	static const uint32_t truths[] = {20000, 100000, 300000, 500000, 900000};
	uint64_t seed = 12345;

	(void)state;
	for (size_t t = 0; t < sizeof(truths) / sizeof(truths[0]); t++) {
		uint32_t covered = 0;

		for (uint32_t run = 0; run < 1000; run++) {
			struct ky_share share;
			uint64_t part = 0;

			for (uint32_t i = 0; i < 200; i++)
				part += next_random(&seed) % 1000000 < truths[t];
			share = share_of(part, 200, 0);
			covered += share.low_ppm <= truths[t] && truths[t] <= share.high_ppm;
		}
		assert_true(covered >= 925 && covered <= 985);
	}
}

/* Each of 1,000 things of size 1 is seen with chance 1/4. */
static void total__margin_covers_the_truth(void **state)
{
	uint32_t covered = 0;
	uint64_t seed = 777;

	(void)state;
	for (uint32_t run = 0; run < 1000; run++) {
		struct ky_total total = {0};
		double margin;

		for (uint32_t i = 0; i < 1000; i++)
			if (next_random(&seed) % 4 == 0)
				ky_total_add(&total, 4.0, 1.0);
		margin = ky_total_margin(&total);
		covered += total.sum - margin <= 1000.0 && 1000.0 <= total.sum + margin;
	}
	assert_true(covered >= 930 && covered <= 970);
}

static double next_share(uint64_t *state)
{
	return (double)(next_random(state) >> 11) / (double)(UINT64_C(1) << 53);
}

/* A run of 100 s, watched in windows of 50 ms whose gaps are drawn as the recorder draws them.
 * Bursts of so many waits of up to 4 ms begin so many ms apart on average. Returns whether the
 * interval holds the time that was waited. */
static int holds_windows(uint64_t *state, uint32_t waits, double apart_ms)
{
	struct ky_cluster cluster = {.window = 0};
	double truth = 0.0, wait_ms = 0.0, begin = 0.0, from, margin;
	struct ky_total total = {0};

	from = 200.0 * (0.5 + next_share(state));
	for (double at = 0.0; at < 100000.0;) {
		at += 2.0 * apart_ms * next_share(state);
		for (uint32_t i = 0; i < waits; i++, at += wait_ms + 1.0) {
			wait_ms = 4.0 * next_share(state);
			truth += wait_ms;
			while (at >= from + 50.0) {
				begin = from + 50.0;
				from = begin + 200.0 * (0.5 + next_share(state));
			}
			if (at >= from) /* its weight is the window's: the stretch by its length */
				ky_cluster_add(&total, &cluster, (uint64_t)from,
					       (from + 50.0 - begin) / 50.0,
					       (from + 50.0 - begin) / 50.0, wait_ms);
		}
	}
	ky_cluster_end(&total, &cluster);
	margin = ky_total_margin(&total);
	return total.sum - margin <= truth && truth <= total.sum + margin;
}

/* 300 seeded runs each. One window a stretch varies less than windows drawn one by one, of which
 * the variance is: where waits are as many everywhere, the interval is wider than it has to be. */
static void windows__margin_covers_the_truth(void **state)
{
	static const struct {
		uint32_t waits;
		double apart_ms;
	} loads[] = {{1, 5.0}, {1, 100.0}, {20, 1000.0}, {50, 3000.0}};
	uint64_t seed = 4242;

	(void)state;
	for (size_t load = 0; load < sizeof(loads) / sizeof(loads[0]); load++) {
		uint32_t covered = 0;

		for (uint32_t run = 0; run < 300; run++)
			covered += (uint32_t)holds_windows(&seed, loads[load].waits,
							   loads[load].apart_ms);
		print_message("# load %zu: %u of 300\n", load, covered);
		assert_true(covered >= 276);
	}
}

static void root__is_exact_where_it_can_be(void **state)
{
	(void)state;
	assert_true(ky_square_root(144.0) == 12.0);
	assert_true(ky_square_root(0.25) == 0.5);
	assert_true(ky_square_root(1e-12) > 0.999999e-6 && ky_square_root(1e-12) < 1.000001e-6);
	assert_true(ky_square_root(-1.0) == 0.0);
	assert_int_equal(ky_whole(1e30), UINT64_MAX);
	assert_int_equal(ky_whole(2.5), 3);
	assert_int_equal(ky_whole(-2.5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share__is_wilsons),
		cmocka_unit_test(share__widens_by_what_was_lost),
		cmocka_unit_test(share__counts_unequal_weights_as_fewer),
		cmocka_unit_test(share__interval_covers_the_truth),
		cmocka_unit_test(total__margin_covers_the_truth),
		cmocka_unit_test(windows__margin_covers_the_truth),
		cmocka_unit_test(root__is_exact_where_it_can_be),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
