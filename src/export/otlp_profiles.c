/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/otlp.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <errno.h>
#include <export/otlp_ids.h>
#include <export/proto.h>
#include <string.h>

/* opentelemetry/proto/profiles/v1development of release 1.10: its numbers may change. */
enum otlp_profile_field {
	REQUEST_DICTIONARY = 2,
	SCOPE_PROFILES = 2,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	PROFILE_ID = 7,
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES = 2,
	SAMPLE_LINK = 3,
	SAMPLE_VALUES = 4,
	SAMPLE_TIMES = 5,
	TYPE_NAME = 1,
	TYPE_UNIT = 2,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	LINK_TRACE_ID = 1,
	LINK_SPAN_ID = 2,
	ATTRIBUTE_KEY = 1,
	ATTRIBUTE_VALUE = 2,
	VALUE_TEXT = 1,
	VALUE_INT = 3
};

/* Tables of the dictionary; the first entry of each stands for "none". */
enum table {
	TABLE_MAPPING = 1,
	TABLE_LOCATION,
	TABLE_FUNCTION,
	TABLE_LINK,
	TABLE_STRING,
	TABLE_ATTRIBUTE,
	TABLE_STACK,
	TABLES
};

struct profiles {
	struct ky_export *export;
	struct ky_otlp_writer *writer;
	struct ky_otlp_ids ids;
	struct ky_buf tables[TABLES];
	uint32_t counts[TABLES];
	uint32_t *threads; /* of the kind that is being written, ascending */
	uint32_t thread_count, thread_attributes, state_attributes, reason_attributes;
	struct ky_otlp_id last_link;
};

/* ---- the dictionary ---- */

/* Appends `message` as an entry. Returns its index. */
static uint32_t add_entry(struct profiles *profiles, enum table table, struct ky_buf *message)
{
	ky_proto_message(&profiles->tables[table], table, message);
	return profiles->counts[table]++;
}

static uint32_t add_string(struct profiles *profiles, const char *text)
{
	const struct ky_export *export = profiles->export;

	if (export->clean)
		text = export->clean(export->clean_ctx, text);
	ky_proto_text(&profiles->tables[TABLE_STRING], TABLE_STRING, text);
	return profiles->counts[TABLE_STRING]++;
}

static uint32_t add_attribute(struct profiles *profiles, uint32_t key, const char *text,
			      uint64_t number)
{
	struct ky_otlp_writer *writer = profiles->writer;

	if (text)
		ky_proto_text(&writer->value, VALUE_TEXT, text);
	else
		ky_proto_number_always(&writer->value, VALUE_INT, number);
	ky_proto_number(&writer->pair, ATTRIBUTE_KEY, key);
	ky_proto_message(&writer->pair, ATTRIBUTE_VALUE, &writer->value);
	return add_entry(profiles, TABLE_ATTRIBUTE, &writer->pair);
}

static void add_mappings(struct profiles *profiles)
{
	const struct ky_code_map *map = ky_symbol_table_map(profiles->export->symbols);
	struct ky_buf *out = &profiles->writer->pair;

	for (uint32_t i = 0; i < map->count; i++) {
		const struct ky_code_module *module = &map->modules[i];

		ky_proto_number(out, 1, module->start);
		ky_proto_number(out, 2, module->end);
		ky_proto_number(out, 3, module->file_offset);
		ky_proto_number(out, 4, add_string(profiles, ky_code_module_path(map, module)));
		add_entry(profiles, TABLE_MAPPING, out);
	}
}

static uint32_t mapping_of(const struct profiles *profiles, uint32_t number)
{
	const struct ky_code_map *map = ky_symbol_table_map(profiles->export->symbols);

	for (uint32_t i = 0; i < map->count; i++)
		if (map->modules[i].number == number)
			return i + 1;
	return 0;
}

static void add_locations(struct profiles *profiles)
{
	const struct ky_code_stacks *code = profiles->export->code;
	struct ky_buf *out = &profiles->writer->pair, *line = &profiles->writer->value;

	for (uint32_t i = 0; i <= code->spot_count; i++) {
		const struct ky_code_spot *spot = i < code->spot_count ? &code->spots[i] : NULL;

		uint32_t line_count = 1;

		if (spot)
			line_count = spot->count;
		ky_proto_number(out, 1, spot ? mapping_of(profiles, spot->module) : 0);
		ky_proto_number(out, 2, spot ? spot->address : 0);
		for (uint32_t k = 0; k < line_count; k++) {
			const struct ky_code_line *of = spot ? &code->lines[spot->first + k] : NULL;

			ky_proto_number(line, LINE_FUNCTION,
					(uint64_t)(of ? of->function : code->function_count) + 1);
			ky_proto_number(line, LINE_LINE, of ? of->line : 0);
			ky_proto_message(out, 3, line);
		}
		add_entry(profiles, TABLE_LOCATION, out);
	}
}

