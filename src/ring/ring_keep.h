/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_keep.h - rings of dead processes are kept up to a bound: memory that no process frees
 * otherwise.
 *
 * Invariants: never a living process's ring, never one that another kymo is draining (its lock
 *             says so), never a file that is no ring of ours (ring_finder.h); the newest stays,
 *             whatever its size.
 *             With them goes what killed runs left beside them (status_directory.h).
 *             `kymo` calls it, and the thread of a program that links the library, for its own
 *             service: so the bound holds where no kymo ever runs.
 * Threads:    owner; never a thread of the host's own, for it opens files.
 */
#ifndef KY_RING_RING_KEEP_H
#define KY_RING_RING_KEEP_H

#include <ring/ring_finder.h>

struct ky_ring_keep_result {
	uint32_t removed_count;
	uint64_t removed_bytes;
};

/* Removes the oldest beyond the bounds, and beyond half of the file system they lie on.
 * Returns 0, -ENOMEM. */
int ky_ring_keep(const struct ky_ring_query *query, struct ky_ring_keep_result *out);

/* The process that makes a trace out of a ring file holds this lock on it; it goes with its holder.
 * fd: open for writing. Returns 0; -EBUSY: another kymo is at it. */
int ky_ring_claim(int fd);

/* Does another open file hold it? 1 yes, 0 no, -errno: that cannot be known here. fd: any. */
int ky_ring_is_claimed(int fd);

/* Does its process, or a child of that, still map the ring? */
bool ky_ring_is_mapped(int fd);

/* Removes the file of this name if it is that very one still: a program after an exec may have put
 * its own in its place. */
void ky_ring_remove_at(int directory, const char *name, dev_t device, ino_t inode);

#endif
