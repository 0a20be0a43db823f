/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/exp_histogram.h>

#include <analyze/log_exp.h>
#include <string.h>

#define SUB_BUCKETS (1 << KY_EXP_SCALE_MAX)
#define LN2 0.69314718055994530942
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023

void ky_exp_bounds_make(struct ky_exp_bounds *out)
{
	for (int i = 0; i < SUB_BUCKETS; i++)
		out->bounds[i] = ky_exp(LN2 * i / SUB_BUCKETS);
	out->bounds[0] = 1;
}

/* ns > 0. A value on a bound belongs to the bucket below it. */
static int32_t index_of(const struct ky_exp_bounds *bounds, uint64_t ns)
{
	double seconds = (double)ns / 1e9;
	uint32_t below = 0;
	int32_t exponent;
	uint64_t bits;

	memcpy(&bits, &seconds, sizeof(bits));
	exponent = (int32_t)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
	bits = (bits & ((UINT64_C(1) << MANTISSA_BITS) - 1)) | (uint64_t)EXPONENT_BIAS
								       << MANTISSA_BITS;
	memcpy(&seconds, &bits, sizeof(seconds));
	/* How many bounds are less than it. */
	for (uint32_t step = SUB_BUCKETS / 2; step; step /= 2)
		below += bounds->bounds[below + step - 1] < seconds ? step : 0;
	below += bounds->bounds[below] < seconds;
	return exponent * SUB_BUCKETS + (int32_t)below - 1;
}

/* Rounds down, which a shift of a negative number need not. */
static int32_t halve(int32_t index)
{
	return index >= 0 ? index / 2 : -((1 - index) / 2);
}

static void join_pairs(struct ky_exp_histogram *histogram)
{
	int32_t offset = halve(histogram->offset);
	uint32_t count = 0;

	for (uint32_t i = 0; i < histogram->bucket_count; i++) {
		uint64_t values = histogram->buckets[i];

		histogram->buckets[i] = 0;
		count = (uint32_t)(halve(histogram->offset + (int32_t)i) - offset);
		histogram->buckets[count] += values;
	}
	histogram->bucket_count = count + 1;
	histogram->offset = offset;
	histogram->scale--;
}

static void count_in(struct ky_exp_histogram *histogram, int32_t index, uint64_t count)
{
	int32_t first, last;

	if (!histogram->bucket_count) {
		histogram->scale = KY_EXP_SCALE_MAX;
		histogram->offset = index;
		histogram->bucket_count = 1;
	}
	for (int32_t scale = KY_EXP_SCALE_MAX; scale > histogram->scale; scale--)
		index = halve(index);
	for (;;) {
		first = histogram->offset;
		last = first + (int32_t)histogram->bucket_count - 1;
		first = index < first ? index : first;
		last = index > last ? index : last;
		if (last - first < (int32_t)KY_EXP_BUCKETS)
			break;
		join_pairs(histogram);
		index = halve(index);
	}
	if (first < histogram->offset) {
		uint32_t by = (uint32_t)(histogram->offset - first);

		memmove(histogram->buckets + by, histogram->buckets,
			histogram->bucket_count * sizeof(histogram->buckets[0]));
		memset(histogram->buckets, 0, by * sizeof(histogram->buckets[0]));
		histogram->offset = first;
	}
	histogram->bucket_count = (uint32_t)(last - first + 1);
	histogram->buckets[index - first] += count;
}

void ky_exp_histogram_place(struct ky_exp_histogram *histogram, const struct ky_exp_bounds *bounds,
			    uint64_t ns, uint64_t count)
{
	if (!count)
		return;
	histogram->count += count;
	if (ns)
		count_in(histogram, index_of(bounds, ns), count);
	else
		histogram->zero_count += count;
}

void ky_exp_histogram_join(struct ky_exp_histogram *histogram, uint64_t total_ns, uint64_t min_ns,
			   uint64_t max_ns)
{
	histogram->total_ns += total_ns;
	if (max_ns > histogram->max_ns)
		histogram->max_ns = max_ns;
	if (!histogram->has_range || min_ns < histogram->min_ns)
		histogram->min_ns = min_ns;
	histogram->has_range = true;
}

void ky_exp_histogram_add(struct ky_exp_histogram *histogram, const struct ky_exp_bounds *bounds,
			  uint64_t ns)
{
	ky_exp_histogram_place(histogram, bounds, ns, 1);
	ky_exp_histogram_join(histogram, ns, ns, ns);
}
