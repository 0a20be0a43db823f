/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/event_format.h>

#include <base/json_write.h>
#include <report/event_names.h>

#include <analyze/report.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <base/text.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form of containers and scalars: JSON, or its relaxed form inside text and CSV cells. */
enum style {
	STYLE_JSON,
	STYLE_TEXT
};

static void text_value(struct ky_buf *out, const struct ky_slice *text, enum style style)
{
	const char *bytes = (const char *)text->bytes;

	if (style == STYLE_JSON) {
		ky_json_string(out, bytes, text->count);
		return;
	}
	ky_out_text(out, "\"");
	for (size_t at = 0, plain; at < text->count; at += plain + 1) {
		for (plain = 0; at + plain < text->count; plain++)
			if (bytes[at + plain] == '"' || bytes[at + plain] == '\\')
				break;
		ky_out_safe(out, bytes + at, plain);
		if (at + plain < text->count)
			ky_out_text(out, bytes[at + plain] == '"' ? "\\\"" : "\\\\");
	}
	ky_out_text(out, "\"");
}

static void hex_bytes(struct ky_buf *out, const struct ky_slice *bytes)
{
	static const char digits[] = "0123456789abcdef";

	ky_out_text(out, "\"");
	for (size_t i = 0; i < bytes->count; i++) {
		char pair[2] = {digits[bytes->bytes[i] >> 4], digits[bytes->bytes[i] & 15]};

		(void)ky_buf_append(out, pair, sizeof(pair));
	}
	ky_out_text(out, "\"");
}

static void stack_value(struct ky_buf *out, const struct ky_value *value, enum style style)
{
	ky_out_text(out, "[");
	for (uint32_t i = 0; i < value->frame_count; i++) {
		uint64_t frame;

		memcpy(&frame, value->frames + 8 * (size_t)i, sizeof(frame));
		ky_out_format(out, style == STYLE_JSON ? "%s\"0x%" PRIx64 "\"" : "%s0x%" PRIx64,
			      i ? "," : "", frame);
	}
	ky_out_text(out, "]");
}

/* Shortest of the usual precisions that reads back as the same number. */
static void double_value(struct ky_buf *out, double value, enum style style)
{
	char text[40];

	if (value != value || value - value != 0.0) { /* NaN, infinity */
		if (style == STYLE_JSON)
			ky_out_text(out, "null");
		else
			ky_out_text(out, value != value ? "nan" : value > 0 ? "inf" : "-inf");
		return;
	}
	for (int precision = 15; precision <= 17; precision++) {
		double back;

		(void)snprintf(text, sizeof(text), "%.*g", precision, value);
		back = strtod(text, NULL);
		if (back == value)
			break;
	}
	ky_out_text(out, text);
}

static bool is_tree(const struct ky_value *value)
{
	return value->type == KY_TYPE_LIST || value->type == KY_TYPE_MAP;
}

static void key_and_value(struct ky_buf *out, const struct ky_slice *key,
			  const struct ky_slice *value, enum style style)
{
	text_value(out, key, style);
	ky_out_text(out, ":");
	text_value(out, value, style);
}

/* The format lets a map repeat a key; JSON must not. */
static void string_map(struct ky_buf *out, struct ky_event_stream *stream,
		       const struct ky_value *map, enum style style)
{
	struct ky_json_keys keys;
	struct ky_value key, value;
	struct ky_trc_walk walk;
	int clash = 0;

	ky_json_keys_init(&keys);
	ky_trc_walk_begin(&walk, map);
	while (style == STYLE_JSON && ky_event_walk_next(stream, &walk, &key, &value) == 1)
		ky_json_keys_add(&keys, (const char *)key.text.bytes, key.text.count);
	clash = ky_json_keys_finish(&keys);
	if (clash < 0)
		out->failed = clash;
	ky_out_text(out, "{");
	ky_trc_walk_begin(&walk, map);
	for (uint32_t i = 0; ky_event_walk_next(stream, &walk, &key, &value) == 1; i++) {
		if (i)
			ky_out_text(out, ",");
		if (clash > 0 && i < keys.count)
			key.text.bytes = (const uint8_t *)ky_json_keys_get(&keys, i,
									   &key.text.count);
		key_and_value(out, &key.text, &value.text, style);
	}
	ky_out_text(out, "}");
	ky_json_keys_release(&keys);
}

static void scalar(struct ky_buf *out, struct ky_event_stream *stream, const struct ky_value *value,
		   enum style style)
{
	bool is_pooled = value->type == KY_TYPE_POOLED_STRING ||
			 value->type == KY_TYPE_POOLED_STACK;

