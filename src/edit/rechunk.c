/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/rechunk.h>

#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

/* No chunk defines as many strings, so ids from here down stay undefined, as they were. */
#define UNDEFINED_POOL_ID UINT32_MAX
#define UNDEFINED_BYTES_MAX (UINT64_C(256) << 20)

static bool is_utf8(const void *text, size_t count)
{
	const uint8_t *at = text, *end = at + count;

	while (at < end) {
		size_t length = ky_utf8_sequence(at, (size_t)(end - at));

		if (!length)
			return false;
		at += length;
	}
	return true;
}

static void count_names(struct ky_rechunk *rechunk, const struct ky_shape *shape)
{
	const uint8_t *note = shape->annotations.bytes;
	const char *at = shape->body, *name;
	size_t name_bytes;
	uint8_t type;

	rechunk->mended_count += !is_utf8(shape->name, shape->name_bytes);
	for (uint16_t i = 0; i < shape->field_count; i++) {
		at = ky_shape_field(at, &type, &name, &name_bytes);
		rechunk->mended_count += !is_utf8(name, name_bytes);
	}
	for (uint32_t i = 0; i < shape->annotation_count; i++) {
		uint16_t key_bytes;
		uint32_t value_bytes;

		memcpy(&key_bytes, note + 2, 2);
		memcpy(&value_bytes, note + 4 + key_bytes, 4);
		rechunk->mended_count += !is_utf8(note + 4, key_bytes);
		rechunk->mended_count += !is_utf8(note + 8 + key_bytes, value_bytes);
		note += 8 + (size_t)key_bytes + value_bytes;
	}
}

int ky_rechunk_init(struct ky_rechunk *rechunk, const struct ky_catalog *catalog, ky_chunk_fn chunk,
		    void *chunk_ctx)
{
	int result;

	memset(rechunk, 0, sizeof(*rechunk));
	ky_buf_init(&rechunk->out, 0);
	ky_buf_init(&rechunk->pool_ids, 0);
	ky_buf_init(&rechunk->frames, 0);
	ky_buf_init(&rechunk->fields, 0);
	ky_pages_init(&rechunk->undefined_pages, UNDEFINED_BYTES_MAX);
	ky_id_map_init(&rechunk->undefined, &rechunk->undefined_pages);
	rechunk->catalog = catalog;
	rechunk->chunk = chunk;
	rechunk->chunk_ctx = chunk_ctx;
	rechunk->has_schema = ky_alloc((size_t)catalog->count + 1);
	if (!rechunk->has_schema)
		return -ENOMEM;
	for (uint32_t i = 0; i < catalog->count; i++)
		count_names(rechunk, &catalog->shapes[i]);
	result = ky_trc_enc_init(&rechunk->enc, &rechunk->out);
	if (!result)
		ky_trc_enc_begin(&rechunk->enc);
	return result;
}

void ky_rechunk_release(struct ky_rechunk *rechunk)
{
	ky_trc_enc_release(&rechunk->enc);
	ky_buf_release(&rechunk->out);
	ky_buf_release(&rechunk->pool_ids);
	ky_buf_release(&rechunk->frames);
	ky_buf_release(&rechunk->fields);
	ky_id_map_release(&rechunk->undefined);
	ky_pages_release(&rechunk->undefined_pages);
	ky_free(rechunk->has_schema);
	memset(rechunk, 0, sizeof(*rechunk));
}

int ky_rechunk_flush(struct ky_rechunk *rechunk)
{
	struct ky_chunk chunk = {
		.bytes = rechunk->out.bytes,
		.byte_count = rechunk->out.used,
		.event_count = rechunk->enc.event_count,
		.first_ns = rechunk->first_ns,
		.last_ns = rechunk->last_ns,
		.is_segment_start = rechunk->chunk_count == 0,
	};
	int result = rechunk->out.failed;

	if (!result && rechunk->enc.event_count) {
		result = rechunk->chunk(rechunk->chunk_ctx, &chunk);
		rechunk->chunk_count++;
	}
	ky_buf_clear(&rechunk->out);
	ky_trc_enc_begin(&rechunk->enc);
	memset(rechunk->has_schema, 0, rechunk->catalog->count);
	rechunk->first_ns = rechunk->last_ns = 0;
	return result;
}

