/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/custom.h>

#include <base/hash.h>
#include <read/container_text.h>
#include <read/load.h>
#include <string.h>

#define EVENTS_MAX (1u << 23)
#define VALUES_MAX (1u << 25) /* 8 bytes each */
#define TYPES_MAX (1u << 16)
#define FIELDS_MAX (1u << 20)
#define TEXT_BYTES_MAX 1024u
#define TEXTS_MAX (1u << 21) /* beyond, texts that are new are left out: names are 2^24 */
#define PROBES_MAX 8u
#define BITS 64u /* fields that a word says are there */

const char *ky_custom_type_name(uint8_t type)
{
	static const char *const names[] = {
		[KY_TYPE_I64] = "i64",
		[KY_TYPE_F64] = "f64",
		[KY_TYPE_BOOL] = "bool",
		[KY_TYPE_STRING] = "string",
		[KY_TYPE_BYTES] = "bytes",
		[KY_TYPE_POOLED_STACK] = "stack",
		[KY_TYPE_POOLED_STRING] = "string",
		[KY_TYPE_STACK] = "stack",
		[KY_TYPE_VARINT] = "varint",
		[KY_TYPE_STRING_MAP] = "string map",
		[KY_TYPE_U8] = "u8",
		[KY_TYPE_U16] = "u16",
		[KY_TYPE_U32] = "u32",
		[KY_TYPE_LIST] = "list",
		[KY_TYPE_MAP] = "map",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "?";
}

/* ---- types ---- */

static uint64_t hash_of(const struct ky_schema *schema)
{
	uint64_t hash = ky_hash_bytes(KY_HASH_START, schema->name.bytes, schema->name.count);

	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *field = &schema->fields[i];

		hash = ky_hash_bytes(hash, &field->type, 1);
		hash = ky_hash_bytes(hash, field->name.bytes, field->name.count);
	}
	return hash;
}

static bool is_text(const struct ky_trace *trace, uint32_t name, const struct ky_slice *text)
{
	const struct ky_name *known = &trace->private->names.names[name];

	return known->bytes == text->count &&
	       (!text->count || memcmp(known->text, text->bytes, text->count) == 0);
}

static bool is_same(const struct ky_trace *trace, uint32_t number, const struct ky_schema *schema)
{
	const struct ky_custom_type *type = &trace->custom_types[number];
	const struct ky_custom_field *fields = trace->custom_fields + type->field_at;

	if (type->field_count != schema->field_count || !is_text(trace, type->name, &schema->name))
		return false;
	for (uint32_t i = 0; i < schema->field_count; i++)
		if ((fields[i].type | (fields[i].is_optional ? KY_TYPE_OPTIONAL : 0)) !=
			    schema->fields[i].type ||
		    !is_text(trace, fields[i].name, &schema->fields[i].name))
			return false;
	return true;
}

static uint32_t intern(struct ky_load *load, const struct ky_slice *text)
{
	return ky_names_intern(&load->private->names, text->bytes, text->count);
}

static bool add_fields(struct ky_load *load, const struct ky_schema *schema)
{
	struct ky_trace *trace = load->trace;

	if (!ky_pages_array(&trace->pages, &trace->custom_fields, &trace->custom_field_capacity,
			    trace->custom_field_count + schema->field_count,
			    sizeof(*trace->custom_fields)))
		return false;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct ky_schema_field *field = &schema->fields[i];

		trace->custom_fields[trace->custom_field_count + i] = (struct ky_custom_field){
			.name = intern(load, &field->name),
			.unit = field->unit.count ? intern(load, &field->unit) : KY_NONE,
			.type = field->type & (uint8_t)~KY_TYPE_OPTIONAL,
			.is_optional = (field->type & KY_TYPE_OPTIONAL) != 0};
	}
	trace->custom_field_count += schema->field_count;
	return !trace->pages.failed;
}

