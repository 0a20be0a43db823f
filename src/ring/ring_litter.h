/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_litter.h - rings that earlier processes of this service left behind: kept up to a bound,
 * also where no `kymo` ever runs and the service dies again and again.
 *
 * Invariants: only files of this user and this service beside our own ring; only where it is proven
 *             that their process is gone (no process maps it, and none of this pid and start time
 *             is there; or another boot's); never one that a kymo is at; the newest stays.
 * Threads:    any but the host's own: it opens files.
 */
#ifndef KY_RING_RING_LITTER_H
#define KY_RING_RING_LITTER_H

#include <record/emit/ring_file.h>

/* Removes the oldest beyond KY_DEAD_RINGS_MAX and KY_DEAD_RING_BYTES_MAX (or half of the file
 * system). Looks at no more than 4,096 names. Returns how many it removed. */
uint32_t ky_ring_litter_remove(const struct ky_ring *own);

#endif
