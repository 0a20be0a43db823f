/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_polls.h - which task is being polled where, for the ends of polls, which name none.
 *
 * Memory:  a row for each poll that is open at the moment, at most KY_TASK_POLLS_MAX; what opens
 *          beyond that is not known when it ends.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_TASK_POLLS_H
#define KY_ANALYZE_TASK_POLLS_H

#include <read/event_stream.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_TASK_POLLS_MAX 65536u

struct ky_polled {
	uint64_t place; /* worker, or thread of a nested poll */
	uint64_t task;
	bool is_nested;
};

struct ky_task_polls {
	struct ky_polled *rows; /* the innermost of a thread after those around it */
	uint32_t count, capacity;
};

void ky_task_polls_release(struct ky_task_polls *polls);

/* Takes note of an event, which is given in the order of time.
 * Returns whether it ends a poll of this task; every other event: false. */
bool ky_task_polls_note(struct ky_task_polls *polls, const struct ky_event *event, uint64_t task);

#endif
