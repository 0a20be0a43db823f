/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_parts.h - what a poll's duration was: on CPU, waiting for a CPU, blocked; or the process was
 * stopped. The parts add up to the duration.
 * Threads: any.
 */
#ifndef KY_ANALYZE_POLL_PARTS_H
#define KY_ANALYZE_POLL_PARTS_H

#include <base/buf.h>
#include <read/trace.h>

struct ky_poll_parts {
	const struct ky_trace_poll_cost *cost; /* what the rest is from */
	uint64_t cpu_ns;
	uint64_t delay_ns, blocked_ns; /* UINT64_MAX: the two are not told apart */
	uint64_t off_ns;               /* both of them */
	uint64_t stopped_ns;           /* the process was */
	/* Each of the times may be off by so much; 0: by less than 2 % of the duration or
	 * 100 us. */
	uint64_t unsure_ns;
};

/* False: the trace does not say. */
bool ky_poll_parts(const struct ky_trace *trace, const struct ky_poll *poll,
		   struct ky_poll_parts *out);

/* Key "cost": an object, or null; none where the trace has no costs. */
void ky_poll_parts_json(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_poll *poll);

#endif
