/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unseen_text.h - what `kymo report` says of what its samplers could not see.
 * Threads: owner.
 */
#ifndef KY_REPORT_UNSEEN_TEXT_H
#define KY_REPORT_UNSEEN_TEXT_H

#include <analyze/stack_profile.h>

/* Lines, of one part of the report (enum ky_stack_kind) or of all (KY_STACK_KINDS). */
void ky_unseen_text(struct ky_buf *out, const struct ky_stack_profile *profile,
		    enum ky_stack_kind kind);

/* " (95 %: 1.10 s to 1.31 s)" of off-CPU times; "" where all of it was seen. Returns
 * cell. */
#define KY_UNSEEN_INTERVAL_BYTES 128u
const char *ky_unseen_interval(char *cell, const struct ky_stack_profile *profile);

#endif
