/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_runs.h - closures of the blocking pool by their thread: what a thread ran at a moment.
 * Threads: owner.
 */
#ifndef KY_READ_THREAD_RUNS_H
#define KY_READ_THREAD_RUNS_H

#include <read/trace.h>

/* Sorts indexes of blocking runs by thread and start. */
void ky_thread_runs_sort(const struct ky_trace *trace, uint32_t *runs, uint32_t count);

/* Of sorted ones: the last of this thread that began at `ns` or before; KY_NONE: there is none. */
uint32_t ky_thread_runs_at(const struct ky_trace *trace, const uint32_t *runs, uint32_t count,
			   uint32_t tid, uint64_t ns);

#endif
