/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "trace_dump.h"

#include <base/bytes.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <wire/trc_dec.h>

static const char *const type_names[] = {
	"?",     "i64",    "f64",        "bool", "string", "bytes", "pooled_stack", "pooled_string",
	"stack", "varint", "string_map", "u8",   "u16",    "u32",   "list",         "map",
};

static __attribute__((format(printf, 2, 3))) void put(struct ky_buf *out, const char *format, ...)
{
	char text[128];
	va_list args;
	int count;

	va_start(args, format);
	count = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ky_buf_append(out, text, (size_t)count);
}

static void put_text(struct ky_buf *out, struct ky_slice text)
{
	put(out, "\"");
	for (size_t i = 0; i < text.count; i++) {
		uint8_t c = text.bytes[i];

		if (c == '"' || c == '\\')
			put(out, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			put(out, "\\x%02x", c);
		else
			put(out, "%c", c);
	}
	put(out, "\"");
}

static void put_frames(struct ky_buf *out, const uint8_t *frames, uint32_t count)
{
	put(out, "[");
	for (uint32_t i = 0; i < count; i++)
		put(out, "%s0x%" PRIx64, i ? " " : "", ky_get_u64(frames + 8 * (size_t)i));
	put(out, "]");
}

static void put_value(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_value *value);

static void put_container(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_value *value)
{
	bool is_list = value->type == KY_TYPE_LIST;
	bool is_typed = value->type != KY_TYPE_STRING_MAP;
	struct ky_value key, element;
	struct ky_trc_walk walk;
	int more, count = 0;

	ky_trc_walk_begin(&walk, value);
	put(out, is_list ? "[" : "{");
	while ((more = ky_trc_walk_next(dec, &walk, &key, &element)) == 1) {
		put(out, "%s", count++ ? " " : "");
		if (!is_list) {
			if (is_typed)
				put(out, "%s:", type_names[key.type]);
			put_value(out, dec, &key);
			put(out, "=");
		}
		if (is_typed)
			put(out, "%s:", type_names[element.type]);
		put_value(out, dec, &element);
	}
	put(out, "%s%s", is_list ? "]" : "}", more < 0 ? " BROKEN" : "");
}

/* Recursion is fine here: the decoder has checked the depth. */
static void put_value(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_value *value)
{
	if (!value->is_present) {
		put(out, "none");
		return;
	}
	switch (value->type) {
	case KY_TYPE_I64:
		put(out, "%" PRId64, value->as.i64);
		break;
	case KY_TYPE_F64:
		put(out, "0x%016" PRIx64, value->as.number);
		break;
	case KY_TYPE_BYTES:
		for (size_t i = 0; i < value->text.count; i++)
			put(out, "%02x", value->text.bytes[i]);
		put(out, "h");
		break;
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_POOLED_STACK:
		put(out, "#%" PRIu32 ":", value->pool_id);
		if (!value->is_resolved)
			put(out, "undefined");
		else if (value->type == KY_TYPE_POOLED_STACK)
			put_frames(out, value->frames, value->frame_count);
		else
			put_text(out, value->text);
		break;
	case KY_TYPE_STRING:
		put_text(out, value->text);
		break;
	case KY_TYPE_STACK:
		put_frames(out, value->frames, value->frame_count);
		break;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		put_container(out, dec, value);
		break;
	default:
		put(out, "%" PRIu64, value->as.number);
	}
}

static void put_name(struct ky_buf *out, struct ky_slice name)
{
	ky_buf_append(out, name.bytes, name.count);
}

static void put_schema(struct ky_buf *out, const struct ky_schema *schema)
{
	put(out, "schema %u ", schema->type_id);
	put_name(out, schema->name);
	put(out, schema->has_timestamp ? " timestamp" : " -");
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *field = &schema->fields[i];

		put(out, " ");
		put_name(out, field->name);
		put(out, ":%s%s%s", type_names[field->type & 0x7f], field->type & 0x80 ? "?" : "",
		    schema->event == KY_EV_UNKNOWN || field->known != 0xff ? "" : "!");
	}
	put(out, schema->event == KY_EV_UNKNOWN ? " (unknown)" : "");
}

