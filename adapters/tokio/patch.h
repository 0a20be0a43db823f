/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* patch.h - puts our thunks into the slots: once, before main, all or nothing.
 *
 * Two threads that unseal, store and seal the same page fault each other, so this runs in the
 * constructor only, while no thread of the program exists, and each range is unsealed once.
 */
#ifndef KY_TOKIO_PATCH_H
#define KY_TOKIO_PATCH_H

#include "tables.h"

/* Returns 0, or -errno when a range could not be made writable: nothing is then changed. */
int ky_tokio_patch(const struct ky_tokio_found *found);

#endif