	if (!value->is_present) {
		ky_out_text(out, "null");
		return;
	}
	if (is_pooled && !value->is_resolved) {
		ky_out_format(
			out, style == STYLE_JSON ? "{\"undefined_pool_id\":%u}" : "<undefined #%u>",
			value->pool_id);
		return;
	}
	switch (value->type) {
	case KY_TYPE_I64:
		ky_out_format(out, "%" PRId64, value->as.i64);
		break;
	case KY_TYPE_F64:
		double_value(out, value->as.f64, style);
		break;
	case KY_TYPE_BOOL:
		ky_out_text(out, value->as.number ? "true" : "false");
		break;
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
		text_value(out, &value->text, style);
		break;
	case KY_TYPE_BYTES:
		hex_bytes(out, &value->text);
		break;
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		stack_value(out, value, style);
		break;
	case KY_TYPE_STRING_MAP:
		string_map(out, stream, value, style);
		break;
	default:
		ky_text_u64(out, value->as.number);
	}
}

/* STRING_MAP is an object, LIST an array, MAP an array of [key, value] pairs: its keys can be
 * anything. A container as a MAP's key is shown empty: no writer makes one and JSON has no place
 * for it. */
struct format_level {
	struct ky_trc_walk walk;
	bool is_first;
};

static void open_level(struct ky_buf *out, struct format_level *level, const struct ky_value *value)
{
	ky_trc_walk_begin(&level->walk, value);
	level->is_first = true;
	ky_out_text(out, "[");
}

static void container(struct ky_buf *out, struct ky_event_stream *stream,
		      const struct ky_value *value, enum style style)
{
	struct format_level levels[KY_TRC_CONTAINER_DEPTH_MAX + 1];
	uint32_t depth = 0;

	open_level(out, &levels[0], value);
	for (;;) {
		struct format_level *level = &levels[depth];
		struct ky_value key, item;
		int result = ky_event_walk_next(stream, &level->walk, &key, &item);

		if (result <= 0) {
			ky_out_text(out, "]");
			if (depth-- == 0)
				return;
			if (levels[depth].walk.type == KY_TYPE_MAP)
				ky_out_text(out, "]");
			continue;
		}
		ky_out_text(out, level->is_first ? "" : ",");
		level->is_first = false;
		if (level->walk.type == KY_TYPE_MAP) {
			ky_out_text(out, "[");
			if (is_tree(&key) || key.type == KY_TYPE_STRING_MAP)
				ky_out_text(out, "null");
			else
				scalar(out, stream, &key, style);
			ky_out_text(out, ",");
		}
		if (is_tree(&item) && depth < KY_TRC_CONTAINER_DEPTH_MAX) {
			open_level(out, &levels[++depth], &item);
			continue;
		}
		scalar(out, stream, &item, style);
		if (level->walk.type == KY_TYPE_MAP)
			ky_out_text(out, "]");
	}
}

static void any_value(struct ky_buf *out, struct ky_event_stream *stream,
		      const struct ky_value *value, enum style style)
{
	if (value->is_present && is_tree(value))
		container(out, stream, value, style);
	else
		scalar(out, stream, value, style);
}

static uint64_t wall_ns(const struct ky_event_clock *clock, const struct ky_event *event)
{
	return clock->sync_realtime_ns + (event->timestamp_ns - clock->sync_monotonic_ns);
}

static bool has_time(const struct ky_event *event)
{
	return event->has_timestamp && event->timestamp_ns != 0;
}

static void text_time(struct ky_buf *out, const struct ky_event *event,
		      const struct ky_event_clock *clock)
{
	uint64_t start_ns = clock->start_ns;
	char cell[KY_OUT_CELL_BYTES];
	bool is_before = event->timestamp_ns < start_ns;
	char sign[KY_OUT_CELL_BYTES + 1];

	if (!has_time(event) || clock->is_wall) {
		ky_out_format(out, clock->is_wall ? "%29s" : "%16s",
			      has_time(event) ? ky_out_moment(cell, wall_ns(clock, event)) : "-");
		return;
	}
	(void)ky_out_seconds(cell, is_before ? start_ns - event->timestamp_ns :
					       event->timestamp_ns - start_ns);
	(void)snprintf(sign, sizeof(sign), "%s%s", is_before ? "-" : "", cell);
	ky_out_format(out, "%16s", sign);
}

