/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stop_text.h - in words: when the process as a whole was stopped, and when its CPU limit stopped
 * it.
 * Threads: any.
 */
#ifndef KY_REPORT_STOP_TEXT_H
#define KY_REPORT_STOP_TEXT_H

#include <analyze/report.h>
#include <base/buf.h>

/* Lines, or nothing. */
void ky_stop_text(struct ky_buf *out, const struct ky_trace *trace, const struct ky_report *report);

#endif
