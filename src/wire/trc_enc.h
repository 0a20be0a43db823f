/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trc_enc.h - writes TRC version 1 into a ky_buf. Pure functions over bytes.
 *
 * Invariants:  a stream = header, then frames; the schema of an event is written right before its
 *              first event, a pooled string right before its first use; each ky_trc_enc_begin()
 *              starts a self-contained stream (decoders reset at its header).
 * Errors:      values never fail one by one: buf->failed is checked once per event or chunk. When
 *              it is set, cut `used` back to the last good length and begin a new stream.
 * Threads:     owner.
 */
#ifndef KY_WIRE_TRC_ENC_H
#define KY_WIRE_TRC_ENC_H

#include <base/buf.h>
#include <base/bytes.h>
#include <wire/trc.h>

struct ky_string_pool; /* hash table bytes -> pool id, internal */

struct ky_trc_enc {
	struct ky_buf *out;
	uint64_t base_ns;                /* time base of the stream: of its last event */
	uint64_t high_ns;                /* latest event before the time base went back */
	uint64_t event_count;            /* of this stream */
	uint8_t has_schema[KY_EV_COUNT]; /* schema frame already in this stream */
	uint16_t type_id[KY_EV_COUNT];
	struct ky_string_pool *strings;
	struct ky_string_pool *stacks;
};

/* Owner: out stays the caller's and must outlive enc. Returns 0, -ENOMEM. */
int ky_trc_enc_init(struct ky_trc_enc *enc, struct ky_buf *out);
void ky_trc_enc_release(struct ky_trc_enc *enc);

/* Starts a new self-contained stream at the end of out: header; schemas, pools, time base reset. */
void ky_trc_enc_begin(struct ky_trc_enc *enc);

/* Pool id of a string in this stream; writes the pool frame on first use. Call before the event.
 * key: 0, or a nonzero number that stands for this very text within the stream's owner (the drain's
 * name id + 1), which skips hashing. */
uint32_t ky_trc_enc_string(struct ky_trc_enc *enc, uint64_t key, const char *text,
			   size_t text_bytes);
uint32_t ky_trc_enc_stack(struct ky_trc_enc *enc, const uint64_t *frames, size_t frame_count);

/* One event: schema on first use, reset frame when the delta needs one, tag, type id, u24 delta.
 * Then exactly one value call per *written* field (KY_FIELD with USE W), in order. timestamp_ns
 * may go back: a reset frame is written. */
void ky_trc_enc_event(struct ky_trc_enc *enc, enum ky_event_id event, uint64_t timestamp_ns);
static inline void ky_trc_enc_u8(struct ky_trc_enc *enc, uint8_t value); /* also BOOL, presence */
static inline void ky_trc_enc_u16(struct ky_trc_enc *enc, uint16_t value);
static inline void ky_trc_enc_u32(struct ky_trc_enc *enc, uint32_t value); /* also pool ids */
static inline void ky_trc_enc_varint(struct ky_trc_enc *enc, uint64_t value);
static inline void ky_trc_enc_opt_varint(struct ky_trc_enc *enc, bool is_present, uint64_t value);
void ky_trc_enc_i64(struct ky_trc_enc *enc, int64_t value);
void ky_trc_enc_f64(struct ky_trc_enc *enc, double value);
/* BYTES, verbatim */
void ky_trc_enc_bytes(struct ky_trc_enc *enc, const void *bytes, size_t count);
/* STRING and the parts of a STRING_MAP: bytes that are not UTF-8 become '?', because peers refuse
 * the whole trace for one of them. Pooled strings are treated the same way. */
void ky_trc_enc_text(struct ky_trc_enc *enc, const char *text, size_t text_bytes);
/* STACK */
void ky_trc_enc_frames(struct ky_trc_enc *enc, const uint64_t *frames, size_t frame_count);
void ky_trc_enc_count(struct ky_trc_enc *enc, uint32_t count); /* of map pairs or list elements */

/* Raw building blocks for re-encoding streams with schemas of their own (convert, tests). */
struct ky_trc_field_def {
	const char *name;
	size_t name_bytes;
	uint8_t type;
};
void ky_trc_enc_schema(struct ky_trc_enc *enc, uint16_t type_id, const char *name,
		       size_t name_bytes, bool has_timestamp, const struct ky_trc_field_def *fields,
		       size_t field_count);
void ky_trc_enc_annotation(struct ky_trc_enc *enc, uint16_t type_id, uint16_t field,
			   const char *key, size_t key_bytes, const char *value,
			   size_t value_bytes);
void ky_trc_enc_raw_event(struct ky_trc_enc *enc, uint16_t type_id, bool has_timestamp,
			  uint64_t timestamp_ns);

