/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The public reader: the event stream with types that cross the ABI. */
#include <base/alloc.h>
#include <base/bytes.h>
#include <errno.h>
#include <kymo/reader.h>
#include <read/event_stream.h>
#include <string.h>

struct wrapped {
	struct kymo_source source;
	char fallback_name[32];
};

struct kymo_reader {
	struct ky_event_stream *stream;
	struct ky_byte_source *sources;
	struct wrapped *wrapped;
	size_t source_count;
	struct ky_byte_source memory;
	struct kymo_event event;
	struct kymo_field *fields;
	uint32_t field_capacity;
};

static int64_t wrapped_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct wrapped *wrapped = ctx;

	return wrapped->source.read(wrapped->source.ctx, out, capacity);
}

static int wrapped_seek(void *ctx, uint64_t offset)
{
	struct wrapped *wrapped = ctx;

	return wrapped->source.seek(wrapped->source.ctx, offset);
}

static void name_source(struct wrapped *wrapped, size_t number)
{
	static const char prefix[] = "source ";
	char digits[20];
	size_t at = sizeof(digits), count;

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	count = sizeof(digits) - at;
	memcpy(wrapped->fallback_name, prefix, sizeof(prefix) - 1);
	memcpy(wrapped->fallback_name + sizeof(prefix) - 1, digits + at, count);
	wrapped->fallback_name[sizeof(prefix) - 1 + count] = '\0';
}

/* Options of a newer caller may be longer, as long as what we do not know is zero. */
static int read_options(struct kymo_reader_options *out, const struct kymo_reader_options *options)
{
	size_t i, known = sizeof(*out);

	memset(out, 0, sizeof(*out));
	if (!options)
		return 0;
	if (options->size < offsetof(struct kymo_reader_options, flags))
		return -EINVAL;
	for (i = known; i < options->size; i++)
		if (((const uint8_t *)options)[i] != 0)
			return -E2BIG;
	memcpy(out, options, options->size < known ? options->size : known);
	if (out->flags & ~(uint32_t)KYMO_READER_STORED_ORDER)
		return -EINVAL;
	return 0;
}

static int open_stream(struct kymo_reader *reader, const struct kymo_reader_options *options)
{
	struct ky_event_stream_options settled;

	memset(&settled, 0, sizeof(settled));
	settled.raw_bytes_max = options->raw_bytes_max;
	settled.reorder_bytes_max = options->reorder_bytes_max;
	settled.is_stored_order = (options->flags & KYMO_READER_STORED_ORDER) != 0;
	settled.errbuf = options->errbuf;
	settled.errbuf_bytes = options->errbuf_bytes;
	return ky_event_stream_open(&reader->stream, reader->sources, reader->source_count,
				    &settled);
}

static int wrap_sources(struct kymo_reader *reader, const struct kymo_source *sources, size_t count)
{
	size_t i;

	reader->wrapped = ky_alloc(count * sizeof(*reader->wrapped));
	reader->sources = ky_alloc(count * sizeof(*reader->sources));
	if (!reader->wrapped || !reader->sources)
		return -ENOMEM;
	reader->source_count = count;
	for (i = 0; i < count; i++) {
		if (sources[i].size != sizeof(sources[i]) || !sources[i].read)
			return -EINVAL;
		reader->wrapped[i].source = sources[i];
		name_source(&reader->wrapped[i], i);
		reader->sources[i].read = wrapped_read;
		reader->sources[i].seek = sources[i].seek ? wrapped_seek : NULL;
		reader->sources[i].ctx = &reader->wrapped[i];
		reader->sources[i].container = "raw";
		reader->sources[i].name = sources[i].name ? sources[i].name :
							    reader->wrapped[i].fallback_name;
	}
	return 0;
}

