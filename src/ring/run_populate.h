/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_populate.h - makes the pages of a ring before its writers come to them: a page that is there
 * costs the program a tenth of what making it costs.
 *
 * Invariants: reads only, so that a page another process writes meanwhile stays what it is. Nothing
 *             is made while the claim index rests, nor where the file system has little room left.
 *             The host relies on none of it.
 * Threads:    owner, under the caller's guard of the image.
 */
#ifndef KY_RING_RUN_POPULATE_H
#define KY_RING_RUN_POPULATE_H

#include <ring/ring_view.h>
#include <stdbool.h>

struct ky_run_populate {
	uint64_t claim_index; /* at the last reading */
	uint32_t made;        /* slots that exist, or were tried */
	bool is_making;       /* the claim index moves, and there is more to make */
};

/* One step, at the pace of the steps: makes what twice as many claims as since the last one would
 * need. fd: of the ring. Returns slots made. */
uint32_t ky_run_populate(struct ky_run_populate *populate, const struct ky_ring_view *view, int fd);

#endif
