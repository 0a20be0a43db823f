/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unseen.h - what samplers could not see while a trace was recorded, why, and what would change it.
 *
 * Invariants:  by the trace's metadata, and nothing is said of what is there all the same. A trace
 *              that says nothing of samplers, as dial9's, has none.
 * Threads:     any.
 */
#ifndef KY_ANALYZE_UNSEEN_H
#define KY_ANALYZE_UNSEEN_H

#include <read/trace.h>

#define KY_UNSEEN_MAX 4u
#define KY_UNSEEN_WHY_BYTES 256u

struct ky_unseen {
	uint32_t kind;                 /* enum ky_stack_kind: of which part, CPU or OFF_CPU */
	const char *what, *command;    /* command NULL: none is known to help */
	char why[KY_UNSEEN_WHY_BYTES]; /* of the trace: not safe for a terminal */
};

/* Returns how many. out: KY_UNSEEN_MAX. */
uint32_t ky_unseen_find(struct ky_unseen *out, const struct ky_trace *trace);

#endif
