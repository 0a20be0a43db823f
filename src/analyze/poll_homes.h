/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_homes.h - for each poll the worker in whose queue its task stood when it became ready: the
 * one that issued the wake, or, for a wake during its own poll, the one that polled it.
 *
 * Memory:      a byte for each poll and 24 for each task while it is made.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_POLL_HOMES_H
#define KY_ANALYZE_POLL_HOMES_H

#include <read/trace.h>

#define KY_HOME_NONE 255u    /* the queue of all: what woke it is no worker */
#define KY_HOME_UNKNOWN 254u /* nothing recorded made it ready then */

/* A delay that the runtime itself measured (dial9's scheduling_delay_ns) begins some 0.1 to 0.5 us
 * beside the event of its wake: the nearest one within this is it. */
#define KY_WAKE_NEAR_NS UINT64_C(2000)

struct ky_poll_homes {
	uint8_t **homes; /* by worker: by row of its polls an index in trace->workers */
	uint32_t worker_count;
};

/* Returns 0, -ENOMEM. */
int ky_poll_homes_make(struct ky_poll_homes *out, const struct ky_trace *trace);
/* Is it a worker with a queue of its own? */
bool ky_poll_homes_has_queue(const struct ky_trace *trace, uint32_t worker);
void ky_poll_homes_release(struct ky_poll_homes *homes);

#endif
