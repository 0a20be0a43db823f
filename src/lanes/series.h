/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* series.h - numbers over time: how many tasks lived, and how many were ready to run and had no
 * worker yet. Neither is recorded; both follow from events of single tasks.
 *
 * A pixel shows the largest value in it, in thousandths. Tasks alive are exact. Ready tasks are
 * means over 1/KY_READY_BUCKETS of the trace each, of the delays that are known.
 * Memory:      16 bytes a spawn and an end; 12 bytes a bucket.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_LANES_SERIES_H
#define KY_LANES_SERIES_H

#include <lanes/strip.h>
#include <read/trace.h>

#define KY_READY_BUCKETS 65536u

struct ky_series {
	uint64_t *times_ns; /* ascending: from here on the value is ... */
	uint64_t *values;   /* ... in thousandths */
	uint32_t count;
	struct ky_forest forest;
	uint64_t max;
};

/* Returns 0, -ENOMEM. */
int ky_series_alive(struct ky_series *out, const struct ky_trace *trace);
int ky_series_ready(struct ky_series *out, const struct ky_trace *trace);
void ky_series_release(struct ky_series *series);

/* Fills out[0 .. view->pixels); beyond UINT32_MAX: that. */
void ky_series_values(uint32_t *out, const struct ky_series *series, const struct ky_view *view);

#endif
