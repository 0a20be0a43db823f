/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <wire/trc_enc.h>

#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/string_pool.h>

_Static_assert(KY_EV_COUNT < 255, "known events have the type ids 1 to 255, as the peer's");

static struct ky_string_pool *pool_open(void)
{
	struct ky_string_pool *pool = ky_alloc(sizeof(*pool));

	if (pool && ky_string_pool_init(pool)) {
		ky_free(pool);
		pool = NULL;
	}
	return pool;
}

static void pool_close(struct ky_string_pool *pool)
{
	if (pool)
		ky_string_pool_release(pool);
	ky_free(pool);
}

int ky_trc_enc_init(struct ky_trc_enc *enc, struct ky_buf *out)
{
	memset(enc, 0, sizeof(*enc));
	enc->out = out;
	enc->strings = pool_open();
	enc->stacks = pool_open();
	if (!enc->strings || !enc->stacks) {
		ky_trc_enc_release(enc);
		return -ENOMEM;
	}
	/* The same id for the same event in every stream: repeated bytes compress well. */
	for (uint32_t i = 0; i < KY_EV_COUNT; i++)
		enc->type_id[i] = (uint16_t)(i + 1);
	return 0;
}

void ky_trc_enc_release(struct ky_trc_enc *enc)
{
	pool_close(enc->strings);
	pool_close(enc->stacks);
	memset(enc, 0, sizeof(*enc));
}

void ky_trc_enc_begin(struct ky_trc_enc *enc)
{
	static const uint8_t header[KY_TRC_HEADER_BYTES] = {'T', 'R', 'C', 0, KY_TRC_VERSION};

	enc->base_ns = enc->high_ns = 0;
	enc->event_count = 0;
	memset(enc->has_schema, 0, sizeof(enc->has_schema));
	ky_string_pool_reset(enc->strings);
	ky_string_pool_reset(enc->stacks);
	ky_buf_append(enc->out, header, sizeof(header));
}

/* ---- pools ---- */

static uint32_t pool_frame(struct ky_trc_enc *enc, enum ky_trc_tag tag, struct ky_string_pool *pool,
			   uint64_t key, const void *bytes, size_t byte_count, size_t unit)
{
	uint32_t id = 0;
	uint8_t *at;
	int is_new;

	if (enc->out->failed)
		return 0;
	if (byte_count > UINT32_MAX) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return 0;
	}
	is_new = ky_string_pool_add(pool, key, bytes, byte_count, &id);
	if (is_new < 0)
		enc->out->failed = enc->out->failed ? enc->out->failed : is_new;
	if (is_new <= 0)
		return id;
	at = ky_trc_enc_room(enc->out, 13 + byte_count);
	if (!at)
		return id;
	*at++ = (uint8_t)tag;
	at = ky_put_u32(at, 1);
	at = ky_put_u32(at, id);
	at = ky_put_u32(at, (uint32_t)(byte_count / unit));
	if (byte_count)
		memcpy(at, bytes, byte_count);
	if (tag == KY_TAG_STRING_POOL)
		ky_utf8_clean(at, byte_count);
	ky_trc_enc_finish(enc->out, at + byte_count);
	return id;
}

uint32_t ky_trc_enc_string(struct ky_trc_enc *enc, uint64_t key, const char *text,
			   size_t text_bytes)
{
	return pool_frame(enc, KY_TAG_STRING_POOL, enc->strings, key, text, text_bytes, 1);
}

uint32_t ky_trc_enc_stack(struct ky_trc_enc *enc, const uint64_t *frames, size_t frame_count)
{
	if (frame_count > UINT32_MAX / sizeof(*frames)) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return 0;
	}
	return pool_frame(enc, KY_TAG_STACK_POOL, enc->stacks, 0, frames,
			  frame_count * sizeof(*frames), sizeof(*frames));
}

/* ---- schemas ---- */

