/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/otlp_ids.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <base/hash.h>
#include <base/hex.h>
#include <errno.h>
#include <read/custom.h>
#include <read/sort.h>
#include <read/spans.h>
#include <string.h>

#define LOOKED_AT_MAX 4096u /* spans of one task, from the moment back */

struct ky_otlp_known {
	uint64_t from_ns, to_ns;
	uint32_t task;
	struct ky_otlp_id id;
};

/* ---- texts ---- */

/* count bytes of 2 digits each; false: they are not, or all are zero. */
static bool read_hex(const char *text, uint8_t *out, size_t count)
{
	uint8_t any = 0;

	for (size_t i = 0; i < 2 * count; i++) {
		int digit = ky_hex_digit(text[i]);

		if (digit < 0)
			return false;
		out[i / 2] = (uint8_t)(out[i / 2] << 4 | digit);
		any |= (uint8_t)digit;
	}
	return any != 0;
}

static bool ends(const char *text)
{
	return text[0] == '\0' || (text[0] == '"' && text[1] == '\0');
}

bool ky_otlp_id_parse(const char *text, struct ky_otlp_id *out)
{
	const size_t trace_digits = 2u * KY_OTLP_TRACE_BYTES, span_digits = 2u * KY_OTLP_SPAN_BYTES;
	size_t count;

	memset(out, 0, sizeof(*out));
	text += text[0] == '"';
	count = strlen(text);
	if (count >= trace_digits && ends(text + trace_digits))
		return read_hex(text, out->trace, KY_OTLP_TRACE_BYTES);
	/* VERSION-TRACE-SPAN-FLAGS */
	if (count < 3 + trace_digits + 1 + span_digits + 3 || text[2] != '-' ||
	    text[3 + trace_digits] != '-' || text[4 + trace_digits + span_digits] != '-' ||
	    !read_hex(text + 3, out->trace, KY_OTLP_TRACE_BYTES))
		return false;
	out->has_span = read_hex(text + 4 + trace_digits, out->span, KY_OTLP_SPAN_BYTES);
	return out->has_span;
}

static bool is_one_of(const char *key, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(key, names[i]) == 0)
			return true;
	return false;
}
#define IS_ONE_OF(key, names) is_one_of(key, names, sizeof(names) / sizeof((names)[0]))

enum mark {
	MARK_NONE,
	MARK_TRACE,
	MARK_SPAN
};

static const char *const trace_keys[] = {"trace_id", "otel.trace_id", "traceId", "traceparent",
					 "otel.traceparent"};
static const char *const span_keys[] = {"span_id", "otel.span_id", "spanId"};

/* Which names are such keys: most spans have many fields, and a trace few names. */
static uint8_t *mark_keys(const struct ky_trace *trace)
{
	uint32_t names = ky_trace_name_count(trace);
	uint8_t *marks = ky_alloc(names + (size_t)1);

	for (uint32_t i = 0; marks && i < names; i++) {
		const char *key = ky_trace_name(trace, i);

		marks[i] = IS_ONE_OF(key, trace_keys) ? MARK_TRACE :
			   IS_ONE_OF(key, span_keys)  ? MARK_SPAN :
							MARK_NONE;
	}
	return marks;
}

/* A text under such a key. The trace comes before the span in what a caller reads. */
static void read_pair(struct ky_otlp_id *id, bool *is_found, enum mark mark, const char *text)
{
	struct ky_otlp_id found;

	if (mark == MARK_TRACE && ky_otlp_id_parse(text, &found)) {
		if (!found.has_span) {
			memcpy(found.span, id->span, sizeof(found.span));
			found.has_span = id->has_span;
		}
		*id = found;
		*is_found = true;
	} else if (mark == MARK_SPAN && !id->has_span) {
		text += text[0] == '"';
		if (strlen(text) >= 2u * KY_OTLP_SPAN_BYTES && ends(text + 2u * KY_OTLP_SPAN_BYTES))
			id->has_span = read_hex(text, id->span, KY_OTLP_SPAN_BYTES);
	}
}

static bool read_fields(const struct ky_trace *trace, const struct ky_trace_span *span,
			const uint8_t *marks, struct ky_otlp_id *out)
{
	bool is_found = false;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < span->field_count; i++) {
		const struct ky_pair *field = &trace->span_fields[span->field_at + i];

		if (field->key != KY_NONE)
			read_pair(out, &is_found, (enum mark)marks[field->key],
				  ky_trace_name(trace, field->value));
	}
	return is_found;
}

