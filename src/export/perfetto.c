/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Track events of perfetto.dev: each lane is a sequence of packets with its own clock, whose stamps
 * are what passed since the packet before, and its own numbers of names. Sequence 1 has the rest,
 * with whole stamps.
 *
 * A packet that says something of the sequence (a clock, names, a track) has nothing else in it:
 * readers take one thing of a packet and drop the others without a word. Packets do not ask for the
 * state of the sequence to be valid, since a file has lost none of them: it saves two bytes each.
 * Packets go into packets of their own, packed (letter_codes.h), unless all of the file will be: a
 * poll and its task are 28 bytes otherwise, of which nothing can be left out.
 */
#include <export/track_events.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <base/text.h>
#include <errno.h>
#include <export/letter_codes.h>
#include <export/proto.h>
#include <string.h>

enum trace_field {
	TRACE_PACKET = 1
};
enum packet_field {
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_COMPRESSED = 50,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60
};
#define STATE_CLEARED 1u
enum snapshot_field {
	SNAPSHOT_CLOCKS = 1,
	SNAPSHOT_PRIMARY = 2
};
enum clock_field {
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	CLOCK_IS_INCREMENTAL = 3
};
enum clock_number {
	CLOCK_REAL = 1,
	CLOCK_MONO = 3,
	CLOCK_BOOT = 6,
	CLOCK_OWN = 64
};
enum defaults_field {
	DEFAULTS_TRACK_EVENT = 11,
	DEFAULTS_CLOCK = 58
};
enum descriptor_field {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8
};
enum process_field {
	PROCESS_PID = 1,
	PROCESS_NAME = 6
};
enum thread_field {
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5
};
enum event_field {
	EVENT_VALUES = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	EVENT_CORRELATION = 52
};
enum event_type {
	TYPE_BEGIN = 1,
	TYPE_END = 2,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4
};
enum value_field {
	VALUE_NUMBER = 3,
	VALUE_TEXT = 6,
	VALUE_NAME = 10
};
enum interned_field {
	INTERNED_EVENT_NAMES = 2
};
enum name_field {
	NAME_NUMBER = 1,
	NAME_TEXT = 2
};

#define FLUSH_BYTES (256u << 10)
#define COMMON_SEQUENCE 1u
#define FIRST_SEQUENCE 2u    /* of lane 0 */
#define PLAIN_BYTES_MAX 100u /* of an event without values */

struct sequence {
	uint64_t last_ns;
	uint8_t *named; /* a bit a name that was defined */
	uint32_t named_bytes;
	bool is_begun;
};

struct perfetto_encoder {
	struct ky_export *export;
	struct ky_buf *out;    /* packets, or `plain` where they are to be packed */
	struct ky_buf *packed; /* where they go then; NULL: they are not */
	struct ky_buf packet, part, inner, plain;
	struct sequence *sequences; /* by lane; the last one is the common one */
	uint32_t *numbers;          /* of names, by index; 0: none yet */
	uint32_t number_count;
	uint64_t pid;
	int failed;
};

static void put_packet(struct perfetto_encoder *encoder)
{
	ky_proto_message(encoder->out, TRACE_PACKET, &encoder->packet);
}

static void put_part(struct perfetto_encoder *encoder, uint32_t field, uint32_t sequence)
{
	ky_proto_number(&encoder->packet, PACKET_SEQUENCE, sequence);
	ky_proto_message(&encoder->packet, field, &encoder->part);
	put_packet(encoder);
}

static void put_clock(struct perfetto_encoder *encoder, uint32_t clock, uint64_t time_ns)
{
	ky_proto_number(&encoder->inner, CLOCK_ID, clock);
	ky_proto_number_always(&encoder->inner, CLOCK_TIME, time_ns);
	ky_proto_number(&encoder->inner, CLOCK_IS_INCREMENTAL, clock == CLOCK_OWN);
	ky_proto_message(&encoder->part, SNAPSHOT_CLOCKS, &encoder->inner);
}

/* ---- sequences ---- */