static void write_annotations(struct ky_rechunk *rechunk, const struct ky_shape *shape,
			      uint16_t type_id)
{
	const uint8_t *at = shape->annotations.bytes;

	for (uint32_t i = 0; i < shape->annotation_count; i++) {
		uint16_t field, key_bytes;
		uint32_t value_bytes;
		const char *key = (const char *)at + 4;

		memcpy(&field, at, 2);
		memcpy(&key_bytes, at + 2, 2);
		memcpy(&value_bytes, at + 4 + key_bytes, 4);
		ky_trc_enc_annotation(&rechunk->enc, type_id, field, key, key_bytes,
				      key + key_bytes + 4, value_bytes);
		at += 8 + (size_t)key_bytes + value_bytes;
	}
}

static int write_schema(struct ky_rechunk *rechunk, uint32_t number)
{
	const struct ky_shape *shape = &rechunk->catalog->shapes[number];
	const char *at = shape->body, *name = shape->name;
	size_t name_bytes = shape->name_bytes;

	ky_buf_clear(&rechunk->fields);
	for (uint16_t i = 0; i < shape->field_count; i++) {
		struct ky_trc_field_def field = {0};

		at = ky_shape_field(at, &field.type, &field.name, &field.name_bytes);
		(void)ky_buf_append(&rechunk->fields, &field, sizeof(field));
	}
	if (rechunk->fields.failed)
		return rechunk->fields.failed;
	if (rechunk->redact) {
		struct ky_slice hidden = ky_redact_type(rechunk->redact, shape->event, shape->name,
							shape->name_bytes);

		if (rechunk->redact->text.failed)
			return rechunk->redact->text.failed;
		name = (const char *)hidden.bytes;
		name_bytes = hidden.count;
	}
	ky_trc_enc_schema(&rechunk->enc, (uint16_t)number, name, name_bytes, shape->has_timestamp,
			  (const void *)rechunk->fields.bytes, shape->field_count);
	write_annotations(rechunk, shape, (uint16_t)number);
	rechunk->has_schema[number] = 1;
	return 0;
}

static const uint64_t *aligned(struct ky_rechunk *rechunk, const struct ky_value *value)
{
	ky_buf_clear(&rechunk->frames);
	if (value->frame_count &&
	    ky_buf_append(&rechunk->frames, value->frames, 8 * (size_t)value->frame_count)) {
		rechunk->out.failed = rechunk->frames.failed;
		return NULL;
	}
	return (const void *)rechunk->frames.bytes;
}

/* Two that differed still do, and one that came twice is the same twice. */
static uint32_t undefined_id(struct ky_rechunk *rechunk, const struct ky_value *value)
{
	uint64_t key = (uint64_t)rechunk->source << 33 | value->pool_id;
	uint32_t *slot;

	if (value->type == KY_TYPE_POOLED_STACK)
		key |= UINT64_C(1) << 32;
	rechunk->undefined_count++;
	slot = ky_id_map_slot(&rechunk->undefined, key);
	if (!slot) {
		rechunk->out.failed = rechunk->undefined_pages.failed;
		return UNDEFINED_POOL_ID;
	}
	if (!*slot)
		*slot = ++rechunk->undefined_ids;
	return UNDEFINED_POOL_ID - (*slot - 1);
}

/* First pass over an event: pool frames must stand before it. */
static void intern(struct ky_rechunk *rechunk, const struct ky_value *value)
{
	uint32_t id = UNDEFINED_POOL_ID;

	if (!value->is_present)
		return;
	if (value->type == KY_TYPE_POOLED_STRING && value->is_resolved) {
		rechunk->mended_count += !is_utf8(value->text.bytes, value->text.count);
		id = ky_trc_enc_string(&rechunk->enc, 0, (const char *)value->text.bytes,
				       value->text.count);
	} else if (value->type == KY_TYPE_POOLED_STACK && value->is_resolved) {
		const uint64_t *frames = aligned(rechunk, value);

		if (frames || !value->frame_count)
			id = ky_trc_enc_stack(&rechunk->enc, frames, value->frame_count);
	} else if (value->type == KY_TYPE_POOLED_STRING || value->type == KY_TYPE_POOLED_STACK) {
		id = undefined_id(rechunk, value);
	} else {
		return;
	}
	if (ky_buf_append(&rechunk->pool_ids, &id, sizeof(id)))
		rechunk->out.failed = rechunk->pool_ids.failed;
}

static uint32_t next_pool_id(struct ky_rechunk *rechunk)
{
	uint32_t id = UNDEFINED_POOL_ID;

	if (rechunk->pool_id_at + sizeof(id) <= rechunk->pool_ids.used)
		memcpy(&id, rechunk->pool_ids.bytes + rechunk->pool_id_at, sizeof(id));
	rechunk->pool_id_at += sizeof(id);
	return id;
}

