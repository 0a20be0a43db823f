/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* loss_text.h - what is missing, of every kind, in one form of words.
 *
 * Threads:     owner.
 */
#ifndef KY_REPORT_LOSS_TEXT_H
#define KY_REPORT_LOSS_TEXT_H

#include <base/buf.h>
#include <read/trace.h>

/* What a recorder counted. dropped: of records, never written; since_start: samples are those of
 * the whole life of the process. */
struct ky_loss_counts {
	uint64_t records, dropped, samples;
	bool since_start;
};

/* "nothing lost"; "12 records lost, 3 dropped, 53,643 samples lost". */
void ky_loss_counts_text(struct ky_buf *out, const struct ky_loss_counts *counts);

/* "53,643 samples (53,000 CPU, 643 await points)", without a verb; none: nothing. */
void ky_loss_samples_text(struct ky_buf *out, const struct ky_trace *trace);

/* "3 segments were deleted by the bound on disk ...", of unsent_segments. */
void ky_unsent_text(struct ky_buf *out, const struct ky_trace *trace);

/* What the reader had no room for: a line each after `prefix`, or nothing. */
void ky_left_out_text(struct ky_buf *out, const struct ky_trace *trace, const char *prefix);

/* Rows of `kymo info`, the first labelled: records, samples, records of the kernel; or "none". */
void ky_loss_rows(struct ky_buf *out, const struct ky_trace *trace);

#endif
