/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* culprit.h - the function of the program's own code in which the samples of one poll fell.
 *
 * Several lines of a function are one function, and a leaf that another one of the program calls
 * does not hide its caller.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_CULPRIT_H
#define KY_ANALYZE_CULPRIT_H

#include <analyze/stack_profile.h>

struct ky_culprit {
	const struct ky_code_line *line;   /* of the caller; where it calls, or runs itself */
	const struct ky_code_line *callee; /* of the program's own code, too; NULL: none */
	uint64_t count, all;               /* samples in it, of so many in the poll */
};

/* Of these stacks: the innermost own function that three quarters of them have, and the own
 * function that called it. Returns false where there is none. */
bool ky_culprit_of_stacks(struct ky_culprit *out, const struct ky_code_stacks *code,
			  const uint32_t *list, size_t count);

/* Of the poll's CPU samples: the same. */
bool ky_culprit_find(struct ky_culprit *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile, const struct ky_poll *poll);

#endif
