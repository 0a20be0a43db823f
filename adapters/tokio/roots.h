/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* roots.h - the futures of block_on, which are in no table of tasks: seen by their wakers.
 *
 * A root of a thread (table of tokio::runtime::park): its thread polls it, and sleeps on a word of
 * what its waker points to. A root of a runtime (table of tokio::util::wake): the thread that
 * drives a current-thread runtime polls it after a turn of the driver when it was woken.
 *
 * Invariants:  what polls of it are recorded: its clones, the ends of its thread's waits, and what
 *              the thread does next. So the bounds of a poll are exact, and the poll is between.
 *              While a poll may be open `current` of the thread is ky_tokio_root_polls, so that a
 *              task's poll leaves its fast path: without roots a poll costs nothing more.
 * Threads:     any.      Signals: as the originals.
 */
#ifndef KY_TOKIO_ROOTS_H
#define KY_TOKIO_ROOTS_H

#include <kymo/place.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tables.h"

/* Of a thread: the root that it polled last. */
struct ky_tokio_root {
	const void *data; /* of its waker; NULL: none yet */
	_Atomic uint32_t *woken;
	uint64_t task;
	struct kymo_place_poll poll;
	enum ky_tokio_root_kind kind;
	bool is_open; /* a poll may be */
	bool is_asleep;
};

/* What `current` of a thread points to while its root may be polled. */
extern char ky_tokio_root_polls[1];

/* thunks_<arch>.S: a thunk for each table. */
extern const char ky_tokio_root_clone_thunks[], ky_tokio_root_wake_thunks[],
	ky_tokio_root_wake_by_ref_thunks[];

/* Their targets. */
void ky_tokio_on_root_clone(const void *data, uint32_t index, const struct kymo_stack_start *start);
void ky_tokio_on_root_wake(void *data, uint32_t index);
void ky_tokio_on_root_wake_by_ref(void *data, uint32_t index);

/* The root's poll on this thread is over by now. is_pending: it waits from here on. */
struct ky_tokio_thread;
void ky_tokio_root_close(struct ky_tokio_thread *self, bool is_pending);

/* This thread, which is no worker, is about to wait. futex: the word, NULL: for the driver.
 * True: until its root is woken. */
bool ky_tokio_root_sleeps(struct ky_tokio_thread *self, const uint32_t *futex);

/* A wait of this thread is over, be it its root's or the driver's. */
void ky_tokio_root_awake(struct ky_tokio_thread *self);

/* Names for the trace; once, while the recorder opens. */
void ky_tokio_roots_name(void);

#endif
