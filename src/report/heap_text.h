/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* heap_text.h - the part of `kymo report` that names what allocates, what is live and what grows.
 * Threads: owner.
 */
#ifndef KY_REPORT_HEAP_TEXT_H
#define KY_REPORT_HEAP_TEXT_H

#include <analyze/stack_profile.h>

/* Nothing where it was not recorded. */
void ky_heap_text(struct ky_buf *out, const struct ky_trace *trace,
		  const struct ky_stack_profile *profile, bool is_coloured);

#endif
