/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* log_buckets.h - log-linear buckets of u64 values: one bucket each below 256, then 128 for each
 * power of two, so at most 1/128 relative error. The one scheme of all histograms, written
 * (drain) and read (analyze); docs/format.md "Histograms".
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_LOG_BUCKETS_H
#define KY_BASE_LOG_BUCKETS_H

#include <stdint.h>

#define KY_BUCKET_SUB_BITS 7
#define KY_BUCKETS_PER_ROW (1u << KY_BUCKET_SUB_BITS)
#define KY_BUCKET_ROWS (64u - KY_BUCKET_SUB_BITS + 1u)
#define KY_BUCKET_COUNT (KY_BUCKET_ROWS << KY_BUCKET_SUB_BITS)

/* Always below KY_BUCKET_COUNT. */
static inline uint32_t ky_bucket_of(uint64_t value)
{
	uint32_t exponent;

	if (value < KY_BUCKETS_PER_ROW)
		return (uint32_t)value;
	exponent = 63u - (uint32_t)__builtin_clzll(value) - KY_BUCKET_SUB_BITS;
	return (exponent << KY_BUCKET_SUB_BITS) + (uint32_t)(value >> exponent);
}

/* Bounds of one bucket: values in [*from, *to]. */
static inline void ky_bucket_bounds(uint32_t bucket, uint64_t *from, uint64_t *to)
{
	uint32_t exponent = bucket >> KY_BUCKET_SUB_BITS;
	uint64_t place = bucket & (KY_BUCKETS_PER_ROW - 1);

	if (exponent == 0) {
		*from = place;
		*to = place;
		return;
	}
	exponent--;
	*from = (KY_BUCKETS_PER_ROW + place) << exponent;
	*to = *from + ((UINT64_C(1) << exponent) - 1);
}

#endif
