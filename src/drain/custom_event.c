/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of the application: values in words, as schema.h puts them, become an event of the trace
 * with a schema of its own. Everything in the ring may be a lie. */
#include <drain/convert_stage.h>

#include <kymo/runtime.h>
#include <kymo/schema.h>
#include <string.h>
#include <wire/event_schema.h>

#define TYPE_ID_FIRST 0x4000u /* above those of kymo's own events */

struct custom_words {
	uint64_t words[KYMO_CUSTOM_WORDS_MAX];
	uint32_t count, at;
	bool is_bad;
};

/* Of one event: pool ids of its interned strings, which stand before it. */
struct pools {
	uint32_t ids[KYMO_CUSTOM_WORDS_MAX];
	uint32_t count, at;
};

static uint64_t next(struct custom_words *from)
{
	if (from->at < from->count)
		return from->words[from->at++];
	from->is_bad = true;
	return 0;
}

/* Bytes of the string at the cursor, which moves after it. */
static const char *next_text(struct custom_words *from, size_t *bytes)
{
	const char *text;
	uint64_t length = next(from), words = (length + 7) / 8;

	*bytes = 0;
	if (length > KYMO_CUSTOM_STRING_BYTES_MAX || words > from->count - from->at) {
		from->is_bad = true;
		return "";
	}
	text = (const char *)&from->words[from->at];
	from->at += (uint32_t)words;
	*bytes = (size_t)length;
	return text;
}

static void collect(struct custom_words *out, const struct ky_rec *rec)
{
	out->count = rec->arg <= KYMO_CUSTOM_WORDS_MAX ? rec->arg : 0;
	out->is_bad = false;
	out->at = 1;
	for (uint32_t i = 1; i < out->count; i++)
		out->words[i] = i % 2 ? rec[(i + 1) / 2].ticks : rec[(i + 1) / 2].a;
}

/* What stands before the elements of a list or the pairs of a map. */
struct container {
	uint32_t count;
	uint8_t key, value; /* key 0: of a list */
};

static bool is_scalar(uint32_t type)
{
	switch (type) {
	case KY_TYPE_I64:
	case KY_TYPE_F64:
	case KY_TYPE_BOOL:
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_VARINT:
		return true;
	default:
		return false;
	}
}

static bool is_container(uint32_t type)
{
	return type == KY_TYPE_LIST || type == KY_TYPE_MAP;
}

static struct container next_container(struct custom_words *from, uint8_t type)
{
	uint64_t head = next(from), first = head >> 32 & 0xff, second = head >> 40;
	struct container out = {.count = (uint32_t)head};
	uint64_t value = type == KY_TYPE_LIST ? first : second;

	/* An element takes a word at least. */
	if (out.count > from->count - from->at || value > UINT8_MAX ||
	    (type == KY_TYPE_LIST ? second != 0 : !is_scalar((uint32_t)first)) ||
	    !(is_scalar((uint32_t)value) || is_container((uint32_t)value)))
		from->is_bad = true;
	if (from->is_bad)
		return (struct container){.count = 0};
	out.value = (uint8_t)value;
	out.key = type == KY_TYPE_LIST ? 0 : (uint8_t)first;
	return out;
}

/* Whether a value of this type stands at the cursor, which moves after it; fills pools. */
static void check_value(struct ky_convert *convert, struct custom_words *words, uint8_t type,
			struct pools *pools, uint32_t depth)
{
	struct container inner;
	size_t bytes;

	if (type == KY_TYPE_STRING) {
		(void)next_text(words, &bytes);
	} else if (type == KY_TYPE_POOLED_STRING) {
		uint64_t string = next(words);

		if (!words->is_bad)
			pools->ids[pools->count++] = ky_string_pool(&convert->common->names,
								    &convert->chunk, string);
	} else if (is_scalar(type)) {
		(void)next(words);
	} else if (is_container(type) && depth < KYMO_CUSTOM_DEPTH_MAX) {
		inner = next_container(words, type);
		for (uint32_t i = 0; i < inner.count && !words->is_bad; i++) {
			if (inner.key)
				check_value(convert, words, inner.key, pools, depth + 1);
			check_value(convert, words, inner.value, pools, depth + 1);
		}
	} else {
		words->is_bad = true;
	}
}

/* Whether the words are what the schema says, to the end; fills pools. */
static bool check(struct ky_convert *convert, struct custom_words *words, const uint8_t *at,
		  const uint8_t *end, struct pools *pools)
{
	struct ky_event_field field;

	while (!words->is_bad && ky_schema_field(&at, end, &field)) {
		uint8_t type = field.type & (uint8_t)~KY_TYPE_OPTIONAL;

		if (!is_scalar(type) && !is_container(type))
			return false;
		if (!(field.type & KY_TYPE_OPTIONAL) || next(words))
			check_value(convert, words, type, pools, 0);
	}
	return !words->is_bad && words->at == words->count;
}

static void write_scalar(struct ky_trc_enc *enc, struct custom_words *words, uint8_t type,
			 struct pools *pools)
{
	uint64_t word;
	const char *text;
	double real;
	size_t bytes;

	switch (type) {
	case KY_TYPE_STRING:
		text = next_text(words, &bytes);
		ky_trc_enc_text(enc, text, bytes);
		return;
	case KY_TYPE_POOLED_STRING:
		(void)next(words);
		ky_trc_enc_u32(enc, pools->ids[pools->at++]);
		return;
	case KY_TYPE_I64:
		ky_trc_enc_i64(enc, (int64_t)next(words));
		return;
	case KY_TYPE_F64:
		word = next(words);
		memcpy(&real, &word, sizeof(real));
		ky_trc_enc_f64(enc, real);
		return;
	case KY_TYPE_BOOL:
		ky_trc_enc_u8(enc, next(words) != 0);
		return;
	default:
		ky_trc_enc_varint(enc, next(words));
		return;
	}
}