static void add_functions(struct profiles *profiles)
{
	const struct ky_code_stacks *code = profiles->export->code;
	struct ky_buf *out = &profiles->writer->pair;

	for (uint32_t i = 0; i <= code->function_count; i++) {
		const struct ky_code_line *line = i < code->function_count ?
							  &code->lines[code->function_lines[i]] :
							  NULL;

		ky_proto_number(out, 1, add_string(profiles, line ? line->name : "(no stack)"));
		if (line && *line->file)
			ky_proto_number(out, 3, add_string(profiles, line->file));
		add_entry(profiles, TABLE_FUNCTION, out);
	}
}

/* Those of the trace in their order, and one of "(no stack)" after them. */
static void add_stacks(struct profiles *profiles)
{
	const struct ky_export *export = profiles->export;
	const struct ky_samples *samples = &export->trace->samples;
	struct ky_buf *out = &profiles->writer->pair, *list = &profiles->writer->value;

	for (uint32_t i = 0; i <= samples->stack_count; i++) {
		const struct ky_stack *stack = i < samples->stack_count ? &samples->stacks[i] :
									  NULL;

		for (uint32_t k = 0; stack && k < stack->count; k++)
			ky_proto_varint(list,
					(uint64_t) export->code->frame_spots[stack->first + k] + 1);
		if (!list->used)
			ky_proto_varint(list, (uint64_t) export->code->spot_count + 1);
		ky_proto_message(out, 1, list);
		add_entry(profiles, TABLE_STACK, out);
	}
}

static void begin_dictionary(struct profiles *profiles)
{
	struct ky_buf *nothing = &profiles->writer->pair;

	for (uint32_t i = 0; i < TABLES; i++)
		ky_buf_init(&profiles->tables[i], 0);
	for (uint32_t i = TABLE_MAPPING; i < TABLES; i++)
		add_entry(profiles, (enum table)i, nothing);
	add_mappings(profiles);
	add_locations(profiles);
	add_functions(profiles);
	add_stacks(profiles);
}

/* ---- a profile ---- */

static int add_threads(struct profiles *profiles)
{
	int64_t count = ky_export_threads(profiles->export, &profiles->threads);
	uint32_t key = add_string(profiles, "thread.id");

	if (count < 0)
		return (int)count;
	profiles->thread_count = (uint32_t)count;
	profiles->thread_attributes = profiles->counts[TABLE_ATTRIBUTE];
	for (uint32_t i = 0; i < profiles->thread_count; i++)
		add_attribute(profiles, key, NULL, profiles->threads[i]);
	return 0;
}

static uint32_t thread_attribute(const struct profiles *profiles, uint32_t tid)
{
	uint32_t low = 0, high = profiles->thread_count;

	while (low + 1 < high) {
		uint32_t middle = low + (high - low) / 2;

		if (profiles->threads[middle] <= tid)
			low = middle;
		else
			high = middle;
	}
	return profiles->thread_attributes + low;
}

/* Why threads were off the CPU. */
static void add_reasons(struct profiles *profiles)
{
	const struct ky_export *export = profiles->export;
	uint32_t key = add_string(profiles, "kymo.off_cpu.reason");
	char cell[KY_EXPORT_CELL_BYTES];
	uint8_t kind;

	profiles->reason_attributes = profiles->counts[TABLE_ATTRIBUTE];
	for (uint32_t i = 0; i < export->reason_count; i++)
		add_attribute(profiles, key, ky_export_reason_name(cell, export, i, &kind), 0);
	key = add_string(profiles, "kymo.off_cpu.state");
	profiles->state_attributes = profiles->counts[TABLE_ATTRIBUTE];
	for (uint32_t i = 0; i < KY_STATES; i++)
		add_attribute(profiles, key, ky_export_state_name(i), 0);
}

/* Of the span that `tracing` knew at that moment; 0: of none. */
static uint32_t link_of(struct profiles *profiles, const struct ky_stack_row *row)
{
	struct ky_buf *out = &profiles->writer->pair;
	struct ky_otlp_id id;

	if (!ky_otlp_ids_find(&profiles->ids, row->task, row->time_ns, row->time_ns, &id) ||
	    !id.has_span)
		return 0;
	if (profiles->counts[TABLE_LINK] > 1 && memcmp(&id, &profiles->last_link, sizeof(id)) == 0)
		return profiles->counts[TABLE_LINK] - 1;
	profiles->last_link = id;
	ky_proto_bytes(out, LINK_TRACE_ID, id.trace, sizeof(id.trace));
	ky_proto_bytes(out, LINK_SPAN_ID, id.span, sizeof(id.span));
	return add_entry(profiles, TABLE_LINK, out);
}

