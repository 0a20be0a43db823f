/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* root_text.h - the table of roots, the futures of block_on.
 * Threads: any.
 */
#ifndef KY_REPORT_ROOT_TEXT_H
#define KY_REPORT_ROOT_TEXT_H

#include <report/report_cells.h>

/* Nothing where the trace has no root. */
void ky_root_text(const struct ky_report_view *view);

#endif
