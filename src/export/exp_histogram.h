/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* exp_histogram.h - durations in buckets whose bounds are powers of one base, as OpenTelemetry
 * counts them: bucket i of scale s holds (2^(i / 2^s), 2^((i + 1) / 2^s)] seconds.
 *
 * Invariants:  the scale is the largest that has all values in KY_EXP_BUCKETS buckets, at most
 *              KY_EXP_SCALE_MAX, whatever the order of the values: two buckets become one where the
 *              range grows, and nothing is counted anew. Count, sum, least and most are exact.
 * Memory:      1.3 KB, in the struct.
 * Threads:     owner.
 */
#ifndef KY_EXPORT_EXP_HISTOGRAM_H
#define KY_EXPORT_EXP_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define KY_EXP_BUCKETS 160u
#define KY_EXP_SCALE_MAX 8

/* Bounds of the buckets of the largest scale between 1 and 2. */
struct ky_exp_bounds {
	double bounds[1u << KY_EXP_SCALE_MAX];
};
void ky_exp_bounds_make(struct ky_exp_bounds *out);

/* All zeros: empty. */
struct ky_exp_histogram {
	uint64_t count, zero_count, total_ns, min_ns, max_ns;
	bool has_range;        /* least and most are those of a value */
	int32_t scale, offset; /* of the first bucket; both of nothing: 0 */
	uint32_t bucket_count;
	uint64_t buckets[KY_EXP_BUCKETS];
};

void ky_exp_histogram_add(struct ky_exp_histogram *histogram, const struct ky_exp_bounds *bounds,
			  uint64_t ns);
/* Values of which only the bucket is known, by one that lies in it. */
void ky_exp_histogram_place(struct ky_exp_histogram *histogram, const struct ky_exp_bounds *bounds,
			    uint64_t ns, uint64_t count);
/* ... and what else is known of them. */
void ky_exp_histogram_join(struct ky_exp_histogram *histogram, uint64_t total_ns, uint64_t min_ns,
			   uint64_t max_ns);

#endif