/* What check_value() has found to be whole: it goes no deeper than that did. */
static void write_value(struct ky_trc_enc *enc, struct custom_words *words, uint8_t type,
			struct pools *pools)
{
	struct container inner;

	if (!is_container(type)) {
		write_scalar(enc, words, type, pools);
		return;
	}
	inner = next_container(words, type);
	ky_trc_enc_count(enc, inner.count);
	for (uint32_t i = 0; i < inner.count; i++) {
		if (inner.key) {
			ky_trc_enc_u8(enc, inner.key);
			write_scalar(enc, words, inner.key, pools);
		}
		ky_trc_enc_u8(enc, inner.value);
		write_value(enc, words, inner.value, pools);
	}
}

/* Once in each chunk. Returns false when the directory's entry makes no sense. */
static bool write_schema(struct ky_trc_enc *enc, uint16_t type_id, const struct ky_string *schema)
{
	struct ky_trc_field_def fields[KYMO_CUSTOM_FIELDS_MAX + 2] = {
		{"tid", 3, KY_TYPE_U32}, {"task_id", 7, KY_TYPE_OPT_VARINT}};
	const uint8_t *at = (const uint8_t *)schema->text, *end = at + schema->text_bytes, *first;
	const char *name = ky_schema_text(&at, end);
	struct ky_event_field field;
	uint16_t count = 2;

	if (!name || !name[0])
		return false;
	for (first = at; ky_schema_field(&at, end, &field); count++) {
		if (count == KYMO_CUSTOM_FIELDS_MAX + 2)
			return false;
		fields[count] = (struct ky_trc_field_def){field.name, strlen(field.name),
							  field.type};
	}
	if (at != end)
		return false;
	ky_trc_enc_schema(enc, type_id, name, strlen(name), true, fields, count);
	count = 2;
	for (at = first; ky_schema_field(&at, end, &field); count++)
		if (field.unit[0])
			ky_trc_enc_annotation(enc, type_id, count, "unit", 4, field.unit,
					      strlen(field.unit));
	return true;
}

static bool write_event(struct ky_convert *convert, const struct ky_dthread *thread,
			const struct ky_rec *rec, uint64_t ns)
{
	struct ky_name_table *names = &convert->common->names;
	struct ky_trc_enc *enc = &convert->chunk.enc;
	const struct ky_string *schema;
	const uint8_t *at, *fields, *end;
	struct pools pools = {.count = 0};
	struct custom_words words;
	struct ky_event_field field;
	uint16_t type_id;

	if (rec->a >= names->schema_count || !names->schemas[rec->a].text.text)
		return false;
	type_id = (uint16_t)(TYPE_ID_FIRST + rec->a);
	schema = &names->schemas[rec->a].text;
	at = (const uint8_t *)schema->text;
	end = at + schema->text_bytes;
	if (!ky_schema_text(&at, end))
		return false;
	fields = at;
	collect(&words, rec);
	if (!check(convert, &words, at, end, &pools))
		return false;
	if (names->schemas[rec->a].chunk_serial != convert->chunk.serial &&
	    !write_schema(enc, type_id, schema))
		return false;
	names->schemas[rec->a].chunk_serial = convert->chunk.serial;
	ky_trc_enc_raw_event(enc, type_id, true, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_opt_varint(enc, thread->depth != 0,
			      thread->depth ? thread->stack[thread->depth - 1].task : 0);
	words.at = 1;
	for (at = fields; ky_schema_field(&at, end, &field);) {
		bool is_present = !(field.type & KY_TYPE_OPTIONAL) || next(&words) != 0;

		if (field.type & KY_TYPE_OPTIONAL)
			ky_trc_enc_u8(enc, is_present);
		if (is_present)
			write_value(enc, &words, (uint8_t)(field.type & ~KY_TYPE_OPTIONAL), &pools);
	}
	return true;
}

static uint32_t u32_of(uint64_t number)
{
	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static bool write_runtime_metrics(struct ky_convert *convert, const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	struct custom_words words;
	uint32_t name;

	collect(&words, rec);
	if (words.count != 2 + KY_RUNTIME_METRICS_COUNT)
		return false;
	name = ky_string_pool(&convert->common->names, &convert->chunk, next(&words));
	ky_trc_enc_event(enc, KY_EV_RUNTIME_METRICS, ns);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_u32(enc, u32_of(next(&words)));
	ky_trc_enc_u32(enc, u32_of(next(&words)));
	for (uint32_t i = 2; i < KY_RUNTIME_METRICS_COUNT; i++) {
		uint64_t number = next(&words);

		ky_trc_enc_opt_varint(enc, number != KYMO_RUNTIME_NUMBER_UNKNOWN, number);
	}
	return true;
}

_Static_assert(KY_F_RUNTIME_METRICS_COUNT == 1 + KY_RUNTIME_METRICS_COUNT, "the same numbers");

void ky_convert_custom(struct ky_convert *convert, const struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns)
{
	bool is_known;

	if (convert->retain.is_on && !ky_retain_writes(convert, KY_RETAIN_CUSTOM, 0, ns))
		return;
	if (rec->a == KY_SCHEMA_RUNTIME_METRICS)
		is_known = write_runtime_metrics(convert, rec, ns);
	else
		is_known = write_event(convert, thread, rec, ns);
	if (is_known)
		return;
	convert->common->stats.records_lost++;
	ky_chunk_loss(&convert->chunk,
		      &(struct ky_loss){thread->tid, KY_LOSS_UNSUPPORTED, 1, ns, ns, true}, ns);
}
