/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* delay_parts.h - where the time went between a task being ready and its poll, and inside a poll.
 *
 * A ready task stands in the queue of the worker that woke it, its home, until that worker polls
 * it or another one steals it. Each instant of the delay gets the first part that fits what the
 * worker whose queue it stood in did then, so the parts add up to the delay.
 * Steal:       is not recorded. A thief takes the older half of a queue and polls the youngest of
 *              it first, so its poll of a task that stood behind ours, or of ours, shows it. It
 *              lies between the end of what the thief did before and that poll; `ambiguous_ns` is
 *              the length of this, which is counted as the thief's. Where a queue is seen empty, or
 *              a task behind ours is taken from it, and no thief is seen, the rest is unknown.
 * Invariants:  parts are in the order of time and do not overlap. Those of one poll that is known
 *              by sums alone follow each other as on CPU, ready, blocked.
 * Memory:      the parts, kept for the next call; ky_delay_release().
 * Threads:     owner; the trace may be read by others.
 */
#ifndef KY_ANALYZE_DELAY_PARTS_H
#define KY_ANALYZE_DELAY_PARTS_H

#include <analyze/notified.h>
#include <analyze/poll_homes.h>

#define KY_NO_ROW UINT64_MAX

enum ky_part {
	KY_PART_RECORDER_GAP,    /* records of the worker are missing */
	KY_PART_STOPPED,         /* the process as a whole was stopped */
	KY_PART_LIFO,            /* in the poll that woke it last, right before its own */
	KY_PART_BEHIND_CPU,      /* behind a poll that ran */
	KY_PART_BEHIND_BLOCKED,  /* ... that was blocked */
	KY_PART_BEHIND_RUNNABLE, /* ... that waited for a CPU */
	KY_PART_BEHIND_UNSPLIT,  /* ... of which the trace says neither */
	KY_PART_PARKED,          /* the worker was parked */
	KY_PART_PARKED_NOTIFIED, /* ... and had been notified: the kernel wakes it late */
	KY_PART_PARKED_QUIET,    /* ... and had not been */
	KY_PART_HANDOVER,        /* the worker goes to another thread: block_in_place */
	KY_PART_SCHEDULER_READY, /* outside of polls and parks, waiting for a CPU */
	KY_PART_RUNTIME,         /* outside of polls and parks: scheduler, driver, root future */
	KY_PART_NO_HOME,         /* what woke it is not recorded, and no worker is known */
	KY_PART_UNKNOWN_STEAL,   /* no instant at which it can have been stolen */
	KY_PARTS
};

struct ky_delay_part {
	uint64_t ns;
	uint64_t poll_row; /* of the worker's polls; KY_NO_ROW: none */
	uint32_t worker;   /* index in trace->workers; KY_NONE */
	uint8_t part;      /* enum ky_part */
};

struct ky_delay {
	struct ky_poll poll; /* that ended it */
	uint64_t ready_ns, delay_ns;
	uint64_t steal_ns;     /* the last moment of its last steal; 0: none */
	uint64_t ambiguous_ns; /* see above */
	uint64_t sums[KY_PARTS];
	struct ky_delay_part *parts;
	uint32_t part_count, part_capacity;
	uint32_t home; /* index of the worker in whose queue it stood first; KY_NONE */
	uint32_t waker;
	uint32_t steal_count;
	struct ky_wake wake; /* that made it ready; origin 0: not known */
	bool is_wake_known;
	bool is_moved; /* home is not the worker that polled it */
};

/* What a split reads; all outlive it. */
struct ky_split {
	const struct ky_trace *trace;
	const struct ky_poll_homes *homes;
	const struct ky_notified *notified;
};

/* Returns false where memory is short. The poll's delay_state must be 0. */
bool ky_delay_split(struct ky_delay *delay, const struct ky_split *split,
		    const struct ky_poll *poll);
void ky_delay_release(struct ky_delay *delay);

/* "behind_poll.on_cpu": the name in JSON. */
const char *ky_part_key(enum ky_part part);

#endif
