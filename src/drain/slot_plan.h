/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* slot_plan.h - which slots may have something new, and in what order they are read in a step; for
 * copy.c.
 *
 * Invariants:  a slot that was given out stays on the list until everything under its claim was
 *              read. Slots are read in the order of their claims, which is a thread's own order.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_SLOT_PLAN_H
#define KY_DRAIN_SLOT_PLAN_H

#include <drain/copy_stage.h>

/* copy->visits from the claim index as it is now. */
void ky_slot_plan_make(struct ky_copy *copy);

/* number: of the claim that the slot of the next visit has now. A slot may have been given out
 * before the plan was made and claimed since. Its thread may have filled others before it that are
 * not visited yet: they come first, or they would be reported as lost. Returns true when another
 * visit is the next one now. */
bool ky_slot_plan_postpone(struct ky_copy *copy, uint64_t number);

/* All are visited: slots of which nothing more can come leave the list. */
void ky_slot_plan_end(struct ky_copy *copy);

#endif
