/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* histogram.h - counts of u64 values in log-linear buckets: at most 1/128 relative error, exact
 * below 256, exact minimum, maximum, count and sum. Integers only: the same bytes on every machine.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_HISTOGRAM_H
#define KY_ANALYZE_HISTOGRAM_H

#include <base/log_buckets.h>
#include <stdint.h>

#define KY_HISTOGRAM_BUCKETS KY_BUCKET_COUNT

struct ky_histogram {
	uint64_t count, total, value_min, value_max; /* total saturates */
	uint64_t *buckets;
};

struct ky_quantiles {
	uint64_t count, total, p50, p90, p99, p999, max, min;
};

int ky_histogram_init(struct ky_histogram *histogram); /* 0, -ENOMEM */
void ky_histogram_release(struct ky_histogram *histogram);
void ky_histogram_add(struct ky_histogram *histogram, uint64_t value);
/* Values that another has counted: `bucket` < KY_HISTOGRAM_BUCKETS. What only their writer
 * knows exactly comes with ky_histogram_join(). */
void ky_histogram_add_bucket(struct ky_histogram *histogram, uint32_t bucket, uint64_t count);
void ky_histogram_join(struct ky_histogram *histogram, uint64_t count, uint64_t total,
		       uint64_t value_min, uint64_t value_max);

/* Smallest value v such that at least numerator/denominator of all values are <= v, up to the
 * bucket's width (its upper edge, never above the maximum). 0 when empty. */
uint64_t ky_histogram_quantile(const struct ky_histogram *histogram, uint64_t numerator,
			       uint64_t denominator);
void ky_histogram_quantiles(const struct ky_histogram *histogram, struct ky_quantiles *out);

/* Bounds of one bucket, for drawing: values in [*from, *to]. */
void ky_histogram_bounds(uint32_t bucket, uint64_t *from, uint64_t *to);

#endif
