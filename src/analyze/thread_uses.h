/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_uses.h - CPU time and run delay of each thread that is no worker, by the kernel's counters
 * from reading to reading: who else in the process takes CPU time.
 * Threads: any.
 */
#ifndef KY_ANALYZE_THREAD_USES_H
#define KY_ANALYZE_THREAD_USES_H

#include <base/buf.h>
#include <read/trace.h>

struct ky_thread_use {
	uint32_t tid;
	uint32_t name; /* index; the last one */
	uint64_t cpu_ns, run_delay_ns;
	uint64_t from_ns, to_ns; /* first and last reading: it may have lived longer */
};

/* Readings in [from, to]; to 0: no end. Most CPU time first; ky_free() frees it. A thread that
 * began within has all it counted. Returns 0, -ENOMEM. */
int ky_thread_uses(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		   struct ky_thread_use **out, uint32_t *count);

/* Key "threads": a list; none where the trace has no such readings. */
void ky_thread_uses_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			 uint64_t to_ns);

#endif
