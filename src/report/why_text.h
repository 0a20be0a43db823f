/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* why_text.h - what `kymo why` prints for people.
 * Threads: owner.
 */
#ifndef KY_REPORT_WHY_TEXT_H
#define KY_REPORT_WHY_TEXT_H

#include <analyze/why.h>
#include <report/report_cells.h>

/* What a part of a delay is that is no poll of another task: enum ky_part. "" for those. */
const char *ky_part_text(uint32_t part);

/* view: out, trace, is_coloured, is_wall and worst_count are read. */
void ky_why_text(const struct ky_report_view *view, const struct ky_why *why);

/* The longest span of a name, and what it depended on. */
void ky_why_span_text(const struct ky_report_view *view, const struct ky_why_span *worst);

#endif