/* ---- inline: an event of four small fields is four stores, not four calls ---- */

/* Where to store up to `count` bytes, NULL after a failure; ky_trc_enc_finish() says how many. */
static inline uint8_t *ky_trc_enc_room(struct ky_buf *out, size_t count)
{
	if (__builtin_expect(out->capacity - out->used < count || out->failed, 0)) {
		if (ky_buf_reserve(out, count))
			return NULL;
	}
	return out->bytes + out->used;
}

static inline void ky_trc_enc_finish(struct ky_buf *out, const uint8_t *end)
{
	out->used = (size_t)(end - out->bytes);
}

static inline void ky_trc_enc_u8(struct ky_trc_enc *enc, uint8_t value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, 1);

	if (at) {
		*at = value;
		enc->out->used++;
	}
}

static inline void ky_trc_enc_u16(struct ky_trc_enc *enc, uint16_t value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, 2);

	if (at)
		ky_trc_enc_finish(enc->out, ky_put_u16(at, value));
}

static inline void ky_trc_enc_u32(struct ky_trc_enc *enc, uint32_t value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, 4);

	if (at)
		ky_trc_enc_finish(enc->out, ky_put_u32(at, value));
}

static inline void ky_trc_enc_varint(struct ky_trc_enc *enc, uint64_t value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, KY_VARINT_BYTES_MAX);

	if (at)
		ky_trc_enc_finish(enc->out, ky_varint_put(at, value));
}

static inline void ky_trc_enc_opt_varint(struct ky_trc_enc *enc, bool is_present, uint64_t value)
{
	ky_trc_enc_u8(enc, is_present);
	if (is_present)
		ky_trc_enc_varint(enc, value);
}

/* ---- the frequent events of the drain: the same bytes as the generic calls, in one go ---- */

#define KY_TRC_RESET_BYTES 9u
#define KY_TRC_EVENT_HEAD_BYTES 6u
/* ... and the spare bytes that the 8-byte store of a head may touch. */
#define KY_TRC_HEAD_BYTES_MAX (KY_TRC_RESET_BYTES + KY_TRC_EVENT_HEAD_BYTES + 2u)
#define KY_TRC_HOT_EVENT_BYTES (KY_TRC_HEAD_BYTES_MAX + 4u * KY_VARINT_BYTES_MAX + 3u + 4u)

/* Head of an event at `at`, where KY_TRC_HEAD_BYTES_MAX bytes are free. Returns after it. */
static inline uint8_t *ky_trc_enc_head(struct ky_trc_enc *enc, uint8_t *at, uint16_t type_id,
				       uint64_t timestamp_ns)
{
	uint64_t delta = timestamp_ns - enc->base_ns;

	if (__builtin_expect(delta > KY_TRC_DELTA_MAX || timestamp_ns < enc->base_ns, 0)) {
		if (enc->high_ns < enc->base_ns)
			enc->high_ns = enc->base_ns;
		*at++ = KY_TAG_TIMESTAMP_RESET;
		at = ky_put_u64(at, timestamp_ns);
		delta = 0;
	}
	enc->base_ns = timestamp_ns;
	enc->event_count++;
	ky_put_u64(at, KY_TAG_EVENT | (uint64_t)type_id << 8 | delta << 24);
	return at + KY_TRC_EVENT_HEAD_BYTES;
}

/* Time of the latest event of this stream; 0: it has none. */
static inline uint64_t ky_trc_enc_last_ns(const struct ky_trc_enc *enc)
{
	return enc->high_ns > enc->base_ns ? enc->high_ns : enc->base_ns;
}

/* Room for a frequent event, after its schema when this is the first. NULL after a failure. */
__attribute__((cold)) uint8_t *ky_trc_enc_make_room(struct ky_trc_enc *enc, enum ky_event_id event);

/* Where the fields go; NULL after a failure. */
static inline uint8_t *ky_trc_enc_hot(struct ky_trc_enc *enc, enum ky_event_id event,
				      uint64_t timestamp_ns)
{
	const struct ky_buf *out = enc->out;
	uint8_t *at;

	if (__builtin_expect(!enc->has_schema[event] ||
				     out->capacity - out->used < KY_TRC_HOT_EVENT_BYTES ||
				     out->failed,
			     0)) {
		at = ky_trc_enc_make_room(enc, event);
		if (!at)
			return NULL;
	} else {
		at = out->bytes + out->used;
	}
	return ky_trc_enc_head(enc, at, enc->type_id[event], timestamp_ns);
}

