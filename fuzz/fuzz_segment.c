/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Any bytes as a whole trace. Promises: no crash, no allocation beyond the limits; what is seen
 * does not depend on how the bytes are cut into windows; what was decoded and encoded again decodes
 * the same. */
#include "fuzz_target.h"
#include "fuzz_text.h"

#include <base/alloc.h>
#include <base/buf.h>
#include <base/utf8.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

#define UNDEFINED_ID UINT32_C(0xfffffff0) /* the encoder never gives it */

static const struct ky_trc_limits limits = {4u << 20, 256, 1u << 20, 1000};

static _Bool is_modest(size_t bytes)
{
	FUZZ_CHECK(bytes <= 64u << 20);
	return 1;
}

static uint64_t digest_slice(uint64_t digest, struct ky_slice slice)
{
	return fuzz_digest(digest, slice.bytes, slice.count);
}

/* As the encoder would write it: without bytes that are not UTF-8. */
static uint64_t digest_pooled(uint64_t digest, struct ky_slice text)
{
	uint8_t *copy = malloc(text.count ? text.count : 1);

	FUZZ_CHECK(copy);
	if (text.count)
		memcpy(copy, text.bytes, text.count);
	ky_utf8_clean(copy, text.count);
	digest = fuzz_digest(digest, copy, text.count);
	free(copy);
	return digest;
}

static uint64_t digest_value(uint64_t digest, struct ky_trc_dec *dec, const struct ky_value *value)
{
	struct ky_value key, element;
	struct ky_trc_walk walk;
	uint32_t count = 0;
	int more;

	digest = fuzz_digest(digest, &value->type, 1);
	digest = fuzz_digest(digest, &value->is_present, 1);
	if (!value->is_present)
		return digest;
	digest = fuzz_digest(digest, &value->is_resolved, 1);
	switch (value->type) {
	case KY_TYPE_POOLED_STRING:
		return digest_pooled(digest, value->text);
	case KY_TYPE_STRING:
	case KY_TYPE_BYTES:
		return digest_slice(digest, value->text);
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		return fuzz_digest(digest, value->frames, 8 * (size_t)value->frame_count);
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		ky_trc_walk_begin(&walk, value);
		while ((more = ky_trc_walk_next(dec, &walk, &key, &element)) == 1)
			count++;
		FUZZ_CHECK(more == 0 && count == value->frame_count && walk.at == walk.end);
		return digest_slice(digest, value->text);
	default:
		return fuzz_digest(digest, &value->as.number, 8);
	}
}

static uint64_t digest_schema(uint64_t digest, const struct ky_schema *schema, bool is_annotated)
{
	digest = fuzz_digest(digest, &schema->type_id, 2);
	digest = digest_slice(digest, schema->name);
	digest = fuzz_digest(digest, &schema->has_timestamp, 1);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *field = &schema->fields[i];

		digest = digest_slice(digest, field->name);
		digest = fuzz_digest(digest, &field->type, 1);
		digest = fuzz_digest(digest, &field->known, 1);
		if (!is_annotated)
			continue;
		digest = digest_slice(digest, field->unit);
		digest = digest_slice(digest, field->kind);
		digest = digest_slice(digest, field->role);
	}
	return digest;
}

/* What an event says, with its schema as annotated at that moment. */
static uint64_t digest_event(uint64_t digest, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	digest = digest_schema(digest, frame->schema, true);
	if (frame->schema->has_timestamp)
		digest = fuzz_digest(digest, &frame->timestamp_ns, 8);
	for (uint32_t i = 0; i < frame->schema->field_count; i++)
		digest = digest_value(digest, dec, &frame->values[i]);
	return digest;
}

/* ---- encoding again ---- */

/* Text that is not UTF-8 was met: our encoder mends it, so that the digest is another one. */
static bool has_mended;

static void note_text(struct ky_slice text)
{
	has_mended |= !fuzz_is_utf8(text.bytes, text.count);
}

static void encode_schema(struct ky_trc_enc *enc, const struct ky_schema *schema)
{
	struct ky_trc_field_def *fields = malloc(((size_t)schema->field_count + 1) *
						 sizeof(*fields));

	FUZZ_CHECK(fields);
	note_text(schema->name);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		note_text(schema->fields[i].name);
		fields[i].name = (const char *)schema->fields[i].name.bytes;
		fields[i].name_bytes = schema->fields[i].name.count;
		fields[i].type = schema->fields[i].type;
	}
	ky_trc_enc_schema(enc, schema->type_id, (const char *)schema->name.bytes,
			  schema->name.count, schema->has_timestamp, fields, schema->field_count);
	free(fields);
}

static void encode_annotations(struct ky_trc_enc *enc, const struct ky_schema *schema)
{
	for (uint16_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *f = &schema->fields[i];
		const struct ky_slice values[3] = {f->unit, f->kind, f->role};
		static const char *const keys[3] = {"unit", "kind", "dial9.role"};

		for (int k = 0; k < 3; k++) {
			if (!values[k].bytes)
				continue;
			note_text(values[k]);
			ky_trc_enc_annotation(enc, schema->type_id, i, keys[k], strlen(keys[k]),
					      (const char *)values[k].bytes, values[k].count);
		}
	}
}

static uint32_t encode_pool(struct ky_trc_enc *enc, const struct ky_value *value)
{
	uint64_t *frames;
	uint32_t id;

	if (!value->is_present || !value->is_resolved)
		return UNDEFINED_ID;
	if (value->type == KY_TYPE_POOLED_STRING)
		return ky_trc_enc_string(enc, 0, (const char *)value->text.bytes,
					 value->text.count);
	if (value->type != KY_TYPE_POOLED_STACK)
		return 0;
	frames = malloc(8 * (size_t)value->frame_count + 1);
	FUZZ_CHECK(frames);
	if (value->frame_count)
		memcpy(frames, value->frames, 8 * (size_t)value->frame_count);
	id = ky_trc_enc_stack(enc, frames, value->frame_count);
	free(frames);
	return id;
}

