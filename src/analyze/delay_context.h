/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* delay_context.h - what was so during a delay, and before it: beside its parts.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_DELAY_CONTEXT_H
#define KY_ANALYZE_DELAY_CONTEXT_H

#include <analyze/delay_parts.h>

struct ky_delay_context {
	/* Of the delay: another worker of its runtime was parked; each of them was in a poll.
	 * UINT64_MAX: there is too much to look at. */
	uint64_t idle_peer_ns, all_busy_ns;
	uint64_t redundant_count; /* wakes of the task in it, that changed nothing */
	/* Woken by the driver: what it waited for may have been there for so long before the wake,
	 * as no worker of the runtime looked. UINT64_MAX: not woken so, or not known. */
	uint64_t driver_gap_ns;
	uint64_t gap_poll_row; /* the longest poll in that time of the worker that looked at last */
	uint32_t gap_worker;   /* KY_NONE: none */
	/* If a timer woke it: that was due at most so long before the wake. It was set before the
	 * last park in the driver of its runtime began, which is until the next timer is due.
	 * UINT64_MAX: the driver did not wake it, it was polled since, or that is not known. */
	uint64_t timer_late_ns;
	/* Tasks in the queue of the worker where it became ready, and in that of its runtime, at
	 * most, in the delay. UINT64_MAX: the trace has no sample of it. */
	uint64_t worker_queue, runtime_queue;
};

/* Returns false where memory is short. */
bool ky_delay_context(struct ky_delay_context *out, const struct ky_trace *trace,
		      const struct ky_delay *delay);

#endif
