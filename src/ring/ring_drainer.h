/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_drainer.h - who writes a ring to disk while its process records into it, if any process
 * does: stream mode is a wish of the ring's, and the process that fulfilled it may have been
 * killed.
 * Threads: owner.
 */
#ifndef KY_RING_RING_DRAINER_H
#define KY_RING_RING_DRAINER_H

#include <ring/ring_finder.h>

#define KY_DRAIN_THREAD "kymo-drain"

struct ky_ring_drainer {
	bool is_own;     /* the process's own thread KY_DRAIN_THREAD */
	bool is_claimed; /* another process makes a trace of it and holds its lock (ring_keep.h) */
	uint32_t holder; /* a process that is at it; 0: none that we see */
	char name[16];   /* of the holder */
};

/* Reads all of /proc where the lock does not say that no process is at it. ring: found's, open. */
void ky_ring_drainer_find(struct ky_ring_drainer *out, const struct ky_found_ring *found,
			  const struct ky_open_ring *ring);

/* Does a process drain it? Reads no other processes where the lock says it. */
bool ky_ring_is_drained(const struct ky_found_ring *found, const struct ky_open_ring *ring);

#endif
