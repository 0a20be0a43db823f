/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worst_text.h - the part of `kymo report` that says what happened inside the worst polls.
 * Threads: owner.
 */
#ifndef KY_REPORT_WORST_TEXT_H
#define KY_REPORT_WORST_TEXT_H

#include <analyze/stack_profile.h>
#include <base/out_text.h>

/* One line: what most of the longest poll was, with the program's own line. Nothing where no sample
 * says so. */
void ky_worst_answer(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile);

/* Poll by poll; those of one kind in which the same happened are listed once. Nothing where there
 * is no sample at all. */
void ky_worst_text(struct ky_buf *out, const struct ky_trace *trace,
		   const struct ky_stack_profile *profile, bool is_coloured);

#endif
