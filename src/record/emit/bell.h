/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bell.h - what the library's thread sleeps on: one word in the ring's control page, which other
 * processes ring as well, and a private one while there is no ring.
 *
 * The thread that waits takes a reading, checks everything it could have to do, and then waits with
 * the reading: a ring in between is not lost. Creating the ring rings the private word.
 * Memory:  static; a late ring can neither fault nor reach another ring.
 */
#ifndef KY_RECORD_EMIT_BELL_H
#define KY_RECORD_EMIT_BELL_H

#include <stdint.h>

struct ky_bell_reading {
	uint32_t *word;
	uint32_t value;
	int futex_flags;
};

struct ky_ring;

/* ring: whose word is rung besides the private one; NULL: there is none.
 * Threads: any.   Signals: safe. */
void ky_bell_ring(struct ky_ring *ring);

/* The thread that waits sleeps without a time and wants the bell rung when the next sub-buffer is
 * begun. */
extern uint32_t ky_bell_wish; /* atomic */

static inline void ky_bell_wish_for_events(void)
{
	__atomic_store_n(&ky_bell_wish, 1, __ATOMIC_RELAXED);
}

/* A sub-buffer of this ring was begun. Threads: any.   Signals: safe. */
static inline void ky_bell_ring_for_events(struct ky_ring *ring)
{
	if (__atomic_load_n(&ky_bell_wish, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&ky_bell_wish, 0, __ATOMIC_RELAXED))
		ky_bell_ring(ring);
}

/* ring: the one that records now; NULL: none does.   Threads: the one that waits. */
struct ky_bell_reading ky_bell_read(struct ky_ring *ring);

/* Returns when it has been rung since the reading, at the latest at that CLOCK_MONOTONIC time;
 * UINT64_MAX: no later. May return for nothing. */
void ky_bell_wait(const struct ky_bell_reading *reading, uint64_t until_ns);

#endif
