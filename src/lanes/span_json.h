/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_json.h - spans as the explorer shows them, as JSON: all names; one name over time, by field,
 * slow against typical; one request as a tree over tasks.
 *
 * Invariants:  times are nanoseconds from the first poll, park or wake of the trace. Counts,
 *              percentiles and parts are those of span_groups.h, span_split.h and span_tail.h;
 *              percentiles of a piece of time and of a field's value are exact.
 * Threads:     owner.
 */
#ifndef KY_LANES_SPAN_JSON_H
#define KY_LANES_SPAN_JSON_H

#include <analyze/span_split.h>
#include <analyze/span_tail.h>
#include <base/buf.h>
#include <read/trace.h>

#define KY_SPAN_LISTED 100u  /* of one name: the longest */
#define KY_SPAN_VALUES 8u    /* of one field: the most frequent */
#define KY_SPAN_PIECES 400u  /* of time */
#define KY_SPAN_TREE 1000u   /* spans of one request */
#define KY_SPAN_BINS_LOG2 2u /* bins of duration: so many to a power of two */

struct ky_span_view {
	const struct ky_trace *trace;
	const struct ky_span_split *splits; /* of all spans */
	const struct ky_span_tail *tail;
	uint64_t from_ns, to_ns; /* spans that begin in [from, to) */
	uint32_t name;           /* name index; KY_NONE: unnamed ones */
	uint32_t key, value;     /* only spans with this field; key KY_NONE: all */
	uint32_t pieces;         /* 1 .. KY_SPAN_PIECES */
};

/* Errors: out->failed. */
void ky_span_names_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			uint64_t to_ns);
void ky_span_name_json(struct ky_buf *out, const struct ky_span_view *view);
/* The tree that a span is in, from its outermost parent down. */
void ky_span_tree_json(struct ky_buf *out, const struct ky_span_view *view, uint32_t span);
/* Index of the outermost one. */
uint32_t ky_span_root(const struct ky_trace *trace, uint32_t span);

#endif