void ky_event_text(struct ky_buf *out, struct ky_event_stream *stream, const struct ky_event *event,
		   const struct ky_shape *shape, const struct ky_event_clock *clock,
		   struct ky_symbol_table *symbols)
{
	const struct ky_schema *schema = event->schema;

	text_time(out, event, clock);
	ky_out_text(out, "  ");
	ky_out_safe(out, (const char *)schema->name.bytes, schema->name.count);
	ky_out_text(out, " ");
	for (uint16_t i = 0; i < schema->field_count; i++) {
		size_t bytes;
		const char *name = ky_shape_key(shape, schema, i, &bytes);

		if (!event->values[i].is_present)
			continue;
		ky_out_text(out, " ");
		ky_out_safe(out, name, bytes);
		ky_out_text(out, "=");
		if (symbols && ky_event_names_text(out, symbols, event, i))
			continue;
		any_value(out, stream, &event->values[i], STYLE_TEXT);
	}
	ky_out_text(out, "\n");
}

void ky_event_fields_json(struct ky_buf *out, struct ky_event_stream *stream,
			  const struct ky_event *event, const struct ky_shape *shape)
{
	const struct ky_schema *schema = event->schema;

	ky_out_text(out, "{");
	for (uint16_t i = 0; i < schema->field_count; i++) {
		size_t bytes;
		const char *name = ky_shape_key(shape, schema, i, &bytes);

		if (i)
			ky_out_text(out, ",");
		ky_json_string(out, name, bytes);
		ky_out_text(out, ":");
		any_value(out, stream, &event->values[i], STYLE_JSON);
	}
	ky_out_text(out, "}");
}

void ky_event_json(struct ky_buf *out, struct ky_event_stream *stream, const struct ky_event *event,
		   const struct ky_shape *shape, const struct ky_event_clock *clock,
		   struct ky_symbol_table *symbols)
{
	const struct ky_schema *schema = event->schema;

	ky_out_text(out, "{\"timestamp_ns\":");
	if (event->has_timestamp)
		ky_text_u64(out, event->timestamp_ns);
	else
		ky_out_text(out, "null");
	if (clock->is_wall)
		ky_json_number_or_null(out, "unix_ns", has_time(event), wall_ns(clock, event));
	ky_out_text(out, ",\"event\":");
	ky_json_string(out, (const char *)schema->name.bytes, schema->name.count);
	ky_out_text(out, ",\"fields\":");
	ky_event_fields_json(out, stream, event, shape);
	if (symbols)
		ky_event_names_json(out, symbols, event);
	ky_out_text(out, "}\n");
}

static int find_column(struct ky_csv_columns *out, const char *name, size_t name_bytes,
		       uint16_t *column)
{
	for (uint32_t i = 0; i < out->count; i++) {
		if (out->name_bytes[i] == name_bytes &&
		    memcmp(out->names[i], name, name_bytes) == 0) {
			*column = (uint16_t)i;
			return 0;
		}
	}
	if (out->count == KY_CSV_COLUMNS_MAX)
		return KYMO_E_LIMIT;
	out->names[out->count] = name;
	out->name_bytes[out->count] = name_bytes;
	*column = (uint16_t)out->count++;
	return 0;
}

static int add_shape(struct ky_csv_columns *out, const struct ky_shape *shape, uint32_t number)
{
	const char *at = shape->body;
	uint16_t *columns = ky_alloc(((size_t)shape->field_count + 1) * sizeof(*columns));

	out->by_shape[number] = columns;
	if (!columns)
		return -ENOMEM;
	for (uint16_t i = 0; i < shape->field_count; i++) {
		const char *name;
		size_t name_bytes;
		uint8_t type;
		int result;

		at = ky_shape_field(at, &type, &name, &name_bytes);
		if (i < shape->keys.count)
			name = ky_json_keys_get(&shape->keys, i, &name_bytes);
		result = find_column(out, name, name_bytes, &columns[i]);
		if (result)
			return result;
	}
	return 0;
}

int ky_csv_columns_make(struct ky_csv_columns *out, const struct ky_catalog *catalog,
			const bool *is_chosen)
{
	memset(out, 0, sizeof(*out));
	out->names = ky_alloc(KY_CSV_COLUMNS_MAX * sizeof(*out->names));
	out->name_bytes = ky_alloc(KY_CSV_COLUMNS_MAX * sizeof(*out->name_bytes));
	out->row = ky_alloc(KY_CSV_COLUMNS_MAX * sizeof(*out->row));
	out->by_shape = ky_alloc(((size_t)catalog->count + 1) * sizeof(*out->by_shape));
	out->shape_count = catalog->count;
	if (!out->names || !out->name_bytes || !out->row || !out->by_shape)
		return -ENOMEM;
	for (uint32_t i = 0; i < catalog->count; i++) {
		int result;

		if (!catalog->shapes[i].count || (is_chosen && !is_chosen[i]))
			continue;
		result = add_shape(out, &catalog->shapes[i], i);
		if (result)
			return result;
	}
	return 0;
}

