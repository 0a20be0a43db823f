/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* patch.h - puts our thunks into the slots.
 *
 * Two threads that unseal, store and seal the same page fault each other, so ky_tokio_patch() runs
 * in the constructor only, while no thread of the program exists, and each range is unsealed once.
 * In a process that runs already live.h does it, on the one thread that `kymo attach` made.
 */
#ifndef KY_TOKIO_PATCH_H
#define KY_TOKIO_PATCH_H

#include "tables.h"

/* Returns 0, or -errno when a range could not be made writable: nothing is then changed. */
int ky_tokio_patch(const struct ky_tokio_found *found);

/* Notes for ky_tokio_live_apply() what would be stored into this object, whose slots are those of
 * found->got. Under the loader's lock. False: more words than can be remembered. */
bool ky_tokio_patch_later(const struct ky_tokio_found *found, const struct ky_tokio_elf *elf);

#endif
