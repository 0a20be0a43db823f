/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* report_text.h - the report for people: the answer first, then what it rests on, last what is
 * unsure. */
#ifndef KY_REPORT_REPORT_TEXT_H
#define KY_REPORT_REPORT_TEXT_H

#include <analyze/stack_profile.h>
#include <base/buf.h>
#include <read/code_names.h>
#include <stdbool.h>

/* profile: what happened inside the worst polls. names: see watched_text.h. worst_count: rows of
 * the worst polls and waits; the report should hold more, as rows of the same are folded
 * into one. is_wall: moments are those of the wall clock, which the trace must have read. */
void ky_report_text(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile,
		    uint32_t worst_count, bool is_coloured, const struct ky_code_names *names,
		    bool is_wall);

#endif