static void put_defaults(struct perfetto_encoder *encoder, uint32_t sequence, uint32_t clock,
			 uint64_t track)
{
	ky_proto_number(&encoder->part, DEFAULTS_CLOCK, clock);
	if (track) {
		ky_proto_number(&encoder->inner, EVENT_TRACK, track);
		ky_proto_message(&encoder->part, DEFAULTS_TRACK_EVENT, &encoder->inner);
	}
	ky_proto_number(&encoder->packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	put_part(encoder, PACKET_DEFAULTS, sequence);
}

/* Times of a file are what CLOCK_MONOTONIC said: the same numbers as kymo's. */
static void begin_common(struct perfetto_encoder *encoder)
{
	const struct ky_trace *trace = encoder->export->trace;
	uint64_t unix_ns = ky_trace_unix_ns(trace, trace->run_first_ns);

	put_defaults(encoder, COMMON_SEQUENCE, CLOCK_MONO, 0);
	put_clock(encoder, CLOCK_MONO, trace->run_first_ns);
	put_clock(encoder, CLOCK_BOOT, trace->run_first_ns);
	if (unix_ns)
		put_clock(encoder, CLOCK_REAL, unix_ns);
	ky_proto_number(&encoder->part, SNAPSHOT_PRIMARY, CLOCK_MONO);
	put_part(encoder, PACKET_CLOCK_SNAPSHOT, COMMON_SEQUENCE);
}

static void put_process(struct perfetto_encoder *encoder)
{
	const char *service = ky_trace_metadata(encoder->export->trace, "service");

	ky_proto_number(&encoder->inner, PROCESS_PID, encoder->pid);
	ky_proto_text(&encoder->inner, PROCESS_NAME, service ? service : "kymo");
	ky_proto_number(&encoder->part, TRACK_UUID, KY_TRACK_PROCESS);
	ky_proto_message(&encoder->part, TRACK_PROCESS, &encoder->inner);
	put_part(encoder, PACKET_TRACK_DESCRIPTOR, COMMON_SEQUENCE);
}

/* track: its first one. */
static void begin_lane(struct perfetto_encoder *encoder, uint32_t lane, uint64_t track,
		       uint64_t time_ns)
{
	struct sequence *sequence = &encoder->sequences[lane];

	if (sequence->is_begun)
		return;
	sequence->is_begun = true;
	sequence->last_ns = time_ns;
	put_defaults(encoder, FIRST_SEQUENCE + lane, CLOCK_OWN, track);
	put_clock(encoder, CLOCK_OWN, time_ns);
	put_clock(encoder, CLOCK_MONO, time_ns);
	ky_proto_number(&encoder->part, SNAPSHOT_PRIMARY, CLOCK_MONO);
	put_part(encoder, PACKET_CLOCK_SNAPSHOT, FIRST_SEQUENCE + lane);
}

static void on_track(void *ctx, const struct ky_track *track)
{
	struct perfetto_encoder *encoder = ctx;

	ky_proto_number(&encoder->part, TRACK_UUID, track->id);
	if (track->tid) {
		ky_proto_number(&encoder->inner, THREAD_PID, encoder->pid);
		ky_proto_number(&encoder->inner, THREAD_TID, track->tid);
		ky_proto_text(&encoder->inner, THREAD_NAME, track->name);
		ky_proto_message(&encoder->part, TRACK_THREAD, &encoder->inner);
	} else {
		ky_proto_text(&encoder->part, TRACK_NAME, track->name);
	}
	ky_proto_number(&encoder->part, TRACK_PARENT, track->parent);
	if (track->kind == KY_TRACK_COUNTER)
		ky_proto_message(&encoder->part, TRACK_COUNTER, &encoder->inner);
	put_part(encoder, PACKET_TRACK_DESCRIPTOR, COMMON_SEQUENCE);
}

/* ---- names ---- */

static void define_name(struct perfetto_encoder *encoder, const struct ky_track_event *event,
			uint32_t sequence, uint32_t number)
{
	ky_proto_number(&encoder->inner, NAME_NUMBER, number);
	ky_proto_text(&encoder->inner, NAME_TEXT,
		      event->named ? ky_track_name_text(event->named) :
				     ky_trace_name(encoder->export->trace, event->name));
	ky_proto_message(&encoder->part, INTERNED_EVENT_NAMES, &encoder->inner);
	put_part(encoder, PACKET_INTERNED_DATA, sequence);
}

/* Number of the event's name, defined on its sequence; 0: no memory. */
static uint32_t number_of(struct perfetto_encoder *encoder, const struct ky_track_event *event,
			  struct sequence *sequence, uint32_t sequence_id)
{
	uint32_t number = event->named;

	if (!number) {
		number = encoder->numbers[event->name];
		if (!number) {
			number = KY_TRACK_NAMES + encoder->number_count++;
			encoder->numbers[event->name] = number;
		}
	}
	if (number / 8 >= sequence->named_bytes) {
		uint32_t bytes = (number / 8 + 64) * 2;
		uint8_t *named = ky_realloc(sequence->named, bytes);

		if (!named) {
			encoder->failed = -ENOMEM;
			return 0;
		}
		memset(named + sequence->named_bytes, 0, bytes - sequence->named_bytes);
		sequence->named = named;
		sequence->named_bytes = bytes;
	}
	if (!(sequence->named[number / 8] >> number % 8 & 1)) {
		sequence->named[number / 8] |= (uint8_t)(1u << number % 8);
		define_name(encoder, event, sequence_id, number);
	}
	return number;
}

/* ---- events ---- */

static uint8_t *put_key(uint8_t *at, uint32_t field, uint32_t type)
{
	return ky_varint_put(at, (uint64_t)field << 3 | type);
}

static uint8_t *put_field(uint8_t *at, uint32_t field, uint64_t value)
{
	return ky_varint_put(put_key(at, field, 0), value);
}

static uint8_t *put_body(uint8_t *at, const struct ky_track_event *event, uint32_t type,
			 uint32_t number)
{
	at = put_field(at, EVENT_TYPE, type);
	if (!event->is_first_track)
		at = put_field(at, EVENT_TRACK, event->track);
	if (number)
		at = put_field(at, EVENT_NAME, number);
	if (type == TYPE_COUNTER)
		at = put_field(at, EVENT_COUNTER, (uint64_t)event->counter);
	if (type == TYPE_END || type == TYPE_COUNTER)
		return at;
	if (event->flow_out)
		at = ky_put_u64(put_key(at, EVENT_FLOW, 1), event->flow_out);
	if (event->flow_in)
		at = ky_put_u64(put_key(at, EVENT_FLOW_END, 1), event->flow_in);
	if (event->has_task)
		at = put_field(at, EVENT_CORRELATION, event->task);
	return at;
}

static void put_values(struct perfetto_encoder *encoder, const struct ky_track_event *event)
{
	for (uint32_t i = 0; i < event->value_count; i++) {
		const struct ky_track_value *value = &event->values[i];

		ky_proto_text(&encoder->inner, VALUE_NAME, value->name);
		if (value->text)
			ky_proto_text(&encoder->inner, VALUE_TEXT, value->text);
		else
			ky_proto_number_always(&encoder->inner, VALUE_NUMBER, value->number);
		ky_proto_message(&encoder->part, EVENT_VALUES, &encoder->inner);
	}
}

/* A packet of an event, whose lengths are one byte each as long as it has no values. */
static void put_event(struct perfetto_encoder *encoder, const struct ky_track_event *event,
		      uint32_t type)
{
	bool has_lane = event->lane != KY_NONE;
	uint32_t lane = has_lane ? event->lane : encoder->export->trace->worker_count;
	uint32_t sequence_id = has_lane ? FIRST_SEQUENCE + lane : COMMON_SEQUENCE, number = 0;
	struct sequence *sequence = &encoder->sequences[lane];
	uint64_t time_ns = event->time_ns;
	uint8_t *at, *length, *body_length;

	if (type == TYPE_BEGIN || type == TYPE_INSTANT)
		number = number_of(encoder, event, sequence, sequence_id);
	if (has_lane) {
		time_ns -= sequence->last_ns;
		sequence->last_ns = event->time_ns;
	}
	if (event->value_count) {
		uint8_t body[PLAIN_BYTES_MAX];

		(void)ky_buf_append(&encoder->part, body,
				    (size_t)(put_body(body, event, type, number) - body));
		put_values(encoder, event);
		ky_proto_number_always(&encoder->packet, PACKET_TIMESTAMP, time_ns);
		put_part(encoder, PACKET_TRACK_EVENT, sequence_id);
		return;
	}
	if (ky_buf_reserve(encoder->out, PLAIN_BYTES_MAX + 2))
		return;
	at = encoder->out->bytes + encoder->out->used;
	*at++ = TRACE_PACKET << 3 | 2;
	length = at++;
	at = put_field(at, PACKET_TIMESTAMP, time_ns);
	at = put_field(at, PACKET_SEQUENCE, sequence_id);
	*at++ = PACKET_TRACK_EVENT << 3 | 2;
	body_length = at++;
	at = put_body(at, event, type, number);
	*body_length = (uint8_t)(at - body_length - 1);
	*length = (uint8_t)(at - length - 1);
	encoder->out->used = (size_t)(at - encoder->out->bytes);
}

static void on_begin(void *ctx, const struct ky_track_event *event)
{
	struct perfetto_encoder *encoder = ctx;

	if (event->lane != KY_NONE)
		begin_lane(encoder, event->lane, event->is_first_track ? event->track : 0,
			   event->time_ns);
	put_event(encoder, event, TYPE_BEGIN);
}

static void on_end(void *ctx, const struct ky_track_event *event)
{
	put_event(ctx, event, TYPE_END);
}

static void on_instant(void *ctx, const struct ky_track_event *event)
{
	struct perfetto_encoder *encoder = ctx;

	if (event->lane != KY_NONE)
		begin_lane(encoder, event->lane, event->track, event->time_ns);
	put_event(encoder, event, TYPE_INSTANT);
}

static void on_counter(void *ctx, const struct ky_track_event *event)
{
	put_event(ctx, event, TYPE_COUNTER);
}

/* All packets since the last time, as one. */
static void pack(struct perfetto_encoder *encoder)
{
	if (!encoder->packed || !encoder->plain.used)
		return;
	ky_letter_codes_put(&encoder->part, encoder->plain.bytes, encoder->plain.used);
	ky_proto_message(&encoder->packet, PACKET_COMPRESSED, &encoder->part);
	ky_proto_message(encoder->packed, TRACE_PACKET, &encoder->packet);
	ky_buf_clear(&encoder->plain);
}

static int on_flush(void *ctx)
{
	struct perfetto_encoder *encoder = ctx;
	struct ky_export *export = encoder->export;

	if (encoder->failed)
		return encoder->failed;
	if (encoder->out->failed || !export->flush || encoder->out->used < FLUSH_BYTES)
		return encoder->out->failed;
	pack(encoder);
	if (encoder->packed && encoder->packed->failed)
		return encoder->packed->failed;
	return export->flush(export->flush_ctx, encoder->packed ? encoder->packed : encoder->out);
}

int ky_export_perfetto(struct ky_buf *out, struct ky_export *export)
{
	const struct ky_trace *trace = export->trace;
	struct perfetto_encoder encoder = {
		.export = export, .out = out, .pid = ky_track_pid(trace)};
	struct ky_track_sink sink = {&encoder,   on_track,   on_begin, on_end,
				     on_instant, on_counter, on_flush};
	int result = -ENOMEM;

	ky_buf_init(&encoder.packet, 0);
	ky_buf_init(&encoder.part, 0);
	ky_buf_init(&encoder.inner, 0);
	ky_buf_init(&encoder.plain, 0);
	if (!export->is_packed_later) {
		encoder.packed = out;
		encoder.out = &encoder.plain;
	}
	encoder.sequences = ky_alloc((trace->worker_count + (size_t)1) * sizeof(struct sequence));
	encoder.numbers = ky_alloc((ky_trace_name_count(trace) + (size_t)1) * sizeof(uint32_t));
	if (encoder.sequences && encoder.numbers) {
		begin_common(&encoder);
		put_process(&encoder);
		result = ky_track_events(export, &sink);
		result = result ? result : encoder.out->failed;
		pack(&encoder);
	}
	for (uint32_t i = 0; encoder.sequences && i <= trace->worker_count; i++)
		ky_free(encoder.sequences[i].named);
	ky_free(encoder.sequences);
	ky_free(encoder.numbers);
	ky_buf_release(&encoder.packet);
	ky_buf_release(&encoder.part);
	ky_buf_release(&encoder.inner);
	ky_buf_release(&encoder.plain);
	return result ? result : out->failed;
}