static void put_sample(struct profiles *profiles, const struct ky_stack_row *row,
		       const struct ky_export_part *part)
{
	const struct ky_export *export = profiles->export;
	struct ky_otlp_writer *writer = profiles->writer;
	struct ky_buf *out = &writer->middle, *list = &writer->value;
	uint8_t time[8];

	ky_proto_number(out, SAMPLE_STACK,
			(uint64_t)(row->stack == KY_NONE ? export->trace->samples.stack_count :
							   row->stack) +
				1);
	if (row->tid)
		ky_proto_varint(list, thread_attribute(profiles, row->tid));
	if (part->reason != KY_NONE) {
		ky_proto_varint(list, (uint64_t)profiles->reason_attributes + part->reason);
		ky_proto_varint(list, (uint64_t)profiles->state_attributes + part->state);
	}
	if (list->used)
		ky_proto_message(out, SAMPLE_ATTRIBUTES, list);
	ky_proto_number(out, SAMPLE_LINK, link_of(profiles, row));
	ky_proto_varint(list, export->is_counted ? part->count : part->value);
	ky_proto_message(out, SAMPLE_VALUES, list);
	ky_put_u64(time, ky_trace_unix_ns(export->trace, row->time_ns));
	ky_proto_bytes(out, SAMPLE_TIMES, time, sizeof(time));
	ky_proto_message(&writer->item, PROFILE_SAMPLES, out);
}

static void put_type(struct profiles *profiles)
{
	static const char *const names[] = {"cpu", "off_cpu", "waiting", "allocated"};
	const struct ky_export *export = profiles->export;
	struct ky_buf *type = &profiles->writer->pair;
	const char *unit = export->is_counted             ? "count" :
			   export->kind == KY_STACK_ALLOC ? "bytes" :
							    "nanoseconds";

	ky_proto_number(type, TYPE_NAME,
			add_string(profiles, export->is_counted ? "samples" : names[export->kind]));
	ky_proto_number(type, TYPE_UNIT, add_string(profiles, unit));
	ky_proto_message(&profiles->writer->item, PROFILE_SAMPLE_TYPE, type);
}

static void put_head(struct profiles *profiles)
{
	const struct ky_export *export = profiles->export;
	const struct ky_trace *trace = export->trace;
	uint64_t from_ns = export->from_ns > trace->first_ns ? export->from_ns : trace->first_ns;
	uint64_t to_ns = export->to_ns && export->to_ns < trace->last_ns ? export->to_ns :
									   trace->last_ns;
	uint8_t id[KY_OTLP_TRACE_BYTES];

	ky_otlp_ids_derive_trace(&profiles->ids, "profile", from_ns + export->kind, id);
	put_type(profiles);
	ky_proto_fixed64(&profiles->writer->item, PROFILE_TIME, ky_trace_unix_ns(trace, from_ns));
	ky_proto_number(&profiles->writer->item, PROFILE_DURATION,
			to_ns > from_ns ? to_ns - from_ns : 0);
	ky_proto_bytes(&profiles->writer->item, PROFILE_ID, id, sizeof(id));
}

static int put_profile(struct profiles *profiles)
{
	struct ky_export *export = profiles->export;
	const struct ky_samples *samples = &export->trace->samples;
	struct ky_export_part parts[KY_STATES];
	int result = add_threads(profiles);

	if (result)
		return result;
	add_reasons(profiles);
	put_head(profiles);
	for (uint32_t i = 0; i < samples->row_count; i++) {
		uint32_t count = 0;

		if (ky_export_has(export, &samples->rows[i]))
			count = ky_export_parts(export, &samples->rows[i], parts);
		for (uint32_t k = 0; k < count; k++)
			put_sample(profiles, &samples->rows[i], &parts[k]);
	}
	ky_proto_message(&profiles->writer->scope, SCOPE_PROFILES, &profiles->writer->item);
	ky_free(profiles->threads);
	profiles->threads = NULL;
	return 0;
}

static int put_profiles(struct profiles *profiles, uint64_t *profile_count)
{
	struct ky_export *export = profiles->export;
	int result = 0;

	for (uint32_t kind = 0; !result && kind <= KY_STACK_ALLOC; kind++) {
		export->kind = kind;
		result = ky_export_prepare(export);
		if (!result && export->row_count) {
			result = put_profile(profiles);
			(*profile_count)++;
		}
		ky_export_release(export);
	}
	return result;
}

int ky_otlp_profiles(struct ky_buf *out, struct ky_export *export, uint64_t *profile_count)
{
	const struct ky_otlp otlp = {
		.trace = export->trace, .clean = export->clean, .clean_ctx = export->clean_ctx};
	struct ky_otlp_writer writer;
	struct profiles profiles = {.export = export, .writer = &writer};
	struct ky_buf dictionary;
	int result, ended;

	*profile_count = 0;
	ky_buf_init(&dictionary, 0);
	ky_otlp_begin(&writer, &otlp);
	begin_dictionary(&profiles);
	result = ky_otlp_ids_make(&profiles.ids, export->trace);
	if (!result)
		result = put_profiles(&profiles, profile_count);
	for (uint32_t i = 0; i < TABLES; i++) {
		result = result ? result : profiles.tables[i].failed;
		(void)ky_buf_append(&dictionary, profiles.tables[i].bytes, profiles.tables[i].used);
		ky_buf_release(&profiles.tables[i]);
	}
	ended = ky_otlp_end(&writer, out, false);
	ky_proto_message(out, REQUEST_DICTIONARY, &dictionary);
	ky_buf_release(&dictionary);
	ky_otlp_ids_release(&profiles.ids);
	return result ? result : ended ? ended : out->failed;
}
