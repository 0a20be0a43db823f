/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_graph.h - who wakes whom, by kinds of tasks: how many wakes, and how long the woken ones
 * then waited for their poll.
 *
 * Invariants:  every wake of the range is in one edge. A delay is in the edge of the wake that made
 *              the task ready; of a wake in the task's own poll, and of one that changed nothing,
 *              there is none.
 * Memory:      32 bytes a delay of the range, while it is made.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_WAKE_GRAPH_H
#define KY_ANALYZE_WAKE_GRAPH_H

#include <read/trace.h>

struct ky_wake_edge {
	uint32_t waker, woken; /* names of the tasks; KY_NONE: they have none */
	bool is_task;          /* a task's poll issued it; else the driver, a timer, a thread */
	uint64_t wakes;
	uint64_t delays, delay_ns, p50_ns, p99_ns, max_ns; /* from such a wake to the poll */
	uint64_t max_ready_ns;                             /* of the longest: the wake */
	uint32_t max_task;                                 /* ... index; KY_NONE: no delay */
};

struct ky_wake_graph {
	struct ky_wake_edge *edges; /* most wakes first; then by names */
	uint32_t count, capacity;
};

/* Wakes in [from, to); to 0: no end. Returns 0, -ENOMEM. */
int ky_wake_graph_make(struct ky_wake_graph *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns);
void ky_wake_graph_release(struct ky_wake_graph *graph);

#endif
