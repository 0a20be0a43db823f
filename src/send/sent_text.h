/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sent_text.h - what a sender did, in the words that `kymo run` and `kymo upload` end with.
 * Threads: any.
 */
#ifndef KY_SEND_SENT_TEXT_H
#define KY_SEND_SENT_TEXT_H

#include <base/buf.h>
#include <send/sender.h>

/* "s3://traces/prod: sent 3 segments, 4.5 MB; 1 left, 61.1 kB" */
void ky_sent_text(struct ky_buf *out, const struct ky_sender_totals *totals);
/* Where something is left: which is the oldest, why, and who sends it. */
void ky_sent_left_text(struct ky_buf *out, const struct ky_sender_totals *totals);

/* Says one of the two. */
void ky_sent_say(void (*say)(const char *format, ...),
		 void (*put)(struct ky_buf *out, const struct ky_sender_totals *totals),
		 const struct ky_sender_totals *totals);

#endif
