/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* lock_holders.h - what held the lock that a poll waited for, and what it did meanwhile.
 *
 * Who ended a wait had the lock last. If it had waited for the same lock itself until within this
 * wait, the longer part was the doing of who ended that one, and so on.
 * Threads:     any.
 */
#ifndef KY_ANALYZE_LOCK_HOLDERS_H
#define KY_ANALYZE_LOCK_HOLDERS_H

#include <read/trace.h>

struct ky_lock_holder {
	uint64_t at_ns;  /* when it let go */
	uint32_t tid;    /* its thread */
	uint32_t task;   /* index of the task that it polled then; KY_NONE */
	uint32_t kind;   /* name index of that task; KY_NONE */
	uint32_t thread; /* name index of the thread; KY_NONE */
};

/* row: index of a futex wait among the samples. Returns false where it is not known. */
bool ky_lock_holder_of(struct ky_lock_holder *out, const struct ky_trace *trace, uint32_t row);

/* Stacks of the holder's samples between the wait's begin and the moment when it let go: of its
 * CPU, and of its waits for something else. Writes at most `max` of them; returns how many. */
uint32_t ky_lock_holder_stacks(const struct ky_lock_holder *holder, const struct ky_trace *trace,
			       uint32_t row, uint32_t *stacks, uint32_t max);

#endif