static uint8_t *put_name(uint8_t *at, const char *name, size_t name_bytes)
{
	at = ky_put_u16(at, (uint16_t)name_bytes);
	if (name_bytes)
		memcpy(at, name, name_bytes);
	ky_utf8_clean(at, name_bytes);
	return at + name_bytes;
}

void ky_trc_enc_schema(struct ky_trc_enc *enc, uint16_t type_id, const char *name,
		       size_t name_bytes, bool has_timestamp, const struct ky_trc_field_def *fields,
		       size_t field_count)
{
	size_t bytes = 8 + name_bytes;
	bool is_long = name_bytes > UINT16_MAX || field_count > UINT16_MAX;
	uint8_t *at;

	for (size_t i = 0; i < field_count && !is_long; i++) {
		is_long = fields[i].name_bytes > UINT16_MAX;
		bytes += 3 + fields[i].name_bytes;
	}
	if (is_long) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return;
	}
	at = ky_trc_enc_room(enc->out, bytes);
	if (!at)
		return;
	*at++ = KY_TAG_SCHEMA;
	at = ky_put_u16(at, type_id);
	at = put_name(at, name, name_bytes);
	*at++ = has_timestamp;
	at = ky_put_u16(at, (uint16_t)field_count);
	for (size_t i = 0; i < field_count; i++) {
		at = put_name(at, fields[i].name, fields[i].name_bytes);
		*at++ = fields[i].type;
	}
	ky_trc_enc_finish(enc->out, at);
}

static uint8_t *put_annotation(uint8_t *at, uint16_t field, const char *key, size_t key_bytes,
			       const char *value, size_t value_bytes)
{
	at = ky_put_u16(at, field);
	at = put_name(at, key, key_bytes);
	at = ky_put_u32(at, (uint32_t)value_bytes);
	if (value_bytes)
		memcpy(at, value, value_bytes);
	ky_utf8_clean(at, value_bytes);
	return at + value_bytes;
}

void ky_trc_enc_annotation(struct ky_trc_enc *enc, uint16_t type_id, uint16_t field,
			   const char *key, size_t key_bytes, const char *value, size_t value_bytes)
{
	uint8_t *at;

	if (key_bytes > UINT16_MAX || value_bytes > UINT32_MAX) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return;
	}
	at = ky_trc_enc_room(enc->out, 1 + KY_VARINT_BYTES_MAX + 2 + 8 + key_bytes + value_bytes);
	if (!at)
		return;
	*at++ = KY_TAG_ANNOTATIONS;
	at = ky_varint_put(at, type_id);
	at = ky_put_u16(at, 1);
	ky_trc_enc_finish(enc->out, put_annotation(at, field, key, key_bytes, value, value_bytes));
}

/* One frame with unit and kind of all written fields that have them; none when there are none. */
static void write_annotations(struct ky_trc_enc *enc, uint32_t event)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	size_t bytes = 1 + KY_VARINT_BYTES_MAX + 2;
	uint16_t field = 0, count = 0;
	uint8_t *at, *count_at;

	for (uint32_t i = 0; i < desc->field_count; i++)
		bytes += 2 * (8 + 4) + strlen(desc->fields[i].unit) + strlen(desc->fields[i].kind);
	at = ky_trc_enc_room(enc->out, bytes);
	if (!at)
		return;
	*at++ = KY_TAG_ANNOTATIONS;
	count_at = ky_varint_put(at, enc->type_id[event]);
	at = count_at + 2;
	for (uint32_t i = 0; i < desc->field_count; i++) {
		const struct ky_field_desc *f = &desc->fields[i];

		if (!f->is_written)
			continue;
		if (f->unit[0]) {
			at = put_annotation(at, field, "unit", 4, f->unit, strlen(f->unit));
			count++;
		}
		if (f->kind[0]) {
			at = put_annotation(at, field, "kind", 4, f->kind, strlen(f->kind));
			count++;
		}
		field++;
	}
	ky_put_u16(count_at, count);
	if (count)
		ky_trc_enc_finish(enc->out, at);
}

