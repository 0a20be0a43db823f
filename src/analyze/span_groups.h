/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_groups.h - the spans of a trace by their names: how many, how long, how many still open.
 * Threads: any.
 */
#ifndef KY_ANALYZE_SPAN_GROUPS_H
#define KY_ANALYZE_SPAN_GROUPS_H

#include <analyze/histogram.h>
#include <analyze/span_split.h>
#include <read/trace.h>

struct ky_span_group {
	uint32_t name;               /* name index, KY_NONE unnamed */
	struct ky_quantiles lengths; /* of those that ended, ns */
	uint64_t open_count;         /* began and did not end in the trace */
	uint64_t counted_count;      /* of lengths.count: in a histogram of the writer only */
	struct ky_span_split split;  /* of those that ended and are in the trace one by one */
};

/* Spans that begin in [from, to); to 0: no end. Most time first; then by name. ky_free() frees it.
 * Returns 0, -ENOMEM. */
int ky_span_groups(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		   struct ky_span_group **out, uint32_t *count);

#endif
