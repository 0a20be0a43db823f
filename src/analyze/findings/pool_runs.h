/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* pool_runs.h - how long a closure stood in line for a thread of the blocking pool before it ran.
 *
 * It was submitted between two moments (read/spawns.h), where those are known; else at the earliest
 * when the poll that awaits it ended. The wake of the task that awaits it comes from the run's
 * thread, right at its end.
 * Memory:      20 bytes a run.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_POOL_RUNS_H
#define KY_ANALYZE_FINDINGS_POOL_RUNS_H

#include <read/trace.h>

struct ky_pool_runs {
	const struct ky_trace *trace;
	uint32_t *by_thread;     /* indexes of runs, by thread and start */
	uint64_t *starts, *ends; /* ascending */
	uint32_t count, most;    /* most: at the same time */
};

/* Of runs that began before to_ns; 0: of all. Where a runtime shuts down its workers run what is
 * left, so more threads than the pool has. Returns 0, -ENOMEM. */
int ky_pool_runs_make(struct ky_pool_runs *out, const struct ky_trace *trace, uint64_t to_ns);
void ky_pool_runs_release(struct ky_pool_runs *runs);

/* The run of this thread that ended right after the wake at `ns`; NULL: none. */
const struct ky_blocking_run *ky_pool_runs_at(const struct ky_pool_runs *runs, uint32_t tid,
					      uint64_t ns);
/* The most threads that ran closures in [from, to] while others stood in line for more than
 * KY_FIND_LONG_NS: the limit of the pool, as far as it was reached. 0: none stood so, or it is not
 * known when they were submitted. */
int ky_pool_threads_in_line(uint32_t *out, const struct ky_trace *trace, uint64_t from_ns,
			    uint64_t to_ns);
/* A worker's whole life is a run, too. */
bool ky_pool_run_is_workers(const struct ky_trace *trace, const struct ky_blocking_run *run);
/* Were as many runs under way at this moment as ever were? */
bool ky_pool_runs_full_at(const struct ky_pool_runs *runs, uint64_t ns);

#endif