static __attribute__((noinline, cold)) void write_schema(struct ky_trc_enc *enc, uint32_t event)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	struct ky_trc_field_def fields[KY_TRC_FIELDS_MAX];
	size_t count = 0;

	for (uint32_t i = 0; i < desc->field_count; i++) {
		if (!desc->fields[i].is_written)
			continue;
		fields[count].name = desc->fields[i].name;
		fields[count].name_bytes = strlen(desc->fields[i].name);
		fields[count++].type = desc->fields[i].type;
	}
	ky_trc_enc_schema(enc, enc->type_id[event], desc->name, strlen(desc->name), true, fields,
			  count);
	write_annotations(enc, event);
	enc->has_schema[event] = 1;
}

/* ---- events ---- */

void ky_trc_enc_event(struct ky_trc_enc *enc, enum ky_event_id event, uint64_t timestamp_ns)
{
	uint8_t *at;

	if (!enc->has_schema[event])
		write_schema(enc, event);
	at = ky_trc_enc_room(enc->out, KY_TRC_HEAD_BYTES_MAX);
	if (at)
		ky_trc_enc_finish(enc->out,
				  ky_trc_enc_head(enc, at, enc->type_id[event], timestamp_ns));
}

void ky_trc_enc_raw_event(struct ky_trc_enc *enc, uint16_t type_id, bool has_timestamp,
			  uint64_t timestamp_ns)
{
	uint8_t *at = ky_trc_enc_room(enc->out, KY_TRC_HEAD_BYTES_MAX);

	if (!at)
		return;
	if (has_timestamp) {
		ky_trc_enc_finish(enc->out, ky_trc_enc_head(enc, at, type_id, timestamp_ns));
		return;
	}
	*at++ = KY_TAG_EVENT;
	ky_trc_enc_finish(enc->out, ky_put_u16(at, type_id));
	enc->event_count++;
}

void ky_trc_enc_i64(struct ky_trc_enc *enc, int64_t value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, 8);

	if (at)
		ky_trc_enc_finish(enc->out, ky_put_u64(at, (uint64_t)value));
}

void ky_trc_enc_f64(struct ky_trc_enc *enc, double value)
{
	uint8_t *at = ky_trc_enc_room(enc->out, sizeof(value));

	if (at) {
		memcpy(at, &value, sizeof(value));
		enc->out->used += sizeof(value);
	}
}

void ky_trc_enc_bytes(struct ky_trc_enc *enc, const void *bytes, size_t count)
{
	if (count > UINT32_MAX) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return;
	}
	ky_trc_enc_u32(enc, (uint32_t)count);
	ky_buf_append(enc->out, bytes, count);
}

void ky_trc_enc_text(struct ky_trc_enc *enc, const char *text, size_t text_bytes)
{
	ky_trc_enc_bytes(enc, text, text_bytes);
	if (!enc->out->failed)
		ky_utf8_clean(enc->out->bytes + enc->out->used - text_bytes, text_bytes);
}

void ky_trc_enc_frames(struct ky_trc_enc *enc, const uint64_t *frames, size_t frame_count)
{
	if (frame_count > UINT32_MAX) {
		enc->out->failed = enc->out->failed ? enc->out->failed : KYMO_E_LIMIT;
		return;
	}
	ky_trc_enc_u32(enc, (uint32_t)frame_count);
	ky_buf_append(enc->out, frames, frame_count * sizeof(*frames));
}

void ky_trc_enc_count(struct ky_trc_enc *enc, uint32_t count)
{
	ky_trc_enc_u32(enc, count);
}

uint8_t *ky_trc_enc_make_room(struct ky_trc_enc *enc, enum ky_event_id event)
{
	if (!enc->has_schema[event])
		write_schema(enc, event);
	return ky_trc_enc_room(enc->out, KY_TRC_HOT_EVENT_BYTES);
}