void ky_csv_columns_release(struct ky_csv_columns *columns)
{
	for (uint32_t i = 0; columns->by_shape && i < columns->shape_count; i++)
		ky_free(columns->by_shape[i]);
	ky_free(columns->by_shape);
	ky_free((void *)columns->names);
	ky_free(columns->name_bytes);
	ky_free((void *)columns->row);
	memset(columns, 0, sizeof(*columns));
}

static bool is_quoted_in_csv(char byte)
{
	return byte == ',' || byte == '"' || byte == '\n' || byte == '\r';
}

void ky_csv_cell(struct ky_buf *out, const char *text, size_t text_bytes)
{
	bool needs_quotes = text_bytes && (text[0] == ' ' || text[text_bytes - 1] == ' ');

	for (size_t i = 0; i < text_bytes && !needs_quotes; i++)
		needs_quotes = is_quoted_in_csv(text[i]);
	if (!needs_quotes) {
		ky_out_safe(out, text, text_bytes);
		return;
	}
	ky_out_text(out, "\"");
	for (size_t at = 0, plain; at < text_bytes; at += plain + 1) {
		for (plain = 0; at + plain < text_bytes; plain++)
			if (is_quoted_in_csv(text[at + plain]))
				break;
		ky_out_safe(out, text + at, plain);
		if (at + plain < text_bytes)
			(void)ky_buf_append(out,
					    text[at + plain] == '"' ? "\"\"" : text + at + plain,
					    text[at + plain] == '"' ? 2 : 1);
	}
	ky_out_text(out, "\"");
}

void ky_csv_header(struct ky_buf *out, const struct ky_csv_columns *columns)
{
	ky_out_text(out, columns->wall ? "timestamp_ns,unix_ns,event" : "timestamp_ns,event");
	for (uint32_t i = 0; i < columns->count; i++) {
		ky_out_text(out, ",");
		ky_csv_cell(out, columns->names[i], columns->name_bytes[i]);
	}
	ky_out_text(out, "\n");
}

static void csv_value(struct ky_buf *out, struct ky_event_stream *stream,
		      const struct ky_value *value)
{
	struct ky_buf cell;

	if (!value->is_present)
		return;
	if ((value->type == KY_TYPE_STRING || value->type == KY_TYPE_POOLED_STRING) &&
	    value->is_resolved) {
		ky_csv_cell(out, (const char *)value->text.bytes, value->text.count);
		return;
	}
	if (value->type == KY_TYPE_VARINT) { /* nearly every cell */
		ky_text_u64(out, value->as.number);
		return;
	}
	ky_buf_init(&cell, 0);
	if (value->type == KY_TYPE_BYTES) {
		hex_bytes(&cell, &value->text);
		if (!cell.failed)
			(void)ky_buf_append(out, cell.bytes + 1, cell.used - 2);
	} else {
		any_value(&cell, stream, value, STYLE_JSON);
		ky_csv_cell(out, (const char *)cell.bytes, cell.used);
	}
	if (cell.failed)
		out->failed = cell.failed;
	ky_buf_release(&cell);
}

void ky_event_csv(struct ky_buf *out, const struct ky_csv_columns *columns, uint32_t shape,
		  struct ky_event_stream *stream, const struct ky_event *event)
{
	const uint16_t *places = shape < columns->shape_count ? columns->by_shape[shape] : NULL;

	if (!places)
		return;
	memset((void *)columns->row, 0, columns->count * sizeof(*columns->row));
	for (uint16_t i = 0; i < event->schema->field_count; i++)
		columns->row[places[i]] = &event->values[i];
	if (event->has_timestamp)
		ky_text_u64(out, event->timestamp_ns);
	if (columns->wall)
		ky_out_text(out, ",");
	if (columns->wall && has_time(event))
		ky_text_u64(out, wall_ns(columns->wall, event));
	ky_out_text(out, ",");
	ky_csv_cell(out, (const char *)event->schema->name.bytes, event->schema->name.count);
	for (uint32_t i = 0; i < columns->count; i++) {
		ky_out_text(out, ",");
		if (columns->row[i])
			csv_value(out, stream, columns->row[i]);
	}
	ky_out_text(out, "\n");
}
