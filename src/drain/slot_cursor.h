/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* slot_cursor.h - one slot: what is new in it, whose it is, and how far the merge may go; for the
 * files of the copy stage.
 *
 * Invariants:  busy flag, cursor and records are read in this order: a clear busy flag means that
 *              the records we copy are complete up to the watermark (copy.c).
 * Threads:     owner.
 */
#ifndef KY_DRAIN_SLOT_CURSOR_H
#define KY_DRAIN_SLOT_CURSOR_H

#include <drain/copy_stage.h>

/* Puts what is new in the slot into the queues. claim: its word, read just now. Returns 0, also
 * where the slot is damaged or taken again meanwhile; -ENOMEM. */
int ky_slot_visit(struct ky_copy *copy, uint32_t slot, uint64_t claim);

#endif
