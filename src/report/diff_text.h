/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* diff_text.h - what changed between two groups of runs, as text.
 * Threads: any.
 */
#ifndef KY_REPORT_DIFF_TEXT_H
#define KY_REPORT_DIFF_TEXT_H

#include <analyze/run_diff.h>

/* names: of the places. limit: places, 0: all. */
void ky_diff_text(struct ky_buf *out, const struct ky_diff *diff, const char *const *names,
		  uint64_t limit, bool is_coloured);

#endif
