/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Against the definition, in the C library's mathematics. */
#include "../../lib/cmocka_all.h"

#include "../../lib/prng.h"
#include <export/exp_histogram.h>
#include <math.h>
#include <string.h>

#define VALUES 4096u

static struct ky_exp_bounds bounds;
static uint64_t values[VALUES];

static int32_t index_of(uint64_t ns, int32_t scale)
{
	int exponent;
	double seconds = (double)ns / 1e9;

	if (frexp(seconds, &exponent) == 0.5)
		return (int32_t)((exponent - 1) * ldexp(1, scale)) - 1;
	return (int32_t)ceil(log2(seconds) * ldexp(1, scale)) - 1;
}

static void check(const struct ky_exp_histogram *histogram, uint32_t count)
{
	uint64_t total = 0, zeros = 0;
	int64_t finer_first = INT64_MAX, finer_last = INT64_MIN;
	struct ky_exp_histogram wanted;

	memset(&wanted, 0, sizeof(wanted));
	for (uint32_t i = 0; i < count; i++) {
		int32_t at;

		total += values[i];
		zeros += values[i] == 0;
		if (!values[i])
			continue;
		at = index_of(values[i], histogram->scale) - histogram->offset;
		assert_in_range(at, 0, histogram->bucket_count - 1);
		wanted.buckets[at]++;
		at = index_of(values[i], histogram->scale + 1);
		finer_first = at < finer_first ? at : finer_first;
		finer_last = at > finer_last ? at : finer_last;
	}
	assert_memory_equal(histogram->buckets, wanted.buckets, sizeof(wanted.buckets));
	assert_int_equal(histogram->count, count);
	assert_int_equal(histogram->zero_count, zeros);
	assert_int_equal(histogram->total_ns, total);
	/* No finer scale has room for them. */
	assert_true(histogram->scale == KY_EXP_SCALE_MAX ||
		    finer_last - finer_first >= (int64_t)KY_EXP_BUCKETS);
}

static void histogram__has_each_value_in_its_bucket(void **state)
{
	struct test_prng prng = {7};
	struct ky_exp_histogram histogram;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t count = 1 + test_below(&prng, VALUES), low = test_below(&prng, 40);
		uint32_t width = 1 + test_below(&prng, 60 - low);

		memset(&histogram, 0, sizeof(histogram));
		for (uint32_t i = 0; i < count; i++) {
			values[i] = test_random(&prng) >> (63 - low - test_below(&prng, width));
			ky_exp_histogram_add(&histogram, &bounds, values[i]);
		}
		check(&histogram, count);
	}
}

static void histogram__is_the_same_in_any_order(void **state)
{
	struct test_prng prng = {11};
	struct ky_exp_histogram one, other;

	(void)state;
	memset(&one, 0, sizeof(one));
	for (uint32_t i = 0; i < VALUES; i++) {
		values[i] = test_random(&prng) >> test_below(&prng, 64);
		ky_exp_histogram_add(&one, &bounds, values[i]);
	}
	memset(&other, 0, sizeof(other));
	for (uint32_t i = VALUES; i-- > 0;) {
		ky_exp_histogram_place(&other, &bounds, values[i], 1);
		ky_exp_histogram_join(&other, values[i], values[i], values[i]);
	}
	assert_memory_equal(&one, &other, sizeof(one));
}

static void histogram__holds_the_ends_of_what_there_is(void **state)
{
	struct ky_exp_histogram histogram;

	(void)state;
	memset(&histogram, 0, sizeof(histogram));
	ky_exp_histogram_add(&histogram, &bounds, UINT64_MAX);
	ky_exp_histogram_add(&histogram, &bounds, 0);
	ky_exp_histogram_add(&histogram, &bounds, 1);
	assert_int_equal(histogram.zero_count, 1);
	assert_int_equal(histogram.min_ns, 0);
	assert_int_equal(histogram.max_ns, UINT64_MAX);
	assert_int_equal(histogram.buckets[0], 1);
	assert_int_equal(histogram.buckets[histogram.bucket_count - 1], 1);
	/* 64 powers of two. */
	assert_int_equal(histogram.scale, 1);
}

static void histogram__puts_a_power_of_two_into_the_bucket_below(void **state)
{
	struct ky_exp_histogram histogram;

	(void)state;
	for (uint64_t ns = UINT64_C(1000000000) >> 9; ns <= UINT64_C(4000000000); ns *= 2) {
		memset(&histogram, 0, sizeof(histogram));
		ky_exp_histogram_add(&histogram, &bounds, ns);
		assert_int_equal(histogram.scale, KY_EXP_SCALE_MAX);
		assert_int_equal(histogram.offset, index_of(ns, KY_EXP_SCALE_MAX));
		assert_int_equal((histogram.offset + 1) % (1 << KY_EXP_SCALE_MAX), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histogram__has_each_value_in_its_bucket),
		cmocka_unit_test(histogram__is_the_same_in_any_order),
		cmocka_unit_test(histogram__holds_the_ends_of_what_there_is),
		cmocka_unit_test(histogram__puts_a_power_of_two_into_the_bucket_below),
	};

	ky_exp_bounds_make(&bounds);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