/* Holds no ids: its bytes stay as they are, but for what is no text in them. */
static void put_string_map(struct ky_rechunk *rechunk, const struct ky_value *value)
{
	size_t left = value->text.count;
	uint8_t *at;

	ky_trc_enc_count(&rechunk->enc, value->frame_count);
	if (ky_buf_append(rechunk->enc.out, value->text.bytes, left))
		return;
	at = rechunk->enc.out->bytes + rechunk->enc.out->used - left;
	while (left >= 4) {
		uint32_t bytes;

		memcpy(&bytes, at, 4);
		at += 4;
		left -= 4;
		bytes = bytes < left ? bytes : (uint32_t)left;
		if (!is_utf8(at, bytes)) {
			rechunk->mended_count++;
			ky_utf8_clean(at, bytes);
		}
		at += bytes;
		left -= bytes;
	}
}

static void put_scalar(struct ky_rechunk *rechunk, const struct ky_value *value)
{
	struct ky_trc_enc *enc = &rechunk->enc;
	const uint64_t *frames;

	switch (value->type) {
	case KY_TYPE_I64:
		ky_trc_enc_i64(enc, value->as.i64);
		break;
	case KY_TYPE_F64:
		ky_trc_enc_f64(enc, value->as.f64);
		break;
	case KY_TYPE_BOOL:
	case KY_TYPE_U8:
		ky_trc_enc_u8(enc, (uint8_t)value->as.number);
		break;
	case KY_TYPE_U16:
		ky_trc_enc_u16(enc, (uint16_t)value->as.number);
		break;
	case KY_TYPE_U32:
		ky_trc_enc_u32(enc, (uint32_t)value->as.number);
		break;
	case KY_TYPE_VARINT:
		ky_trc_enc_varint(enc, value->as.number);
		break;
	case KY_TYPE_STRING:
		rechunk->mended_count += !is_utf8(value->text.bytes, value->text.count);
		ky_trc_enc_text(enc, (const char *)value->text.bytes, value->text.count);
		break;
	case KY_TYPE_BYTES:
		ky_trc_enc_bytes(enc, value->text.bytes, value->text.count);
		break;
	case KY_TYPE_STACK:
		frames = aligned(rechunk, value);
		if (frames || !value->frame_count)
			ky_trc_enc_frames(enc, frames, value->frame_count);
		break;
	case KY_TYPE_STRING_MAP:
		put_string_map(rechunk, value);
		break;
	default: /* pooled */
		ky_trc_enc_u32(enc, next_pool_id(rechunk));
	}
}

/* What stands for a value of this event; its text is valid until the next one's. */
static const struct ky_value *seen(struct ky_rechunk *rechunk, const struct ky_value *value,
				   struct ky_value *copy)
{
	if (!rechunk->redact)
		return value;
	value = ky_redact_value(rechunk->redact, rechunk->schema, rechunk->field, value, copy);
	if (rechunk->redact->text.failed)
		rechunk->out.failed = rechunk->redact->text.failed;
	return value;
}

static bool is_tree(const struct ky_value *value)
{
	return value->type == KY_TYPE_LIST || value->type == KY_TYPE_MAP;
}

enum pass {
	PASS_INTERN,
	PASS_WRITE
};

/* An element that may itself hold elements: returns true when the walk has to go down into it. */
static bool put_element(struct ky_rechunk *rechunk, const struct ky_value *value, enum pass pass)
{
	struct ky_value copy;

	if (pass == PASS_WRITE)
		ky_trc_enc_u8(&rechunk->enc, value->type);
	if (is_tree(value)) {
		if (pass == PASS_WRITE)
			ky_trc_enc_count(&rechunk->enc, value->frame_count);
		return true;
	}
	value = seen(rechunk, value, &copy);
	if (pass == PASS_INTERN)
		intern(rechunk, value);
	else
		put_scalar(rechunk, value);
	return false;
}

/* LIST and MAP, at any legal depth, without recursion. A MAP entry with a container as its key
 * needs the value remembered while the key is walked. */
struct level {
	struct ky_trc_walk walk;
	struct ky_value value;
	bool has_value;
};

