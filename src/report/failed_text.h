/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* failed_text.h - in words: calls inside polls that failed again and again.
 * Threads: any.
 */
#ifndef KY_REPORT_FAILED_TEXT_H
#define KY_REPORT_FAILED_TEXT_H

#include <report/report_cells.h>

/* Lines, or nothing. */
void ky_failed_text(const struct ky_report_view *view);

#endif
