/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* top_text.h - the last seconds of one process on one screen: workers, kinds of tasks, the slowest
 * polls, the first finding. All figures are those of the report.
 *
 * Errors:  buf->failed.     Threads: owner.
 */
#ifndef KY_REPORT_TOP_TEXT_H
#define KY_REPORT_TOP_TEXT_H

#include <analyze/findings/findings.h>
#include <analyze/report.h>

#define KY_TOP_POLLS 5u

enum ky_top_sort {
	KY_TOP_BY_BUSY, /* the time in polls */
	KY_TOP_BY_POLLS,
	KY_TOP_BY_LONGEST,
	KY_TOP_BY_DELAY,
	KY_TOP_SORTS
};

struct ky_top_view {
	uint32_t pid;
	const char *service;
	uint64_t window_ns;           /* what was asked for */
	uint64_t age_ns;              /* since the recording began */
	uint64_t lost_count;          /* dropped by the recorder since then */
	const struct ky_trace *trace; /* NULL: nothing was recorded in the window; and the rest */
	const struct ky_report *report;
	const struct ky_findings *findings;
	uint32_t sort;    /* enum ky_top_sort */
	uint32_t columns; /* of the screen; 0: not bounded */
	uint32_t rows;    /* in all; 0: not bounded */
	bool is_coloured;
};

void ky_top_text(struct ky_buf *out, const struct ky_top_view *view);
void ky_top_json(struct ky_buf *out, const struct ky_top_view *view);
const char *ky_top_sort_text(uint32_t sort);

#endif
