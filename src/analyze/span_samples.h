/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_samples.h - samples of CPU time and times off CPU that lie in a span of their task, each
 * with its function.
 *
 * Memory:      4 bytes a sample, a task and a stack.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_SPAN_SAMPLES_H
#define KY_ANALYZE_SPAN_SAMPLES_H

#include <analyze/code_stacks.h>

struct ky_span_samples {
	const struct ky_trace *trace;
	const struct ky_code_stacks *code;
	uint32_t *order,
		*firsts;     /* rows by task, then time; of task n [firsts[n], firsts[n + 1]) */
	uint32_t *functions; /* by stack: number + 1 of its function; 0: not asked for yet */
};

/* code NULL: there are none. Returns 0, -ENOMEM. */
int ky_span_samples_make(struct ky_span_samples *out, const struct ky_trace *trace,
			 const struct ky_code_stacks *code);
void ky_span_samples_release(struct ky_span_samples *samples);

struct ky_span_sample {
	uint64_t ns;       /* of the span; 0: how long is not known */
	uint32_t function; /* number, in code; UINT32_MAX: it has none */
	bool is_off_cpu;
};

/* Walks those of a span. */
struct ky_span_walk {
	uint64_t from_ns, to_ns;
	uint32_t at, end; /* in order */
};
void ky_span_walk_begin(struct ky_span_walk *walk, const struct ky_span_samples *samples,
			const struct ky_trace_span *span);
/* Returns false after the last. */
bool ky_span_walk_next(struct ky_span_walk *walk, struct ky_span_samples *samples,
		       struct ky_span_sample *out);

#endif
