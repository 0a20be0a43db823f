/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* resource_text.h - the part of a report about what the process used of what it was allowed.
 * Threads: owner.
 */
#ifndef KY_REPORT_RESOURCE_TEXT_H
#define KY_REPORT_RESOURCE_TEXT_H

#include <analyze/report.h>

/* What was used, then in words what makes tasks late. Nothing without readings. */
void ky_resource_text(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_report *report, bool is_coloured);

#endif
