/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_text.h - the life of a task as text: what it is, then a line for each event.
 * Threads: any.
 */
#ifndef KY_REPORT_TASK_TEXT_H
#define KY_REPORT_TASK_TEXT_H

#include <analyze/task_life.h>
#include <report/report_cells.h>

/* limit: events, 0: all. stacks: NULL: functions have no names. */
void ky_task_text(const struct ky_report_view *view, const struct ky_task_life *life,
		  uint64_t limit, const struct ky_code_stacks *stacks);

#endif
