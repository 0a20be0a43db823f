/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_counts.h - time on CPU, runnable without one, and blocked, of each worker: exact
 * sums by the kernel's own counters, from the first to the last reading in the range.
 * Threads: any.
 */
#ifndef KY_ANALYZE_THREAD_COUNTS_H
#define KY_ANALYZE_THREAD_COUNTS_H

#include <read/trace.h>

struct ky_thread_count {
	uint64_t worker_id; /* readings of no worker (255) are not counted */
	uint64_t span_ns;   /* between readings of a thread that served this worker */
	uint64_t cpu_ns, run_delay_ns;
	uint64_t blocked_ns;             /* the rest: in parks, and in calls that wait */
	uint64_t voluntary, involuntary; /* switches */
	uint64_t apart_max_ns;           /* of readings: how fine this is */
	uint64_t reading_count;
	uint64_t counted_to_ns; /* of intervals that overlap the first one counts */
	bool has_switches;      /* at every reading */
};

/* Events in [from, to); to 0: no end. By worker id; ky_free() frees it. Returns 0, -ENOMEM. */
int ky_thread_counts(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		     struct ky_thread_count **out, uint32_t *count);

#endif