/* Nearly always one byte: a branch that is predicted, where a sum would be waited for. */
static inline uint8_t *ky_trc_enc_worker(uint8_t *at, uint32_t worker_id)
{
	if (__builtin_expect(worker_id > 0x7f, 0))
		return ky_varint_put(at, worker_id);
	*at = (uint8_t)worker_id;
	return at + 1;
}

static inline void ky_trc_enc_poll_start(struct ky_trc_enc *enc, uint64_t timestamp_ns,
					 uint32_t worker_id, uint8_t local_queue, uint64_t task_id,
					 uint32_t spawn_loc_pool_id)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_POLL_START, timestamp_ns);

	if (!at)
		return;
	at = ky_trc_enc_worker(at, worker_id);
	*at++ = local_queue;
	at = ky_varint_put(at, task_id);
	ky_trc_enc_finish(enc->out, ky_put_u32(at, spawn_loc_pool_id));
}

static inline void ky_trc_enc_poll_end(struct ky_trc_enc *enc, uint64_t timestamp_ns,
				       uint32_t worker_id)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_POLL_END, timestamp_ns);

	if (at)
		ky_trc_enc_finish(enc->out, ky_trc_enc_worker(at, worker_id));
}

static inline void ky_trc_enc_wake(struct ky_trc_enc *enc, uint64_t timestamp_ns,
				   uint64_t waker_task_id, uint64_t woken_task_id,
				   uint8_t target_worker, uint8_t origin, uint32_t stack,
				   uint32_t tid)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_WAKE, timestamp_ns);

	if (!at)
		return;
	at = ky_varint_put(at, waker_task_id);
	at = ky_varint_put(at, woken_task_id);
	*at++ = target_worker;
	*at++ = origin;
	at = ky_put_u32(at, stack);
	ky_trc_enc_finish(enc->out, ky_varint_put(at, tid));
}

/* Worker, an unknown queue depth, its clock: how parks and unparks begin. */
static inline uint8_t *ky_trc_enc_worker_time(uint8_t *at, uint32_t worker_id, uint64_t cpu_time_ns)
{
	at = ky_trc_enc_worker(at, worker_id);
	*at++ = 0;
	return ky_varint_put(at, cpu_time_ns);
}

/* How they end. timeout_ms UINT32_MAX: none, or not known. */
static inline uint8_t *ky_trc_enc_park_wait(uint8_t *at, uint8_t wait, uint32_t timeout_ms)
{
	*at++ = wait;
	*at++ = timeout_ms != UINT32_MAX;
	return timeout_ms != UINT32_MAX ? ky_varint_put(at, timeout_ms) : at;
}

static inline void ky_trc_enc_park(struct ky_trc_enc *enc, uint64_t timestamp_ns,
				   uint32_t worker_id, uint64_t cpu_time_ns, uint32_t tid,
				   uint8_t wait, uint32_t timeout_ms)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_WORKER_PARK, timestamp_ns);

	if (!at)
		return;
	at = ky_put_u32(ky_trc_enc_worker_time(at, worker_id, cpu_time_ns), tid);
	ky_trc_enc_finish(enc->out, ky_trc_enc_park_wait(at, wait, timeout_ms));
}

/* What was ready. descriptor UINT32_MAX: not known, or not one. */
static inline uint8_t *ky_trc_enc_ready(uint8_t *at, uint32_t count, uint32_t descriptor)
{
	at = ky_varint_put(at, count);
	*at++ = descriptor != UINT32_MAX;
	return descriptor != UINT32_MAX ? ky_varint_put(at, descriptor) : at;
}

static inline void ky_trc_enc_unpark(struct ky_trc_enc *enc, uint64_t timestamp_ns,
				     uint32_t worker_id, uint64_t cpu_time_ns, uint32_t tid,
				     uint32_t ready_count, uint32_t ready_descriptor)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_WORKER_UNPARK, timestamp_ns);

	if (!at)
		return;
	at = ky_trc_enc_worker_time(at, worker_id, cpu_time_ns);
	*at++ = 0; /* no sched_wait_ns */
	at = ky_put_u32(at, tid);
	ky_trc_enc_finish(enc->out, ky_trc_enc_ready(at, ready_count, ready_descriptor));
}

static inline void ky_trc_enc_driver_turn(struct ky_trc_enc *enc, uint64_t timestamp_ns,
					  uint32_t worker_id, uint64_t duration_ns,
					  uint32_t ready_count, uint32_t ready_descriptor)
{
	uint8_t *at = ky_trc_enc_hot(enc, KY_EV_DRIVER_TURN, timestamp_ns);

	if (!at)
		return;
	at = ky_trc_enc_worker(at, worker_id);
	at = ky_varint_put(at, duration_ns);
	ky_trc_enc_finish(enc->out, ky_trc_enc_ready(at, ready_count, ready_descriptor));
}

#endif
