/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* why_code.h - in which function the polls were that tasks waited for.
 *
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_WHY_CODE_H
#define KY_ANALYZE_WHY_CODE_H

#include <analyze/code_stacks.h>
#include <analyze/why.h>

#define KY_WHY_CODE_GROUPS 12u /* with most time */

/* Sets `code` of the first groups behind polls: of the culprit's long polls the line of its own
 * code with most time, by CPU samples, or by times off CPU where the polls were blocked more than
 * they ran. stacks has to live as long. */
void ky_why_find_code(struct ky_why *why, const struct ky_trace *trace,
		      const struct ky_code_stacks *stacks);

#endif
