/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain_parts.h - a drain and its four stages, for the files that call them: drain.c for a stream,
 * cut.c for a cut; ring_clock.c and module_list.c write to the common part.
 * Threads: owner.
 */
#ifndef KY_DRAIN_DRAIN_PARTS_H
#define KY_DRAIN_DRAIN_PARTS_H

#include <drain/copy.h>
#include <drain/segment.h>

struct ky_drain {
	struct ky_drain_common common;
	struct ky_copy *copy;
	struct ky_merge merge;
	struct ky_convert *convert;
	struct ky_segment *segment;
	ky_anchor_fn anchor;
	void *anchor_ctx;
	uint64_t cpu_ns;
};

/* The clocks of this machine; ctx: the ring's view. */
int ky_drain_own_anchor(void *ctx, struct ky_clock_anchor *out);

/* Puts the timeline on the readings of the clocks that the ring holds, and on `now` where known.
 * Returns 0, -ENOMEM. */
int ky_drain_ring_clock(struct ky_drain_common *common, const struct ky_clock_anchor *now);

#endif
