/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_split.h - where the time of a span went: what its task did meanwhile.
 *
 * Parts add up to the duration. Of a poll that lies in the span in part, and of one whose cost the
 * trace does not have, only that it was polled is known. A span without a task is unknown. A
 * request's task waits for the client while it has read all that came and more comes later.
 * Memory:      64 bytes a span, and while they are made what task_rows.h says.
 * Threads:     owner while they are made.
 */
#ifndef KY_ANALYZE_SPAN_SPLIT_H
#define KY_ANALYZE_SPAN_SPLIT_H

#include <read/trace.h>

struct ky_span_split {
	uint64_t cpu_ns;     /* polled, on CPU */
	uint64_t off_cpu_ns; /* polled, and blocked or waiting for a CPU */
	uint64_t polled_ns;  /* polled, and not known which */
	uint64_t ready_ns;   /* woken and not polled */
	uint64_t waiting_ns; /* for something else */
	uint64_t client_ns;  /* of a request: for more of it to come in */
	uint64_t unknown_ns;
	uint64_t polls;
};

/* Of all spans of the trace, in their order; ky_free() frees it. Returns 0, -ENOMEM. */
int ky_span_splits(const struct ky_trace *trace, struct ky_span_split **out);

/* sum += one. */
void ky_span_split_add(struct ky_span_split *sum, const struct ky_span_split *one);

#endif