static int put_tree(struct ky_rechunk *rechunk, struct ky_event_stream *stream,
		    const struct ky_value *root, enum pass pass)
{
	struct level levels[KY_TRC_CONTAINER_DEPTH_MAX + 2];
	uint32_t depth = 0;

	levels[0].has_value = false;
	ky_trc_walk_begin(&levels[0].walk, root);
	for (;;) {
		struct level *level = &levels[depth];
		struct ky_value key;
		const struct ky_value *down = NULL;

		if (level->has_value) {
			level->has_value = false;
			if (put_element(rechunk, &level->value, pass))
				down = &level->value;
		} else {
			int result = ky_event_walk_next(stream, &level->walk, &key, &level->value);

			if (result < 0)
				return result;
			if (result == 0) {
				if (depth-- == 0)
					return 0;
				continue;
			}
			level->has_value = true;
			if (level->walk.type == KY_TYPE_MAP && put_element(rechunk, &key, pass))
				down = &key;
		}
		if (!down)
			continue;
		if (depth + 1 >= KY_TRC_CONTAINER_DEPTH_MAX + 2)
			return KYMO_E_LIMIT;
		levels[++depth].has_value = false;
		ky_trc_walk_begin(&levels[depth].walk, down);
	}
}

static int put_value(struct ky_rechunk *rechunk, struct ky_event_stream *stream,
		     const struct ky_value *value, bool is_optional, enum pass pass)
{
	struct ky_value copy;

	if (pass == PASS_WRITE && is_optional)
		ky_trc_enc_u8(&rechunk->enc, value->is_present);
	if (!value->is_present)
		return 0;
	if (is_tree(value)) {
		if (pass == PASS_WRITE)
			ky_trc_enc_count(&rechunk->enc, value->frame_count);
		return put_tree(rechunk, stream, value, pass);
	}
	value = seen(rechunk, value, &copy);
	if (pass == PASS_INTERN)
		intern(rechunk, value);
	else
		put_scalar(rechunk, value);
	return 0;
}

/* An upper bound of what the event and its new pool entries take. */
static size_t bound(const struct ky_event *event)
{
	size_t bytes = 64;

	for (uint16_t i = 0; i < event->schema->field_count; i++)
		bytes += 32 + event->values[i].text.count +
			 8 * (size_t)event->values[i].frame_count;
	return bytes;
}

static bool is_full(const struct ky_rechunk *rechunk, const struct ky_event *event, uint32_t shape)
{
	const struct ky_shape *known = &rechunk->catalog->shapes[shape];
	size_t schema_bytes = known->name_bytes + known->body_bytes + 2 * known->annotations.used +
			      64;
	uint64_t time = event->has_timestamp ? event->timestamp_ns : 0;

	if (!rechunk->enc.event_count)
		return false;
	if (rechunk->enc.event_count >= KY_CHUNK_EVENTS_MAX ||
	    rechunk->out.used + bound(event) + schema_bytes > KY_CHUNK_BYTES_MAX)
		return true;
	return time && rechunk->first_ns && time > rechunk->first_ns &&
	       time - rechunk->first_ns >= KY_CHUNK_SPAN_MAX_NS;
}

int ky_rechunk_event(struct ky_rechunk *rechunk, struct ky_event_stream *stream,
		     const struct ky_event *event, uint32_t shape)
{
	int result = 0;

	if (is_full(rechunk, event, shape))
		result = ky_rechunk_flush(rechunk);
	if (!result && !rechunk->has_schema[shape])
		result = write_schema(rechunk, shape);
	ky_buf_clear(&rechunk->pool_ids);
	rechunk->pool_id_at = 0;
	rechunk->source = event->source;
	rechunk->schema = event->schema;
	for (uint16_t i = 0; i < event->schema->field_count && !result; i++) {
		rechunk->field = i;
		result = put_value(rechunk, stream, &event->values[i], false, PASS_INTERN);
	}
	if (result)
		return result;
	ky_trc_enc_raw_event(&rechunk->enc, (uint16_t)shape, event->has_timestamp,
			     event->timestamp_ns);
	for (uint16_t i = 0; i < event->schema->field_count && !result; i++) {
		rechunk->field = i;
		result = put_value(rechunk, stream, &event->values[i],
				   (event->schema->fields[i].type & KY_TYPE_OPTIONAL) != 0,
				   PASS_WRITE);
	}
	if (event->has_timestamp && event->timestamp_ns) {
		if (!rechunk->first_ns || event->timestamp_ns < rechunk->first_ns)
			rechunk->first_ns = event->timestamp_ns;
		if (event->timestamp_ns > rechunk->last_ns)
			rechunk->last_ns = event->timestamp_ns;
	}
	rechunk->event_count++;
	return result ? result : rechunk->out.failed;
}