int kymo_reader_open(struct kymo_reader **out, const struct kymo_source *sources,
		     size_t source_count, const struct kymo_reader_options *options)
{
	struct kymo_reader_options settled;
	struct kymo_reader *reader;
	int result;

	if (!out)
		return -EINVAL;
	*out = NULL;
	result = read_options(&settled, options);
	if (result < 0)
		return result;
	if (!sources || source_count == 0)
		return -EINVAL;
	reader = ky_alloc(sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	result = wrap_sources(reader, sources, source_count);
	if (result == 0)
		result = open_stream(reader, &settled);
	if (result < 0)
		kymo_reader_close(reader);
	else
		*out = reader;
	return result;
}

int kymo_reader_open_memory(struct kymo_reader **out, const void *bytes, size_t byte_count,
			    const struct kymo_reader_options *options)
{
	struct kymo_reader_options settled;
	struct kymo_reader *reader;
	int result;

	if (!out)
		return -EINVAL;
	*out = NULL;
	result = read_options(&settled, options);
	if (result < 0)
		return result;
	if (!bytes && byte_count > 0)
		return -EINVAL;
	reader = ky_alloc(sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	result = ky_byte_source_memory(&reader->memory, bytes, byte_count, "(memory)");
	reader->sources = &reader->memory;
	reader->source_count = 1;
	if (result == 0)
		result = open_stream(reader, &settled);
	if (result < 0)
		kymo_reader_close(reader);
	else
		*out = reader;
	return result;
}

void kymo_reader_close(struct kymo_reader *reader)
{
	if (!reader)
		return;
	ky_event_stream_close(reader->stream);
	if (reader->memory.close)
		reader->memory.close(reader->memory.ctx);
	if (reader->sources != &reader->memory)
		ky_free(reader->sources);
	ky_free(reader->wrapped);
	ky_free(reader->fields);
	ky_free(reader);
}

static void convert(struct kymo_field *out, const struct ky_value *value)
{
	memset(out, 0, sizeof(*out));
	if (!value->is_present)
		return;
	switch (value->type) {
	case KY_TYPE_I64:
		out->type = KYMO_FIELD_INT;
		out->as_int = value->as.i64;
		break;
	case KY_TYPE_F64:
		out->type = KYMO_FIELD_DOUBLE;
		out->as_double = value->as.f64;
		break;
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_BYTES:
		out->type = value->type == KY_TYPE_BYTES ? KYMO_FIELD_BYTES : KYMO_FIELD_TEXT;
		out->bytes = value->text.bytes;
		out->byte_count = value->text.count;
		break;
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		out->type = KYMO_FIELD_STACK;
		out->bytes = value->frames;
		out->byte_count = (size_t)value->frame_count * 8;
		out->frame_count = value->frame_count;
		break;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_MAP:
	case KY_TYPE_LIST:
		out->type = value->type == KY_TYPE_LIST ? KYMO_FIELD_LIST : KYMO_FIELD_PAIRS;
		out->bytes = value->text.bytes;
		out->byte_count = value->text.count;
		out->item_count = value->frame_count;
		out->reserved = value->type;
		break;
	default:
		out->type = KYMO_FIELD_UINT;
		out->as_uint = value->as.number;
	}
}

static int convert_fields(struct kymo_reader *reader, const struct ky_event *event)
{
	const struct ky_schema *schema = event->schema;
	struct kymo_field *fields;
	uint32_t i;

	if (schema->field_count > reader->field_capacity) {
		fields = ky_realloc(reader->fields, schema->field_count * sizeof(*fields));
		if (!fields)
			return -ENOMEM;
		reader->fields = fields;
		reader->field_capacity = schema->field_count;
	}
	for (i = 0; i < schema->field_count; i++) {
		struct kymo_field *field = &reader->fields[i];

		convert(field, &event->values[i]);
		field->name = (const char *)schema->fields[i].name.bytes;
		field->name_bytes = schema->fields[i].name.count;
		if (schema->fields[i].unit.count > 0) {
			field->unit = (const char *)schema->fields[i].unit.bytes;
			field->unit_bytes = schema->fields[i].unit.count;
		}
	}
	return 0;
}

int kymo_reader_next(struct kymo_reader *reader, const struct kymo_event **event)
{
	const struct ky_event *next;
	int result;

	*event = NULL;
	result = ky_event_stream_next(reader->stream, &next);
	if (result != 1)
		return result;
	result = convert_fields(reader, next);
	if (result < 0)
		return result;
	reader->event.type = (const char *)next->schema->name.bytes;
	reader->event.type_bytes = next->schema->name.count;
	reader->event.time_ns = next->timestamp_ns;
	reader->event.source = next->source;
	reader->event.field_count = next->schema->field_count;
	reader->event.fields = reader->fields;
	reader->event.offset = next->offset;
	*event = &reader->event;
	return 1;
}

const struct kymo_field *kymo_event_field(const struct kymo_event *event, const char *name)
{
	size_t bytes = strlen(name);
	uint32_t i;

	for (i = 0; i < event->field_count; i++)
		if (event->fields[i].name_bytes == bytes &&
		    memcmp(event->fields[i].name, name, bytes) == 0)
			return &event->fields[i];
	return NULL;
}

uint64_t kymo_field_frame(const struct kymo_field *field, uint32_t index)
{
	if (field->type != KYMO_FIELD_STACK || index >= field->frame_count || !field->bytes)
		return 0;
	return ky_get_u64(field->bytes + (size_t)index * 8);
}

/* cursor: elements given (upper 32 bits) and bytes walked (lower 32: a frame is at most 64 MiB). */
int kymo_field_item(struct kymo_reader *reader, const struct kymo_field *field, uint64_t *cursor,
		    struct kymo_field *key, struct kymo_field *value)
{
	uint32_t given = (uint32_t)(*cursor >> 32), walked = (uint32_t)*cursor;
	struct ky_value key_value, item;
	struct ky_trc_walk walk;
	int result;

	if (field->type != KYMO_FIELD_LIST && field->type != KYMO_FIELD_PAIRS)
		return 0;
	if (given > field->item_count || walked > field->byte_count)
		return KYMO_E_CORRUPT;
	walk.at = field->bytes + walked;
	walk.end = field->bytes + field->byte_count;
	walk.left = field->item_count - given;
	walk.type = (uint8_t)field->reserved;
	result = ky_event_walk_next(reader->stream, &walk, &key_value, &item);
	if (result != 1)
		return result;
	*cursor = (uint64_t)(given + 1) << 32 | (uint32_t)(walk.at - field->bytes);
	if (key)
		convert(key, &key_value);
	convert(value, &item);
	return 1;
}

const char *kymo_reader_notice(const struct kymo_reader *reader, uint32_t index)
{
	return ky_event_stream_notice(reader->stream, index);
}