/* ---- events in spans ---- */

struct span_place {
	uint64_t id, start_ns;
	uint32_t span; /* index */
};

/* What they said of spans. */
struct given_ids {
	struct span_place *places; /* of all spans, by id, then start */
	struct ky_otlp_id *list;
	uint32_t count, capacity;
	uint32_t *of_span; /* by span: index in the list; KY_NONE */
};

static bool is_place_before(const void *first, const void *second, const void *ctx)
{
	const struct span_place *a = first, *b = second;

	(void)ctx;
	if (a->id != b->id)
		return a->id < b->id;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return a->span < b->span;
}

/* The span of this number that had begun by then; ids of closed spans come back. KY_NONE: none. */
static uint32_t span_at(const struct given_ids *given, uint32_t span_count, uint64_t id,
			uint64_t ns)
{
	uint32_t low = 0, high = span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct span_place *place = &given->places[middle];

		if (place->id < id || (place->id == id && place->start_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && given->places[low - 1].id == id ? given->places[low - 1].span : KY_NONE;
}

static int read_row(struct given_ids *given, const struct ky_trace *trace, const uint8_t *marks,
		    const struct ky_custom_row *row)
{
	const struct ky_custom_type *type = &trace->custom_types[row->type];
	struct ky_otlp_id id = {.has_span = false};
	struct ky_custom_value value;
	uint64_t number = 0;
	bool is_found = false;
	uint32_t span;

	for (uint32_t i = 0; i < type->field_count; i++) {
		uint32_t key = trace->custom_fields[type->field_at + i].name;

		if (key == KY_NONE || !marks[key])
			continue;
		ky_custom_value(trace, row, i, &value);
		if (value.kind == KY_CUSTOM_NUMBER && marks[key] == MARK_SPAN)
			number = value.as.number;
		else if (value.kind == KY_CUSTOM_TEXT && value.text != KY_NONE)
			read_pair(&id, &is_found, (enum mark)marks[key],
				  ky_trace_name(trace, value.text));
	}
	span = is_found && number ? span_at(given, trace->span_count, number, row->time_ns) :
				    KY_NONE;
	if (span == KY_NONE)
		return 0;
	if (ky_grow(&given->list, &given->capacity, given->count + 1, sizeof(*given->list)))
		return -ENOMEM;
	given->of_span[span] = given->count;
	given->list[given->count++] = id;
	return 0;
}

static void release_given(struct given_ids *given)
{
	ky_free(given->places);
	ky_free(given->list);
	ky_free(given->of_span);
}

static int read_events(struct given_ids *given, const struct ky_trace *trace, const uint8_t *marks)
{
	int result = 0;

	given->places = ky_alloc((trace->span_count + (size_t)1) * sizeof(*given->places));
	given->of_span = ky_alloc((trace->span_count + (size_t)1) * sizeof(*given->of_span));
	if (!given->places || !given->of_span)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->span_count; i++) {
		given->of_span[i] = KY_NONE;
		given->places[i] = (struct span_place){trace->spans[i].id, trace->spans[i].start_ns,
						       i};
	}
	ky_sort(given->places, trace->span_count, sizeof(*given->places), is_place_before, NULL);
	for (uint32_t i = 0; i < trace->custom_row_count && !result; i++)
		result = read_row(given, trace, marks, &trace->custom_rows[i]);
	return result;
}

/* ---- spans ---- */

static bool is_known_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_otlp_known *a = first, *b = second;

	(void)ctx;
	if (a->task != b->task)
		return a->task < b->task;
	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns;
	return a->to_ns > b->to_ns;
}

static int read_spans(struct ky_otlp_ids *ids, const uint8_t *marks, const struct given_ids *given,
		      uint32_t *known_of)
{
	const struct ky_trace *trace = ids->trace;
	uint32_t capacity = 0;

	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];
		struct ky_otlp_id id;

		known_of[i] = KY_NONE;
		if (given->list && given->of_span[i] != KY_NONE) {
			id = given->list[given->of_span[i]];
		} else if (!read_fields(trace, span, marks, &id)) {
			/* A parent begins before its children, so it stands before them. */
			if (span->parent == KY_NONE || span->parent >= i ||
			    known_of[span->parent] == KY_NONE)
				continue;
			id = ids->list[known_of[span->parent]].id;
		}
		if (ky_grow(&ids->list, &capacity, ids->count + 1, sizeof(*ids->list)))
			return -ENOMEM;
		known_of[i] = ids->count;
		ids->list[ids->count++] = (struct ky_otlp_known){
			.from_ns = span->start_ns,
			.to_ns = span->is_open ? UINT64_MAX : span->start_ns + span->duration_ns,
			.task = span->task,
			.id = id};
	}
	return 0;
}

