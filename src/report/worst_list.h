/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worst_list.h - the longest polls and the longest waits of a report, each cause once.
 * Threads: any.
 */
#ifndef KY_REPORT_WORST_LIST_H
#define KY_REPORT_WORST_LIST_H

#include <report/report_cells.h>

void ky_worst_polls(const struct ky_report_view *view);
void ky_worst_delays(const struct ky_report_view *view);

#endif
