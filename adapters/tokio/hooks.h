/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hooks.h - what runs in place of Tokio's polls, wakes and shutdowns.
 *
 * Invariants:  every hook calls the original exactly once, with the arguments it got, on every
 *              path. A header is touched after its poll only under a reference of our own.
 * Threads:     any.      Signals: as the originals.
 * Cost:        a recorded poll is two records, two locked instructions on the header's own
 *              line, and no lookup; a wake is one record.
 */
#ifndef KY_TOKIO_HOOKS_H
#define KY_TOKIO_HOOKS_H

#include <kymo/place.h>
#include <kymo/stack.h>
#include <stdbool.h>
#include <stdint.h>

#include "roots.h"
#include "tables.h"

/* The chains that the innermost open poll clones, where they are wanted. */
struct ky_tokio_place {
	void *header; /* whose clones are seen; NULL: none is */
	struct kymo_place_poll poll;
};

/* What a thread is in the middle of. One initial-exec block, zero at thread start. */
struct ky_tokio_thread {
	void *current; /* header of the innermost open poll */
	struct ky_tokio_place place;
	uint64_t owner;         /* owner id (one per runtime and copy) of the last outermost poll */
	uint32_t depth;         /* open polls */
	uint32_t workers;       /* open launches: not 0 means this thread is a worker */
	const uint32_t *parker; /* what this worker's condition variable waits on, once seen */
	uint64_t parked_on;     /* as it was recorded last: kymo_parked_on() */
	uint32_t generation;    /* of the recording in which this thread's role was reported */
	bool is_woken;          /* a wake of `current` was recorded inside its poll */
	bool is_driver;         /* the last outermost poll was a current-thread runtime's */
	bool is_late_worker;    /* its launch began before we were here; its polls gave it away */
	struct ky_tokio_root root;
	/* Ids that were next (next_ids.h; 0: not known): when the innermost poll began, until its
	 * task is complete; when the run on the blocking pool began, the same; and when nothing
	 * that the thread does could be in a poll of its root. */
	uint64_t poll_id, run_id, root_id;
	void *run;    /* header of that run */
	void *ending; /* header of the task that is being shut down, while its end is recorded */
	/* The counter when the innermost poll began, 0: it is not recorded; and when a call asked
	 * last whether its descriptor waits (nonblocking.h). */
	uint64_t poll_ticks, asked_ticks;
	/* One more than the local queue's depth when the next poll begins; 0: not known. */
	uint32_t queue_next;
};

extern __thread struct ky_tokio_thread ky_tokio_self __attribute__((tls_model("initial-exec")));

/* Counts the recordings that began in a process that ran already; 0 is the one that began before
 * main. What a thread was in an earlier one has to be reported again. */
extern _Atomic uint32_t ky_tokio_generation;

/* This thread's role was reported in this recording. */
static inline bool ky_tokio_is_known(const struct ky_tokio_thread *self)
{
	return self->generation == atomic_load_explicit(&ky_tokio_generation, memory_order_relaxed);
}

static inline bool ky_tokio_is_worker(const struct ky_tokio_thread *self)
{
	return (self->workers || self->is_late_worker) && ky_tokio_is_known(self);
}

/* thunks_<arch>.S: a thunk for each index; of polls and shutdowns a second one, KY_TOKIO_TABLES_MAX
 * further, which asks first whether it is a table at all. */
extern const char ky_tokio_poll_thunks[], ky_tokio_shutdown_thunks[], ky_tokio_clone_thunks[],
	ky_tokio_wake_thunks[], ky_tokio_wake_by_ref_thunks[];

/* The thunks of this table. */
uintptr_t ky_tokio_poll_thunk(uint32_t index);
uintptr_t ky_tokio_shutdown_thunk(uint32_t index);

/* The first call through something that has the shape of a table: its argument may be anything.
 * Returns 0 when the call is not ours. */
uint32_t ky_tokio_check_poll(void *header, uint32_t index);
uint32_t ky_tokio_check_shutdown(void *header, uint32_t index);

/* Their targets. */
void ky_tokio_on_poll(void *header, uint32_t index);
void ky_tokio_on_shutdown(void *header, uint32_t index);
/* Of a clone: only while waker clones are recorded. */
struct ky_tokio_raw_waker ky_tokio_on_clone(void *header, uint32_t copy);
/* Before a clone of the header that is polled; start: registers of the thread that clones. */
void ky_tokio_take_place(const struct kymo_stack_start *start);
/* Before a wake, while wakes are recorded; start: registers of the thread that wakes. */
void ky_tokio_on_wake(void *header, uint32_t copy, const struct kymo_stack_start *start);
void ky_tokio_on_wake_by_ref(void *header, uint32_t copy, const struct kymo_stack_start *start);

/* Before a wake by this thread. copy: any whose wakes are known. Returns flags of the wake. */
uint32_t ky_tokio_complete(struct ky_tokio_thread *self, uint32_t copy);

/* Id of the innermost open poll's task on this thread; 0: none is open. */
uint64_t ky_tokio_current_task(void);
/* The list that it stands in: that of its runtime, or of its local set. */
uint64_t ky_tokio_current_owner(void);

/* The table of a header; NULL for one we did not patch. */
const struct ky_tokio_table *ky_tokio_patched_table(const void *header);

/* Tables whose first poll contradicted the layout. */
uint32_t ky_tokio_refused_count(void);

#endif
