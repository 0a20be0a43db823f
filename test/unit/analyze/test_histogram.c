/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include <analyze/histogram.h>
#include <errno.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void histogram__quantiles_err_by_less_than_one_percent(void **state)
{
	static uint64_t values[10001];
	static const uint64_t parts[][2] = {{50, 100}, {90, 100}, {99, 100}, {999, 1000},
					    {1, 1},    {0, 1},    {1, 100}};
	struct test_prng prng = {5};
	struct ky_histogram histogram;
	uint64_t total = 0, wanted, got, exact;
	size_t i, round;

	(void)state;
	for (round = 0; round < 20; round++) {
		assert_int_equal(ky_histogram_init(&histogram), 0);
		total = 0;
		for (i = 0; i < 10001; i++) {
			values[i] = test_random(&prng) >> (10 + test_below(&prng, 50));
			total += values[i];
			ky_histogram_add(&histogram, values[i]);
		}
		qsort(values, 10001, sizeof(values[0]), by_value);
		for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
			wanted = (10001 * parts[i][0] + parts[i][1] - 1) / parts[i][1];
			exact = values[wanted ? wanted - 1 : 0];
			got = ky_histogram_quantile(&histogram, parts[i][0], parts[i][1]);
			assert_true(got >= exact);
			assert_true(got - exact <= exact / 128);
		}
		assert_int_equal(histogram.value_min, values[0]);
		assert_int_equal(histogram.value_max, values[10000]);
		assert_int_equal(histogram.total, total);
		ky_histogram_release(&histogram);
	}
}

static void histogram__buckets_meet_without_gap_or_overlap(void **state)
{
	uint64_t from, to, last = UINT64_MAX;
	uint32_t bucket;

	(void)state;
	for (bucket = 0; bucket < KY_HISTOGRAM_BUCKETS; bucket++) {
		ky_histogram_bounds(bucket, &from, &to);
		assert_int_equal(from, last + 1);
		assert_true(to >= from);
		last = to;
	}
	assert_int_equal(last, UINT64_MAX);
}

static void histogram__takes_the_extremes(void **state)
{
	struct ky_histogram histogram;
	struct ky_quantiles quantiles;

	(void)state;
	assert_int_equal(ky_histogram_init(&histogram), 0);
	ky_histogram_quantiles(&histogram, &quantiles);
	assert_int_equal(quantiles.max, 0);
	ky_histogram_add(&histogram, UINT64_MAX);
	ky_histogram_add(&histogram, 0);
	ky_histogram_add(&histogram, 1);
	ky_histogram_quantiles(&histogram, &quantiles);
	assert_int_equal(quantiles.p50, 1);
	assert_int_equal(quantiles.p999, UINT64_MAX);
	assert_int_equal(quantiles.total, UINT64_MAX);
	ky_histogram_release(&histogram);
	test_alloc_fail_at(0);
	assert_int_equal(ky_histogram_init(&histogram), -ENOMEM);
	test_alloc_normal();
	ky_histogram_release(&histogram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histogram__quantiles_err_by_less_than_one_percent),
		cmocka_unit_test(histogram__buckets_meet_without_gap_or_overlap),
		cmocka_unit_test(histogram__takes_the_extremes),
	};

	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
