/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_text.h - what `kymo dump` and `kymo recover` print about a trace they made out of a ring.
 *
 * Threads: any.
 */
#ifndef KY_REPORT_DUMP_TEXT_H
#define KY_REPORT_DUMP_TEXT_H

#include <base/buf.h>
#include <stdbool.h>
#include <wire/cut_report.h>

/* Two readings of the same moment: turns CLOCK_MONOTONIC of a ring's boot into wall time. */
struct ky_dump_clock {
	uint64_t monotonic_ns, unix_ns;
};

/* "12,345 events, FROM to TO UTC (30.0 s), nothing lost; ..." without a full stop. asked_ns: how
 * far back the range was to reach; 0: as far as there is. */
void ky_dump_summary(struct ky_buf *out, const struct ky_cut_report *report,
		     const struct ky_dump_clock *clock, uint64_t asked_ns);
/* "; recording was stopped at ..." where it was: what is missing after it is neither lost nor a
 * sign of an idle process. */
void ky_dump_stopped(struct ky_buf *out, const struct ky_cut_report *report,
		     const struct ky_dump_clock *clock);
/* Has the ring never overwritten anything? */
bool ky_dump_has_all(const struct ky_cut_report *report);
/* The summary as members of a JSON object, without its braces. */
void ky_dump_summary_json(struct ky_buf *out, const char *file, uint64_t file_bytes,
			  const struct ky_cut_report *report, const struct ky_dump_clock *clock);
/* A line for each poll that was open, longest first, after `indent` spaces. at_ns: the last
 * moment that was recorded, after which it may have continued. */
void ky_dump_polls(struct ky_buf *out, const struct ky_cut_report *report, uint64_t at_ns,
		   uint32_t indent);

#endif