static void encode_value(struct ky_trc_enc *enc, const struct ky_value *value, uint8_t type,
			 uint32_t id)
{
	if (type & KY_TYPE_OPTIONAL)
		ky_trc_enc_u8(enc, value->is_present);
	if (!value->is_present)
		return;
	switch (value->type) {
	case KY_TYPE_VARINT:
		ky_trc_enc_varint(enc, value->as.number);
		break;
	case KY_TYPE_U8:
	case KY_TYPE_BOOL:
		ky_trc_enc_u8(enc, (uint8_t)value->as.number);
		break;
	case KY_TYPE_U16:
		ky_trc_enc_u16(enc, (uint16_t)value->as.number);
		break;
	case KY_TYPE_U32:
		ky_trc_enc_u32(enc, (uint32_t)value->as.number);
		break;
	case KY_TYPE_I64:
	case KY_TYPE_F64:
		ky_trc_enc_i64(enc, value->as.i64);
		break;
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_POOLED_STACK:
		ky_trc_enc_u32(enc, id);
		break;
	case KY_TYPE_STACK:
		ky_trc_enc_count(enc, value->frame_count);
		ky_buf_append(enc->out, value->frames, 8 * (size_t)value->frame_count);
		break;
	case KY_TYPE_STRING:
	case KY_TYPE_BYTES:
		ky_trc_enc_bytes(enc, value->text.bytes, value->text.count);
		break;
	default:
		ky_trc_enc_count(enc, value->frame_count);
		ky_buf_append(enc->out, value->text.bytes, value->text.count);
	}
}

static void encode_event(struct ky_trc_enc *enc, const struct ky_frame *frame)
{
	const struct ky_schema *schema = frame->schema;
	uint32_t *ids = malloc(((size_t)schema->field_count + 1) * sizeof(*ids));

	FUZZ_CHECK(ids);
	for (uint32_t i = 0; i < schema->field_count; i++)
		ids[i] = encode_pool(enc, &frame->values[i]);
	ky_trc_enc_raw_event(enc, schema->type_id, schema->has_timestamp, frame->timestamp_ns);
	for (uint32_t i = 0; i < schema->field_count; i++)
		encode_value(enc, &frame->values[i], schema->fields[i].type, ids[i]);
	free(ids);
}

static void encode_frame(struct ky_trc_enc *enc, const struct ky_frame *frame)
{
	if (frame->kind == KY_FRAME_HEADER)
		ky_trc_enc_begin(enc);
	else if (frame->kind == KY_FRAME_SCHEMA)
		encode_schema(enc, frame->schema);
	else if (frame->kind == KY_FRAME_ANNOTATIONS && frame->schema)
		encode_annotations(enc, frame->schema);
	else if (frame->kind == KY_FRAME_EVENT)
		encode_event(enc, frame);
}

/* ---- */

struct outcome {
	int result;
	uint64_t events; /* digest of what they say */
	uint64_t consumed;
	uint64_t error_offset;
};

/* window_bytes 0: everything at once; else that much, and more where a frame asks for it. */
static struct outcome decode(const uint8_t *bytes, size_t count, size_t window_bytes,
			     struct ky_trc_enc *enc)
{
	struct outcome outcome = {0, 0, 0, 0};
	size_t window = window_bytes ? window_bytes : count, at = 0;
	struct ky_trc_dec *dec;
	struct ky_frame frame;

	FUZZ_CHECK(ky_trc_dec_open(&dec, &limits) == 0);
	for (;;) {
		size_t left = count - at;
		const uint8_t *begin = bytes ? bytes + at : bytes;
		int64_t used = ky_trc_dec_next(dec, begin, left < window ? left : window, &frame);

		if (used == KYMO_E_TRUNCATED && window < left) {
			window *= 2;
			continue;
		}
		outcome.result = (int)(used < 0 ? used : 0);
		if (used <= 0)
			break;
		FUZZ_CHECK((uint64_t)used <= left && frame.bytes == (uint64_t)used);
		at += (size_t)used;
		FUZZ_CHECK(ky_trc_dec_offset(dec) == at);
		if (frame.kind == KY_FRAME_EVENT)
			outcome.events = digest_event(outcome.events, dec, &frame);
		if (enc)
			encode_frame(enc, &frame);
		window = window_bytes ? window_bytes : count;
	}
	outcome.consumed = at;
	FUZZ_CHECK(strlen(ky_trc_dec_error(dec, &outcome.error_offset)) > 0);
	FUZZ_CHECK(outcome.error_offset <= count);
	ky_trc_dec_close(dec);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct outcome first, again;
	struct ky_trc_enc enc;
	struct ky_buf out;

	has_mended = false;
	ky_alloc_hook = is_modest;
	ky_buf_init(&out, 0);
	FUZZ_CHECK(ky_trc_enc_init(&enc, &out) == 0);
	first = decode(bytes, count, 0, &enc);
	again = decode(bytes, count, 1 + count % 7, NULL);
	FUZZ_CHECK(first.result == again.result && first.events == again.events);
	FUZZ_CHECK(first.consumed == again.consumed && first.error_offset == again.error_offset);
	FUZZ_CHECK(out.failed == 0);
	again = decode(out.bytes, out.used, 0, NULL);
	FUZZ_CHECK(again.result == 0 && (has_mended || again.events == first.events));
	ky_trc_enc_release(&enc);
	ky_buf_release(&out);
	return 0;
}
