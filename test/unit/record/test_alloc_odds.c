/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The chances of allocation sampling against the C library's exp(). */
#include "../../lib/cmocka_all.h"

#include <math.h>
#include <record/sample/alloc_odds.h>

#define ONE 4294967296.0

static void odds__weight_is_the_inverse_of_the_chance(void **state)
{
	static const uint64_t means[] = {1024, 65536, 524288, 1u << 30};

	(void)state;
	for (size_t m = 0; m < sizeof(means) / sizeof(means[0]); m++)
		for (uint64_t bytes = 1; bytes < UINT64_C(1) << 40; bytes = bytes * 5 / 4 + 1) {
			double x = (double)bytes / (double)means[m];
			double weight = (double)ky_alloc_weight(bytes, means[m]) / ONE;

			assert_true(fabs(weight * -expm1(-x) - 1.0) < 1e-9);
			assert_true(weight >= 1.0);
		}
	assert_true(ky_alloc_weight(0, 1024) == UINT64_C(1024) << 32);
	assert_true(ky_alloc_weight(UINT64_MAX, 1024) == UINT64_C(1) << 32);
}

static void odds__gap_is_an_exponential_quantile(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t random = i * (UINT64_MAX / 10000);
		double u = ((double)(random >> 11) + 0.5) / 9007199254740992.0;
		double gap = (double)ky_alloc_gap(random, 1u << 30);

		assert_true(fabs(gap - floor(-log(u) * 1073741824.0)) <= 1.0);
	}
	/* Both ends are numbers. */
	assert_true(ky_alloc_gap(0, UINT64_C(1) << 32) <= KY_ALLOC_GAP_MAX);
	assert_int_equal(ky_alloc_gap(UINT64_MAX, 1024), 0);
}

static void odds__gaps_have_the_mean_and_spread_of_an_exponential(void **state)
{
	uint64_t seed = 4711;
	double sum = 0.0, squares = 0.0;
	const double count = 200000.0;

	(void)state;
	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		double gap = (double)ky_alloc_gap(ky_alloc_random(&seed), 524288) / 524288.0;

		sum += gap;
		squares += gap * gap;
	}
	/* Four standard deviations: 1 / sqrt(n), sqrt(20 / n). */
	assert_true(fabs(sum / count - 1.0) < 4.0 / sqrt(count));
	assert_true(fabs(squares / count - 2.0) < 4.0 * sqrt(20.0 / count));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(odds__weight_is_the_inverse_of_the_chance),
		cmocka_unit_test(odds__gap_is_an_exponential_quantile),
		cmocka_unit_test(odds__gaps_have_the_mean_and_spread_of_an_exponential),
	};

	return cmocka_run_group_tests_name("alloc_odds", tests, NULL, NULL);
}
