/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/sent_text.h>

#include <base/out_text.h>
#include <string.h>

void ky_sent_text(struct ky_buf *out, const struct ky_sender_totals *totals)
{
	char bytes[KY_OUT_CELL_BYTES], count[KY_OUT_CELL_BYTES];

	ky_out_safe(out, totals->name, strlen(totals->name));
	ky_out_format(out, ": sent %s segment%s, %s", ky_out_count(count, totals->taken_count),
		      totals->taken_count == 1 ? "" : "s",
		      ky_out_bytes(bytes, totals->taken_bytes));
	if (totals->waiting_count)
		ky_out_format(out, "; %s left, %s", ky_out_count(count, totals->waiting_count),
			      ky_out_bytes(bytes, totals->waiting_bytes));
}

void ky_sent_left_text(struct ky_buf *out, const struct ky_sender_totals *totals)
{
	char count[KY_OUT_CELL_BYTES];

	ky_out_safe(out, totals->name, strlen(totals->name));
	ky_out_format(out, ": %s left, the oldest is ", ky_out_count(count, totals->waiting_count));
	ky_out_safe(out, totals->first_waiting, strlen(totals->first_waiting));
	if (totals->reason[0]) {
		ky_out_text(out, ": ");
		ky_out_safe(out, totals->reason, strlen(totals->reason));
	}
	ky_out_text(out, totals->refused_count == totals->waiting_count ?
				 "; each was refused, so it stays here" :
				 "; `kymo upload` or the next run sends them");
}

void ky_sent_say(void (*say)(const char *format, ...),
		 void (*put)(struct ky_buf *out, const struct ky_sender_totals *totals),
		 const struct ky_sender_totals *totals)
{
	struct ky_buf text;

	ky_buf_init(&text, 0);
	put(&text, totals);
	if (!ky_buf_append(&text, "", 1))
		say("%s", (const char *)text.bytes);
	ky_buf_release(&text);
}
