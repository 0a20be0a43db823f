/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* histogram_text.h - a histogram as bars, three a decade.
 * Threads: any.
 */
#ifndef KY_REPORT_HISTOGRAM_TEXT_H
#define KY_REPORT_HISTOGRAM_TEXT_H

#include <report/report_cells.h>

/* Nothing where it is empty. */
void ky_histogram_text(const struct ky_report_view *view, const char *title,
		       const struct ky_histogram *histogram);

#endif