/* Number + 1; 0: pages.failed, or there is no room for another type. */
static uint32_t add_type(struct ky_load *load, const struct ky_schema *schema)
{
	struct ky_trace *trace = load->trace;
	struct ky_custom_type type = {.field_at = trace->custom_field_count,
				      .field_count = schema->field_count};

	if (trace->custom_type_count == TYPES_MAX ||
	    schema->field_count > FIELDS_MAX - trace->custom_field_count)
		return 0;
	type.name = intern(load, &schema->name);
	if (!add_fields(load, schema) ||
	    !ky_pages_array(&trace->pages, &trace->custom_types, &trace->custom_type_capacity,
			    trace->custom_type_count + 1, sizeof(type)))
		return 0;
	trace->custom_types[trace->custom_type_count++] = type;
	return trace->custom_type_count;
}

static uint32_t find_type(struct ky_load *load, const struct ky_schema *schema)
{
	uint64_t hash = hash_of(schema);

	/* A hash may be of several: few, unless they were made to be. */
	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		uint32_t *slot = ky_id_map_slot(&load->private->custom_types, hash + i);

		if (!slot)
			return 0;
		if (!*slot)
			*slot = add_type(load, schema);
		if (!*slot || is_same(load->trace, *slot - 1, schema))
			return *slot;
	}
	return 0;
}

/* The same, remembered by the schema. */
static uint32_t type_of(struct ky_load *load, const struct ky_schema *schema)
{
	uint32_t number;

	if (schema->serial < load->custom_capacity && load->custom_of_serial[schema->serial])
		return load->custom_of_serial[schema->serial];
	number = find_type(load, schema);
	if (!number || schema->serial == UINT32_MAX ||
	    !ky_pages_array(&load->trace->pages, &load->custom_of_serial, &load->custom_capacity,
			    schema->serial + 1, sizeof(*load->custom_of_serial)))
		return 0;
	load->custom_of_serial[schema->serial] = number;
	return number;
}

/* ---- events ---- */

static uint64_t text_of(struct ky_load *load, const struct ky_value *value)
{
	size_t bytes = value->text.count < TEXT_BYTES_MAX ? value->text.count : TEXT_BYTES_MAX;
	uint32_t name = ky_names_intern_below(&load->private->names, value->text.bytes, bytes,
					      TEXTS_MAX);

	if (name == KY_NONE || bytes < value->text.count)
		ky_leave_out(load->private, KY_LEFT_CUSTOM_TEXTS);
	return name;
}

static uint64_t container_of(struct ky_load *load, const struct ky_value *value)
{
	uint32_t name = KY_NONE;
	struct ky_buf text;

	ky_buf_init(&text, 0);
	if (ky_container_text(&text, load->reader->dec, value))
		name = ky_names_intern_below(&load->private->names, text.bytes, text.used,
					     TEXTS_MAX);
	ky_buf_release(&text);
	if (name == KY_NONE)
		ky_leave_out(load->private, KY_LEFT_CUSTOM_TEXTS);
	return name;
}

static uint64_t word_of(struct ky_load *load, const struct ky_value *value)
{
	uint64_t word;

	switch (value->type) {
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
		return text_of(load, value);
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
	case KY_TYPE_STRING_MAP:
		return container_of(load, value);
	case KY_TYPE_I64:
	case KY_TYPE_F64:
	case KY_TYPE_BOOL:
	case KY_TYPE_VARINT:
	case KY_TYPE_U8:
	case KY_TYPE_U16:
	case KY_TYPE_U32:
		memcpy(&word, &value->as, sizeof(word));
		return word;
	default:
		return 0;
	}
}

/* Words that say which fields are there, then a word each. */
static uint32_t bit_words(uint32_t field_count)
{
	return field_count / BITS + 1;
}

