/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* what_if_text.h - what a ky_what_if says, for people.
 * Threads: any.
 */
#ifndef KY_REPORT_WHAT_IF_TEXT_H
#define KY_REPORT_WHAT_IF_TEXT_H

#include <analyze/what_if.h>
#include <report/report_cells.h>

void ky_what_if_text(const struct ky_report_view *view, const struct ky_what_if *what_if);

#endif
