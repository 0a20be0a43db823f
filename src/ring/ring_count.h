/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_count.h - how much a ring's threads have recorded, read from outside: each sub-buffer says
 * how many records its thread had written before it, so the newest of each thread is enough.
 *
 * A thread whose last sub-buffer has been overwritten is not seen any more. Runs inside
 * ky_ring_guarded().     Memory: 24 bytes a thread, 4 a slot.    Threads: owner.
 */
#ifndef KY_RING_RING_COUNT_H
#define KY_RING_RING_COUNT_H

#include <ring/ring_view.h>

struct ky_ring_thread_count {
	uint64_t record_count; /* that it had written; 0: not seen */
	uint64_t claim_number; /* + 1: of its newest sub-buffer */
	uint32_t slot;
	uint32_t tid;
};

struct ky_ring_count {
	struct ky_ring_thread_count *threads; /* by index in the ring's directory */
	uint32_t thread_count;
	uint32_t *slot_threads; /* who writes in this slot now; 0: not read */
	uint32_t slot_count;
	uint32_t slots_by_state[5];           /* populated ones, by enum ky_slot_state */
	uint64_t newest_ticks;                /* of the last record seen; 0: none */
	struct ky_clock_anchor newest_anchor; /* of the newest sub-buffer; zeros: none */
};

/* Returns 0, -ENOMEM. Release it in either case. */
int ky_ring_count(struct ky_ring_count *out, const struct ky_ring_view *view);
void ky_ring_count_release(struct ky_ring_count *count);

/* Records written between two counts of the same ring. */
uint64_t ky_ring_count_between(const struct ky_ring_count *from, const struct ky_ring_count *to);

#endif
