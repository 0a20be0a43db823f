/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* last_polls.h - when each task was polled last, and what it waits for since, as far as its await
 * points say.
 * Memory:      21 bytes a task.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_LAST_POLLS_H
#define KY_ANALYZE_FINDINGS_LAST_POLLS_H

#include <analyze/findings/facts.h>

/* Of the wait that lasts at the end, or up to a shutdown. */
enum ky_idle_point {
	KY_IDLE_UNKNOWN, /* no await point: nothing of it left a waker in the last poll */
	KY_IDLE_OUTSIDE, /* I/O, the end of another task: what comes from outside */
	KY_IDLE_TIMER,   /* a timer, and no I/O beside it */
	KY_IDLE_INSIDE,  /* tokio::sync: a lock, a channel, a Notify */
	KY_IDLE_ROOM,    /* tokio::sync: in a bounded channel that is full */
	KY_IDLE_ANSWER,  /* tokio::sync::oneshot: what one other has to send, once */
	KY_IDLE_OWN      /* a future of the program's own */
};

struct ky_last_polls {
	uint64_t *end_ns;   /* by task; 0: never */
	uint64_t *counts;   /* polls */
	uint8_t *points;    /* enum ky_idle_point */
	uint32_t *stacks;   /* of that point; 0 where there is none */
	uint64_t judged_ns; /* the end of the range, or a shutdown before it */
};

/* Returns 0, -ENOMEM. */
int ky_last_polls_make(struct ky_last_polls *out, const struct ky_facts *facts);
void ky_last_polls_release(struct ky_last_polls *polls);

#endif
