/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_parts.h - what a long poll did: the parts of a delay for the time inside a poll. They add up
 * to its duration.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_OWN_PARTS_H
#define KY_ANALYZE_OWN_PARTS_H

#include <read/trace.h>

enum ky_own_part {
	KY_OWN_GAP,      /* records are missing, or its end is not proven */
	KY_OWN_STOPPED,  /* the process as a whole was stopped */
	KY_OWN_NESTED,   /* in a poll inside it: block_on in block_in_place, a LocalSet */
	KY_OWN_CPU,      /* itself on CPU */
	KY_OWN_BLOCKED,  /* ... blocked */
	KY_OWN_RUNNABLE, /* ... waiting for a CPU */
	KY_OWN_UNSPLIT,  /* the trace does not say which of the three */
	KY_OWN_PARTS
};

struct ky_own_poll {
	struct ky_poll poll;
	uint64_t sums[KY_OWN_PARTS];
};

void ky_own_split(struct ky_own_poll *out, const struct ky_trace *trace,
		  const struct ky_poll *poll);

/* "own_on_cpu": the name in JSON. */
const char *ky_own_part_key(enum ky_own_part part);

#endif
