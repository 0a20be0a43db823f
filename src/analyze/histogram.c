/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/histogram.h>
#include <base/alloc.h>
#include <errno.h>
#include <string.h>

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

void ky_histogram_bounds(uint32_t bucket, uint64_t *from, uint64_t *to)
{
	ky_bucket_bounds(bucket, from, to);
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void ky_histogram_add_bucket(struct ky_histogram *histogram, uint32_t bucket, uint64_t count)
{
	histogram->buckets[bucket] = add_up(histogram->buckets[bucket], count);
}

void ky_histogram_join(struct ky_histogram *histogram, uint64_t count, uint64_t total,
		       uint64_t value_min, uint64_t value_max)
{
	if (count == 0)
		return;
	if (histogram->count == 0 || value_min < histogram->value_min)
		histogram->value_min = value_min;
	if (value_max > histogram->value_max)
		histogram->value_max = value_max;
	histogram->count = add_up(histogram->count, count);
	histogram->total = add_up(histogram->total, total);
}

void ky_histogram_add(struct ky_histogram *histogram, uint64_t value)
{
	if (histogram->count == 0 || value < histogram->value_min)
		histogram->value_min = value;
	if (value > histogram->value_max)
		histogram->value_max = value;
	histogram->count++;
	histogram->total = add_up(histogram->total, value);
	histogram->buckets[ky_bucket_of(value)]++;
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
