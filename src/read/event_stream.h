/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_stream.h - every event of a trace with all its fields, one by one, from the bytes again.
 *
 * Invariants:  sorted: ascending by time over all sources, whatever their order and the order
 *              inside (events without a time, or with time 0 such as symbols, come where they
 *              stand in the file); as stored: source after source in file order.
 * Memory:      one window per source plus the reorder buffer (reorder_bytes_max). When that is full
 *              its earliest event leaves: then is_late marks what came too late to be in order.
 * Damage:      as ky_trace_open(): a torn tail or a damaged stretch is skipped; see notices there.
 * Threads:     owner.
 */
#ifndef KY_READ_EVENT_STREAM_H
#define KY_READ_EVENT_STREAM_H

#include <base/byte_source.h>
#include <wire/trc_dec.h>

struct ky_event_stream_options {
	uint64_t raw_bytes_max;     /* as ky_trace_options */
	uint64_t reorder_bytes_max; /* 0: 256 MiB */
	bool is_stored_order;       /* false: sorted by time */
	bool is_without_hot;        /* stored order: polls and wakes (trc_dec.h) are passed over */
	struct ky_trc_limits limits;
	char *errbuf;
	size_t errbuf_bytes;
};

struct ky_event {
	const struct ky_schema *schema; /* schema->name, ->fields[i].name/unit; ->event = KY_EV_ */
	const struct ky_value *values;  /* schema->field_count */
	uint64_t timestamp_ns;
	bool has_timestamp;
	bool is_late;
	uint32_t source;
	uint64_t offset; /* of the frame in the source's decompressed bytes */
};

/* As ky_frame_field() and ky_frame_number(). */
static inline const struct ky_value *ky_event_field(const struct ky_event *event, uint32_t field)
{
	uint8_t slot = event->schema->slot_of[field];

	return slot == 0xff || !event->values[slot].is_present ? NULL : &event->values[slot];
}

static inline uint64_t ky_event_number(const struct ky_event *event, uint32_t field,
				       uint64_t absent)
{
	const struct ky_value *value = ky_event_field(event, field);

	return value ? value->as.number : absent;
}

struct ky_event_stream;

/* sources: as ky_trace_open(); they need seek when the stream is opened after another reader, and
 * are used until close. Returns 0, -ENOMEM, -errno of a source. */
int ky_event_stream_open(struct ky_event_stream **out, struct ky_byte_source *sources,
			 size_t source_count, const struct ky_event_stream_options *options);
void ky_event_stream_close(struct ky_event_stream *stream);

/* Returns 1 with *event (valid until the next call), 0 at the end, negative on -ENOMEM or the
 * like. */
int ky_event_stream_next(struct ky_event_stream *stream, const struct ky_event **event);

/* The latest moment of the events passed over so far; 0: none. */
uint64_t ky_event_stream_passed_ns(const struct ky_event_stream *stream);

/* Sentences about damage met so far; NULL after the last. */
const char *ky_event_stream_notice(const struct ky_event_stream *stream, uint32_t index);

/* True when something met so far cannot be read, other than a truncated tail. */
bool ky_event_stream_is_damaged(const struct ky_event_stream *stream);

/* Walks STRING_MAP, LIST and MAP values, as ky_trc_walk_next(). In sorted order a pooled element
 * whose stream has been left comes unresolved (pool_id says which it was). */
int ky_event_walk_next(struct ky_event_stream *stream, struct ky_trc_walk *walk,
		       struct ky_value *key, struct ky_value *value);

#endif