static void put_annotations(struct ky_buf *out, const struct ky_schema *schema)
{
	static const char *const keys[] = {"unit", "kind", "role"};

	put(out, "annotations");
	if (!schema) {
		put(out, " of an unknown type");
		return;
	}
	put(out, " %u", schema->type_id);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *f = &schema->fields[i];
		const struct ky_slice values[] = {f->unit, f->kind, f->role};

		for (int k = 0; k < 3; k++) {
			if (!values[k].bytes)
				continue;
			put(out, " %u.%s=", i, keys[k]);
			put_text(out, values[k]);
		}
	}
}

static void put_pool(struct ky_buf *out, const struct ky_frame *frame)
{
	const uint8_t *at = frame->begin + 1;
	bool is_stack = frame->begin[0] == KY_TAG_STACK_POOL;

	put(out, is_stack ? "stacks" : "strings");
	for (at += 4; at < frame->begin + frame->bytes;) {
		uint32_t count = ky_get_u32(at + 4);
		struct ky_slice text = {at + 8, count};

		put(out, " %" PRIu32 "=", ky_get_u32(at));
		if (is_stack)
			put_frames(out, at + 8, count);
		else
			put_text(out, text);
		at += 8 + (size_t)count * (is_stack ? 8 : 1);
	}
}

static void put_event(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	const struct ky_schema *schema = frame->schema;

	put(out, "event %u ", schema->type_id);
	put_name(out, schema->name);
	if (schema->has_timestamp)
		put(out, " %" PRIu64, frame->timestamp_ns);
	else
		put(out, " -");
	for (uint32_t i = 0; i < schema->field_count; i++) {
		put(out, " ");
		put_name(out, schema->fields[i].name);
		put(out, "=");
		put_value(out, dec, &frame->values[i]);
	}
}

static void put_frame(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	switch (frame->kind) {
	case KY_FRAME_HEADER:
		put(out, "header %u", frame->begin[4]);
		break;
	case KY_FRAME_SCHEMA:
		put_schema(out, frame->schema);
		break;
	case KY_FRAME_EVENT:
		put_event(out, dec, frame);
		break;
	case KY_FRAME_POOL:
		put_pool(out, frame);
		break;
	case KY_FRAME_RESET:
		put(out, "reset %" PRIu64, frame->timestamp_ns);
		break;
	case KY_FRAME_ANNOTATIONS:
		put_annotations(out, frame->schema);
		break;
	}
	put(out, "\n");
}

int test_trace_dump(struct ky_buf *out, const uint8_t *bytes, size_t count, size_t window_bytes)
{
	size_t window = window_bytes ? window_bytes : count;
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	int64_t used = ky_trc_dec_open(&dec, NULL);
	uint64_t offset;

	if (used)
		return (int)used;
	for (size_t at = 0;;) {
		size_t left = count - at;

		used = ky_trc_dec_next(dec, bytes + at, left < window ? left : window, &frame);
		if (used == KYMO_E_TRUNCATED && window < left) {
			window *= 2;
			continue;
		}
		if (used <= 0)
			break;
		put_frame(out, dec, &frame);
		at += (size_t)used;
		window = window_bytes ? window_bytes : count;
	}
	if (used) {
		const char *error = ky_trc_dec_error(dec, &offset);

		put(out, "error %d at byte %" PRIu64 ": ", (int)-used, offset);
		ky_buf_append(out, error, __builtin_strlen(error));
		put(out, "\n");
	} else {
		put(out, "end\n");
	}
	ky_trc_dec_close(dec);
	ky_buf_append(out, "", 1);
	if (!out->failed)
		out->used--;
	return (int)used;
}
