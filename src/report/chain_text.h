/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chain_text.h - what a task's time depended on, as text: the sums, then its links.
 * Threads: any.
 */
#ifndef KY_REPORT_CHAIN_TEXT_H
#define KY_REPORT_CHAIN_TEXT_H

#include <analyze/chain.h>
#include <report/report_cells.h>

/* limit: links, the longest of them; 0: all. */
void ky_chain_text(const struct ky_report_view *view, const struct ky_task_chain *chain,
		   uint64_t limit);

#endif