static uint64_t seed_of(const struct ky_trace *trace)
{
	static const char *const keys[] = {"boot_id", "pid", "process.start_time_ticks", "host"};
	uint64_t seed = KY_HASH_START;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = ky_trace_metadata(trace, keys[i]);

		seed = ky_hash_bytes(seed, text ? text : "", text ? strlen(text) + 1 : 1);
	}
	if (!ky_trace_metadata(trace, keys[0])) /* of another writer: its start tells it */
		seed = ky_hash_bytes(seed, &trace->run_first_ns, sizeof(trace->run_first_ns));
	return seed;
}

int ky_otlp_ids_make(struct ky_otlp_ids *out, const struct ky_trace *trace)
{
	uint8_t *marks = mark_keys(trace);
	uint32_t *known_of = ky_alloc((trace->span_count + (size_t)1) * sizeof(*known_of));
	struct given_ids given = {.list = NULL};
	int result = -ENOMEM;

	*out = (struct ky_otlp_ids){.trace = trace, .seed = seed_of(trace)};
	if (marks && known_of)
		result = read_events(&given, trace, marks);
	if (!result)
		result = read_spans(out, marks, &given, known_of);
	release_given(&given);
	ky_free(marks);
	ky_free(known_of);
	if (!result && out->count)
		ky_sort(out->list, out->count, sizeof(*out->list), is_known_before, NULL);
	return result;
}

void ky_otlp_ids_release(struct ky_otlp_ids *ids)
{
	ky_free(ids->list);
	ids->list = NULL;
	ids->count = 0;
}

/* The first that is of a later task, or begins after the moment. */
static uint32_t upper(const struct ky_otlp_ids *ids, uint32_t task, uint64_t ns)
{
	uint32_t low = 0, high = ids->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_otlp_known *known = &ids->list[middle];

		if (known->task < task || (known->task == task && known->from_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool ky_otlp_ids_find(const struct ky_otlp_ids *ids, uint32_t task, uint64_t from_ns,
		      uint64_t to_ns, struct ky_otlp_id *out)
{
	uint32_t at = task == KY_NONE ? 0 : upper(ids, task, to_ns);
	uint64_t most_ns = 0;
	bool is_found = false;

	for (uint32_t i = 0; i < LOOKED_AT_MAX && at-- > 0; i++) {
		const struct ky_otlp_known *known = &ids->list[at];
		uint64_t begin_ns, end_ns;

		if (known->task != task)
			break;
		begin_ns = known->from_ns > from_ns ? known->from_ns : from_ns;
		end_ns = known->to_ns < to_ns ? known->to_ns : to_ns;
		if (end_ns < begin_ns || (is_found && end_ns - begin_ns <= most_ns))
			continue;
		most_ns = end_ns - begin_ns;
		*out = known->id;
		is_found = true;
	}
	return is_found;
}

/* ---- what has no trace of its own ---- */

static uint64_t derive(const struct ky_otlp_ids *ids, const char *kind, uint64_t number,
		       uint64_t other)
{
	uint64_t hash = ky_hash_bytes(ids->seed, kind, strlen(kind) + 1);

	hash = ky_hash_number(ky_hash_bytes(hash, &number, sizeof(number)));
	hash = ky_hash_number(ky_hash_bytes(hash, &other, sizeof(other)));
	return hash ? hash : 1;
}

void ky_otlp_ids_derive_trace(const struct ky_otlp_ids *ids, const char *kind, uint64_t number,
			      uint8_t *out)
{
	ky_put_u64(out, derive(ids, kind, number, 0));
	ky_put_u64(out + 8, derive(ids, kind, number, 1));
}

void ky_otlp_ids_derive_span(const struct ky_otlp_ids *ids, const char *kind, uint64_t number,
			     uint64_t start_ns, uint8_t *out)
{
	ky_put_u64(out, derive(ids, kind, number, start_ns));
}
