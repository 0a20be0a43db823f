/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_text.h - who woke tasks: in a cell, and the table of all causes.
 * Threads: any.
 */
#ifndef KY_REPORT_WAKE_TEXT_H
#define KY_REPORT_WAKE_TEXT_H

#include <analyze/wake_cause.h>
#include <report/report_cells.h>

#define KY_WAKE_TEXT_BYTES 256u

/* "I/O", "a timer", "send at src/main.rs:40", "thread 42 feeder: ..."; "" where nothing is known
 * beyond the task whose poll issued it. Returns cell, of KY_WAKE_TEXT_BYTES. */
const char *ky_wake_text(char *cell, const struct ky_report_view *view, const struct ky_wake *wake);

/* The same of a cause and the thread that issued it; 0: a worker's. */
const char *ky_wake_cause_text(char *cell, const struct ky_report_view *view,
			       struct ky_wake_cause cause, uint32_t tid);

/* Nothing where the trace has no wake. */
void ky_wake_table(const struct ky_report_view *view);

#endif
