/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_text.h - the threads of the process that are no workers, those first that took most CPU
 * time.
 * Threads: any.
 */
#ifndef KY_REPORT_THREAD_TEXT_H
#define KY_REPORT_THREAD_TEXT_H

#include <analyze/report.h>

void ky_thread_text(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, bool is_coloured);

#endif
