/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* queue_replay.h - when each poll would have begun, had the polls of some kinds of task been
 * shorter.
 *
 * The polls of a trace are played again in the order of the new time. A poll begins when its task
 * is ready and its worker is free; of those that are ready, the one that began first in the trace.
 *
 * Ready:       by a wake inside a poll: at the same share of that poll, wherever it lies now; by
 *              what is outside of polls (drivers, timers, other threads): when it was; never before
 *              the end of the task's own poll before.
 * Worker:      the one of the trace; or the one in whose queue the task stood when it was ready,
 *              where that is ahead of the trace and free before the one that stole it.
 * Free:        what a worker took between two polls, without parks, it takes again. Where it would
 *              be idle, it begins as long after the wake as it did in the trace; where it was not
 *              idle in the trace, as long as an idle worker did in the median; as long as it looks
 *              for more before it parks, that of two polls without a park.
 * Kept:        polls whose task nothing is recorded to have made ready, and those that a worker
 *              found after a park though they were ready before it, begin when they did at the
 *              earliest. Polls of threads that are no workers are not played again.
 * Invariants:  with nothing shortened, each poll begins when it did, but where a worker passed over
 *              a task that stood in its own queue.
 * Memory:      that of queue_plays.h, and 16 bytes for each poll that stands in a queue.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_QUEUE_REPLAY_H
#define KY_ANALYZE_QUEUE_REPLAY_H

#include <read/trace.h>

/* poll: as recorded; delay_ns: from ready to its begin now, if the recorded one was measured. */
typedef void (*ky_replayed_fn)(const struct ky_poll *poll, uint64_t delay_ns, void *ctx);

struct ky_queue_replay {
	uint64_t reaction_ns;     /* from the wake to the poll of a parked worker: the median */
	uint64_t unplaced_count;  /* polls that nothing is recorded to have made ready */
	uint64_t kept_home_count; /* polls that the worker from which they were stolen does now */
};

/* Does the length of this poll stand, so that it can be shortened? */
bool ky_queue_replay_takes(const struct ky_trace *trace, const struct ky_poll *poll);

/* cap_ns: by name index of the task, UINT64_MAX: none. each: called once for each poll of the
 * trace. Returns 0, -ENOMEM. */
int ky_queue_replay(struct ky_queue_replay *out, const struct ky_trace *trace,
		    const uint64_t *cap_ns, ky_replayed_fn each, void *ctx);

#endif
