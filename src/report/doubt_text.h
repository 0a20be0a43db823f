/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* doubt_text.h - what the figures of a report do not rest on: records that were lost, events that
 * were only counted, polls and waits that are not concluded.
 * Threads: any.
 */
#ifndef KY_REPORT_DOUBT_TEXT_H
#define KY_REPORT_DOUBT_TEXT_H

#include <report/report_cells.h>

void ky_losses_text(const struct ky_report_view *view);
void ky_counted_text(const struct ky_report_view *view);
void ky_unsure_text(const struct ky_report_view *view);

#endif