static bool add_row(struct ky_load *load, const struct ky_frame *frame, uint32_t type)
{
	struct ky_trace *trace = load->trace;
	uint32_t fields = frame->schema->field_count, bits = bit_words(fields);
	uint64_t *words;

	if (!ky_pages_array(&trace->pages, &trace->custom_values, &trace->custom_value_capacity,
			    trace->custom_value_count + bits + fields, sizeof(*words)) ||
	    !ky_pages_array(&trace->pages, &trace->custom_rows, &trace->custom_row_capacity,
			    trace->custom_row_count + 1, sizeof(*trace->custom_rows)))
		return false;
	words = trace->custom_values + trace->custom_value_count;
	memset(words, 0, bits * sizeof(*words));
	for (uint32_t i = 0; i < fields; i++) {
		const struct ky_value *value = &frame->values[i];
		bool is_pooled = value->type == KY_TYPE_POOLED_STRING ||
				 value->type == KY_TYPE_POOLED_STACK;

		words[bits + i] = 0;
		if (!value->is_present || (is_pooled && !value->is_resolved))
			continue;
		words[i / BITS] |= UINT64_C(1) << i % BITS;
		words[bits + i] = word_of(load, value);
	}
	trace->custom_rows[trace->custom_row_count++] = (struct ky_custom_row){
		frame->schema->has_timestamp ? frame->timestamp_ns : 0, type,
		trace->custom_value_count};
	trace->custom_value_count += bits + fields;
	return !trace->pages.failed;
}

bool ky_load_custom(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t number = type_of(load, frame->schema);
	uint32_t words = bit_words(frame->schema->field_count) + frame->schema->field_count;
	struct ky_custom_type *type;

	if (trace->pages.failed)
		return false;
	if (!number)
		return ky_leave_out(load->private, KY_LEFT_CUSTOM_EVENTS);
	type = &trace->custom_types[number - 1];
	type->count++;
	if (frame->schema->has_timestamp && frame->timestamp_ns) {
		if (frame->timestamp_ns <= type->first_ns - 1) /* 0: none yet */
			type->first_ns = frame->timestamp_ns;
		if (frame->timestamp_ns > type->last_ns)
			type->last_ns = frame->timestamp_ns;
	}
	if (trace->custom_row_count >= ky_list_max(load, EVENTS_MAX) ||
	    words > VALUES_MAX - trace->custom_value_count) {
		type->left_out++;
		return ky_leave_out(load->private, KY_LEFT_CUSTOM_EVENTS);
	}
	return add_row(load, frame, number - 1);
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_custom_row *one = a, *other = b;

	(void)ctx;
	return one->time_ns != other->time_ns ? one->time_ns < other->time_ns :
						one->value_at < other->value_at;
}

void ky_custom_finish(struct ky_trace *trace)
{
	ky_sort(trace->custom_rows, trace->custom_row_count, sizeof(*trace->custom_rows), is_before,
		NULL);
}

/* ---- reading ---- */

static uint8_t kind_of(uint8_t type)
{
	switch (type) {
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
	case KY_TYPE_STRING_MAP:
		return KY_CUSTOM_TEXT;
	case KY_TYPE_I64:
		return KY_CUSTOM_SIGNED;
	case KY_TYPE_F64:
		return KY_CUSTOM_REAL;
	case KY_TYPE_BOOL:
		return KY_CUSTOM_FLAG;
	case KY_TYPE_VARINT:
	case KY_TYPE_U8:
	case KY_TYPE_U16:
	case KY_TYPE_U32:
		return KY_CUSTOM_NUMBER;
	default:
		return KY_CUSTOM_WHOLE;
	}
}

void ky_custom_value(const struct ky_trace *trace, const struct ky_custom_row *row, uint32_t field,
		     struct ky_custom_value *out)
{
	const struct ky_custom_type *type = &trace->custom_types[row->type];
	const uint64_t *words = trace->custom_values + row->value_at;

	*out = (struct ky_custom_value){.kind = KY_CUSTOM_ABSENT, .text = KY_NONE};
	if (field >= type->field_count || !(words[field / BITS] >> field % BITS & 1))
		return;
	out->kind = kind_of(trace->custom_fields[type->field_at + field].type);
	out->as.number = words[bit_words(type->field_count) + field];
	if (out->kind == KY_CUSTOM_TEXT)
		out->text = (uint32_t)out->as.number;
}
