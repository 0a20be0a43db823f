/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/histogram.h>
#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define SUB_COUNT (1u << KY_HISTOGRAM_SUB_BITS)

int ky_histogram_init(struct ky_histogram *histogram)
{
	memset(histogram, 0, sizeof(*histogram));
	histogram->buckets = ky_alloc(KY_HISTOGRAM_BUCKETS * sizeof(uint64_t));
	return histogram->buckets ? 0 : -ENOMEM;
}

void ky_histogram_release(struct ky_histogram *histogram)
{
	ky_free(histogram->buckets);
	memset(histogram, 0, sizeof(*histogram));
}

/* Values below 2 * SUB_COUNT have a bucket each; above, each power of two has SUB_COUNT of them. */
static uint32_t bucket_of(uint64_t value)
{
	uint32_t exponent;

	if (value < SUB_COUNT)
		return (uint32_t)value;
	exponent = 63u - (uint32_t)__builtin_clzll(value) - KY_HISTOGRAM_SUB_BITS;
	return (exponent << KY_HISTOGRAM_SUB_BITS) + (uint32_t)(value >> exponent);
}

void ky_histogram_bounds(uint32_t bucket, uint64_t *from, uint64_t *to)
{
	uint32_t exponent = bucket >> KY_HISTOGRAM_SUB_BITS;
	uint64_t place = bucket & (SUB_COUNT - 1);

	if (exponent == 0) {
		*from = place;
		*to = place;
		return;
	}
	exponent--;
	*from = (SUB_COUNT + place) << exponent;
	*to = *from + ((UINT64_C(1) << exponent) - 1);
}

void ky_histogram_add(struct ky_histogram *histogram, uint64_t value)
{
	if (histogram->count == 0 || value < histogram->value_min)
		histogram->value_min = value;
	if (value > histogram->value_max)
		histogram->value_max = value;
	histogram->count++;
	histogram->total = histogram->total > UINT64_MAX - value ? UINT64_MAX :
								   histogram->total + value;
	histogram->buckets[bucket_of(value)]++;
}

uint64_t ky_histogram_quantile(const struct ky_histogram *histogram, uint64_t numerator,
			       uint64_t denominator)
{
	uint64_t wanted, seen = 0, from, to;
	uint32_t bucket;

	if (histogram->count == 0)
		return 0;
	/* ceil(count * numerator / denominator), without overflow for counts below 2^54 */
	wanted = histogram->count / denominator * numerator +
		 (histogram->count % denominator * numerator + denominator - 1) / denominator;
	if (wanted == 0)
		return histogram->value_min;
	for (bucket = 0; bucket < KY_HISTOGRAM_BUCKETS; bucket++) {
		seen += histogram->buckets[bucket];
		if (seen < wanted)
			continue;
		ky_histogram_bounds(bucket, &from, &to);
		return to < histogram->value_max ? to : histogram->value_max;
	}
	return histogram->value_max;
}

void ky_histogram_quantiles(const struct ky_histogram *histogram, struct ky_quantiles *out)
{
	out->count = histogram->count;
	out->total = histogram->total;
	out->min = histogram->value_min;
	out->max = histogram->value_max;
	out->p50 = ky_histogram_quantile(histogram, 50, 100);
	out->p90 = ky_histogram_quantile(histogram, 90, 100);
	out->p99 = ky_histogram_quantile(histogram, 99, 100);
	out->p999 = ky_histogram_quantile(histogram, 999, 1000);
}
