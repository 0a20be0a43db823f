/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_tail.h - where a recovery continues: the part of a ring that is not on disk yet.
 * Threads: owner.
 */
#ifndef KY_EDIT_RING_TAIL_H
#define KY_EDIT_RING_TAIL_H

#include <ring/ring_progress.h>

/* Reads what is on disk, and settles from which event on the ring is needed. */
void ky_ring_tail_settle(struct ky_ring_tail *tail);

/* Once what the ring gives is on disk: takes the part of a chunk away that would be there twice. */
int ky_ring_tail_trim(const struct ky_ring_tail *tail);

#endif
