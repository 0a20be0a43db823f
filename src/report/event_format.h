/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_format.h - one event with all its fields as text, a JSON line or a CSV row.
 *
 * Values: pooled strings and stacks resolved, stacks as hexadecimal addresses, bytes as hexadecimal
 * digits, containers walked without recursion. JSON integers are exact: readers that use doubles
 * lose digits above 2^53. Fields and map keys of one name become name, name#2 and so on. NaN and
 * the infinities are null in JSON and CSV. Text in quotes has \\, \" and \xNN. Absent optional
 * fields are left out of text, null in JSON, empty in CSV.
 * Errors: buf->failed.    Threads: owner.
 */
#ifndef KY_REPORT_EVENT_FORMAT_H
#define KY_REPORT_EVENT_FORMAT_H

#include <base/buf.h>
#include <analyze/catalog.h>
#include <read/event_stream.h>
#include <read/symbol_table.h>

/* How times are printed: from start_ns on or, where is_wall, as the wall clock's by one reading of
 * both clocks. */
struct ky_event_clock {
	uint64_t start_ns, sync_monotonic_ns, sync_realtime_ns;
	bool is_wall;
};

/* "     0.001234567  PollStartEvent  worker_id=1 ...\n", by the wall clock
 * "2026-05-18T12:30:00.123456789  PollStartEvent ...\n".
 * shape: of the event, NULL: not known. symbols: names in place of addresses; NULL: none. */
void ky_event_text(struct ky_buf *out, struct ky_event_stream *stream, const struct ky_event *event,
		   const struct ky_shape *shape, const struct ky_event_clock *clock,
		   struct ky_symbol_table *symbols);
/* {"timestamp_ns":1,"event":"PollStartEvent","fields":{...}}\n; with symbols: names beside the
 * fields (event_names.h). Where the clock is wall: unix_ns after timestamp_ns. */
void ky_event_json(struct ky_buf *out, struct ky_event_stream *stream, const struct ky_event *event,
		   const struct ky_shape *shape, const struct ky_event_clock *clock,
		   struct ky_symbol_table *symbols);
/* The fields alone, as an object. */
void ky_event_fields_json(struct ky_buf *out, struct ky_event_stream *stream,
			  const struct ky_event *event, const struct ky_shape *shape);

/* The columns of a CSV: union of the fields of the chosen shapes, in order of appearance. */
struct ky_csv_columns {
	const char **names;
	size_t *name_bytes;
	uint32_t count, capacity;
	uint16_t **by_shape; /* per shape: column of each field; NULL: shape not chosen */
	uint32_t shape_count;
	const struct ky_value **row;       /* scratch: count values */
	const struct ky_event_clock *wall; /* for unix_ns, the second column; NULL: there is none */
};
#define KY_CSV_COLUMNS_MAX 4096u

/* is_chosen: one flag a shape, NULL: all. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_csv_columns_make(struct ky_csv_columns *out, const struct ky_catalog *catalog,
			const bool *is_chosen);
void ky_csv_columns_release(struct ky_csv_columns *columns);
void ky_csv_header(struct ky_buf *out, const struct ky_csv_columns *columns);
void ky_event_csv(struct ky_buf *out, const struct ky_csv_columns *columns, uint32_t shape,
		  struct ky_event_stream *stream, const struct ky_event *event);
/* RFC 4180: quoted when needed, line ends included. It has no place for other control bytes, nor
 * for what is not UTF-8: they become \xNN as in text. */
void ky_csv_cell(struct ky_buf *out, const char *text, size_t text_bytes);

#endif
