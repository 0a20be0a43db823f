/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* profile_text.h - the part of `kymo report` that says what samples show.
 * Threads: owner.
 */
#ifndef KY_REPORT_PROFILE_TEXT_H
#define KY_REPORT_PROFILE_TEXT_H

#include <analyze/stack_profile.h>
#include <base/out_text.h>

/* Where there is no sample: one line that says so, and why as far as the trace knows. */
void ky_profile_text(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile, bool is_coloured);

/* ", in windows of 22.1 % of the time": of the time that is sampled; "" where it is sampled always.
 * cell: KY_OUT_CELL_BYTES. */
const char *ky_profile_windows_text(char *cell, const struct ky_trace *trace);

#endif
