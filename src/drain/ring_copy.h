/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_copy.h - a private copy of what a ring holds at one moment, laid out as a ring of its own.
 *
 * The sub-buffer that is overwritten next is copied first. Then come those given out meanwhile,
 * until there are few; then the clock is read, and after it, last, what was given out since and
 * what is open. Where that was overwritten meanwhile, the clock is read and the rest is copied
 * once more. So every record published before that reading is in the copy, except in sub-buffers
 * that were overwritten before their turn, which are counted.
 * Invariants:  the source is only read, and only where it is populated; each sub-buffer is taken
 *              after a second reading of its claim. In the copy they lie one after the other, their
 *              claim numbers are kept, no thread is busy in them, and the claim index stands after
 *              the largest.
 * Memory:      a private mapping, touched as it is filled; 16 bytes a slot of the ring.
 * Threads:     any, each its own copy.
 */
#ifndef KY_DRAIN_RING_COPY_H
#define KY_DRAIN_RING_COPY_H

#include <drain/drain.h>
#include <ring/ring_view.h>

/* In the copy of an open sub-buffer's state: its thread was inside an event, so what it stamped
 * last may be missing. */
#define KY_STATE_WAS_BUSY 2u

struct ky_ring_copy {
	uint8_t *image; /* a ring; NULL: none */
	size_t image_bytes;
	uint32_t slot_count;           /* sub-buffers copied */
	uint32_t ring_slots;           /* slots the source's claim index goes round */
	uint64_t bytes;                /* copied */
	uint64_t claim_index_at_start; /* of the source */
	uint32_t truncated_count;      /* ky_ring_view_truncated() of the source */
	uint64_t lost_count;           /* held at the start, overwritten before their turn */
	bool has_now;                  /* the clock was read: */
	struct ky_clock_anchor now;
};

struct ky_ring_copy_options {
	const uint8_t *image;
	size_t image_bytes;
	size_t bytes_max;    /* of sub-buffers, the newest; 0: all */
	ky_anchor_fn anchor; /* NULL: the clock is not read */
	void *anchor_ctx;
};

/* Returns 0; what ky_ring_view_init() returns; -ENOMEM. */
int ky_ring_copy_take(struct ky_ring_copy *out, const struct ky_ring_copy_options *options);
void ky_ring_copy_release(struct ky_ring_copy *copy);

#endif
