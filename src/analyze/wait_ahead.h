/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wait_ahead.h - what a task that was ready stood behind, and what woke it.
 *
 * A task that a worker's thread wakes stands in the queue of that worker, until this or another
 * worker polls it; one that another thread wakes stands in the queue of all.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_WAIT_AHEAD_H
#define KY_ANALYZE_WAIT_AHEAD_H

#include <analyze/report.h>

struct ky_wait_ahead {
	uint32_t worker;        /* index in trace->workers */
	uint32_t count;         /* its polls that lie in the wait, in whole or in part */
	uint64_t busy_ns;       /* of the wait */
	struct ky_poll longest; /* its duration without the time in which the process was stopped */
};

/* Sets stopped_ns and delay_stopped_ns. */
void ky_worst_find_stops(const struct ky_trace *trace, struct ky_worst *worst);

/* Sets waker, wake_worker and wake of a wait. */
void ky_wait_find_waker(const struct ky_trace *trace, struct ky_worst *worst);

/* The polls of the worker in whose queue the task stood, or of the one that polled it at last,
 * whichever took more of the wait. Returns false where they took less than half of it. */
bool ky_wait_ahead(struct ky_wait_ahead *out, const struct ky_trace *trace,
		   const struct ky_worst *worst);

#endif
