/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* profile.proto: ten message types of varints and strings. `go tool pprof` reads the result in a
 * test.
 */
#include <analyze/share.h>
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <export/proto.h>
#include <read/sort.h>
#include <string.h>

/* Field numbers of profile.proto. */
enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14
};

/* Strings of its own; those of the code follow. */
enum own_string {
	TEXT_EMPTY,
	TEXT_SAMPLES,
	TEXT_COUNT,
	TEXT_CPU,
	TEXT_NANOSECONDS,
	TEXT_OFF_CPU,
	TEXT_WAITING,
	TEXT_SPACE,
	TEXT_OBJECTS,
	TEXT_BYTES,
	TEXT_TASK,
	TEXT_THREAD,
	TEXT_KIND,
	TEXT_NO_STACK,
	TEXT_REASON,
	TEXT_STATE,
	TEXT_EITHER, /* enum ky_export_state from here on */
	TEXT_BLOCKED,
	TEXT_RUNNABLE,
	TEXT_OWN_COUNT
};
static const char *const own_strings[TEXT_OWN_COUNT] = {"",
							"samples",
							"count",
							"cpu",
							"nanoseconds",
							"off_cpu",
							"waiting",
							"space",
							"objects",
							"bytes",
							"task",
							"thread",
							"kind",
							"(no stack)",
							"reason",
							"state",
							"blocked incl. run queue",
							"blocked",
							"runnable"};

struct pprof_encoder {
	const struct ky_export *export;
	struct ky_buf *out;
	struct ky_buf part, inner; /* messages inside messages */
	struct ky_buf strings;     /* offset and bytes of each */
	uint32_t string_count;
	uint32_t *mapping_of; /* by number of the module: id */
	uint32_t *reasons;    /* by number of the reason: its string */
	uint32_t mapping_count;
};

static void put_part(struct pprof_encoder *encoder, uint32_t field)
{
	ky_proto_bytes(encoder->out, field, encoder->part.bytes, encoder->part.used);
	ky_buf_clear(&encoder->part);
}

/* Index of a new string; the table allows that one stands there twice. */
static uint64_t add_string(struct pprof_encoder *encoder, const char *text)
{
	const struct ky_export *export = encoder->export;

	if (export->clean)
		text = export->clean(export->clean_ctx, text);
	ky_proto_bytes(&encoder->strings, PROFILE_STRING_TABLE, text, strlen(text));
	return encoder->string_count++;
}

static void put_value_type(struct pprof_encoder *encoder, uint32_t field, uint32_t type,
			   uint32_t unit)
{
	ky_proto_number(&encoder->part, 1, type);
	ky_proto_number(&encoder->part, 2, unit);
	put_part(encoder, field);
}

static void put_types(struct pprof_encoder *encoder)
{
	static const uint32_t types[] = {TEXT_CPU, TEXT_OFF_CPU, TEXT_WAITING, TEXT_SPACE};
	const struct ky_export *export = encoder->export;
	bool is_heap = export->kind == KY_STACK_ALLOC;

	put_value_type(encoder, PROFILE_SAMPLE_TYPE, is_heap ? TEXT_OBJECTS : TEXT_SAMPLES,
		       TEXT_COUNT);
	if (!export->is_counted)
		put_value_type(encoder, PROFILE_SAMPLE_TYPE, types[export->kind],
			       is_heap ? TEXT_BYTES : TEXT_NANOSECONDS);
	ky_proto_number(encoder->out, PROFILE_DEFAULT_SAMPLE_TYPE,
			export->is_counted ? TEXT_SAMPLES : types[export->kind]);
}

static void put_label(struct pprof_encoder *encoder, uint32_t key, uint64_t text, uint64_t number)
{
	ky_proto_number(&encoder->inner, 1, key);
	ky_proto_number(&encoder->inner, 2, text);
	ky_proto_number(&encoder->inner, 3, number);
	ky_proto_bytes(&encoder->part, 3, encoder->inner.bytes, encoder->inner.used);
	ky_buf_clear(&encoder->inner);
}

static void put_locations_of(struct pprof_encoder *encoder, uint32_t of)
{
	const struct ky_export *export = encoder->export;
	const struct ky_stack *stack;

	if (of == KY_NONE)
		return;
	stack = &export->trace->samples.stacks[of];
	for (uint32_t i = stack->first; i < stack->first + stack->count; i++)
		ky_proto_varint(&encoder->inner, (uint64_t) export->code->frame_spots[i] + 1);
}

/* For pprof's -tagfocus, -tags and -tagleaf. */
static void put_reason(struct pprof_encoder *encoder, const struct ky_export_part *part)
{
	if (part->reason == KY_NONE)
		return;
	put_label(encoder, TEXT_REASON, encoder->reasons[part->reason], 0);
	put_label(encoder, TEXT_STATE, TEXT_EITHER + (uint64_t)part->state, 0);
}

/* One sample a part of a row: pprof merges those of one stack and label. */
static void put_part_of(struct pprof_encoder *encoder, const struct ky_stack_row *row,
			const struct ky_export_part *part, uint64_t kind_name)
{
	const struct ky_export *export = encoder->export;
	const struct ky_trace *trace = export->trace;

	put_locations_of(encoder, row->stack);
	if (!encoder->inner.used)
		ky_proto_varint(&encoder->inner, (uint64_t) export->code->spot_count + 1);
	ky_proto_bytes(&encoder->part, 1, encoder->inner.bytes, encoder->inner.used);
	ky_buf_clear(&encoder->inner);
	ky_proto_varint(&encoder->inner, part->count);
	if (!export->is_counted)
		ky_proto_varint(&encoder->inner, part->value);
	ky_proto_bytes(&encoder->part, 2, encoder->inner.bytes, encoder->inner.used);
	ky_buf_clear(&encoder->inner);
	if (row->tid)
		put_label(encoder, TEXT_THREAD, 0, row->tid);
	if (row->task != KY_NONE)
		put_label(encoder, TEXT_TASK, 0, trace->tasks[row->task].id);
	if (kind_name)
		put_label(encoder, TEXT_KIND, kind_name, 0);
	put_reason(encoder, part);
	put_part(encoder, PROFILE_SAMPLE);
}

static int name_reasons(struct pprof_encoder *encoder)
{
	const struct ky_export *export = encoder->export;
	char cell[KY_EXPORT_CELL_BYTES];
	uint8_t kind;

	encoder->reasons = ky_alloc((export->reason_count + 1u) * sizeof(*encoder->reasons));
	if (!encoder->reasons)
		return -ENOMEM;
	for (uint32_t i = 0; i < export->reason_count; i++)
		encoder->reasons[i] = (uint32_t)add_string(
			encoder, ky_export_reason_name(cell, export, i, &kind));
	return 0;
}

static int put_rows(struct pprof_encoder *encoder)
{
	const struct ky_trace *trace = encoder->export->trace;
	struct ky_export_part parts[KY_STATES];
	size_t names = (size_t)ky_trace_name_count(trace) + 1;
	uint32_t *kinds = ky_alloc(names * sizeof(*kinds)), i;

	if (!kinds)
		return -ENOMEM;
	for (i = 0; i < trace->samples.row_count && !encoder->out->failed; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		uint64_t kind = 0;
		uint32_t count, k;

		if (!ky_export_has(encoder->export, row))
			continue;
		if (row->name < names - 1) {
			if (!kinds[row->name])
				kinds[row->name] = (uint32_t)add_string(
					encoder, ky_trace_name(trace, row->name));
			kind = kinds[row->name];
		}
		count = ky_export_parts(encoder->export, row, parts);
		for (k = 0; k < count; k++)
			put_part_of(encoder, row, &parts[k], kind);
	}
	ky_free(kinds);
	return encoder->out->failed;
}

static int put_mappings(struct pprof_encoder *encoder)
{
	static const char digits[] = "0123456789abcdef";
	const struct ky_code_map *map = ky_symbol_table_map(encoder->export->symbols);
	uint32_t i;

	encoder->mapping_of = ky_alloc(((size_t)map->count + 1) * sizeof(uint32_t));
	if (!encoder->mapping_of)
		return -ENOMEM;
	encoder->mapping_count = map->count;
	for (i = 0; i < map->count; i++) {
		const struct ky_code_module *module = &map->modules[i];
		const uint8_t *build_id = map->texts.bytes + module->build_id;
		uint32_t k, bytes = module->build_id_bytes < 32 ? module->build_id_bytes : 32;
		char text[65];

		for (k = 0; k < bytes; k++) {
			text[2 * k] = digits[build_id[k] >> 4];
			text[2 * k + 1] = digits[build_id[k] & 15];
		}
		text[2 * k] = '\0';
		if (module->number < map->count)
			encoder->mapping_of[module->number] = i + 1;
		ky_proto_number(&encoder->part, 1, i + 1);
		ky_proto_number(&encoder->part, 2, module->start);
		ky_proto_number(&encoder->part, 3, module->end);
		ky_proto_number(&encoder->part, 4, module->file_offset);
		ky_proto_number(&encoder->part, 5,
				add_string(encoder, ky_code_module_path(map, module)));
		ky_proto_number(&encoder->part, 6, bytes ? add_string(encoder, text) : 0);
		for (k = 7; k <= 10; k++) /* names, files, lines, inlines: nothing to look up */
			ky_proto_number(&encoder->part, k, 1);
		put_part(encoder, PROFILE_MAPPING);
	}
	return 0;
}

static void put_locations(struct pprof_encoder *encoder)
{
	const struct ky_code_stacks *code = encoder->export->code;
	uint32_t i, k;

	for (i = 0; i <= code->spot_count; i++) {
		const struct ky_code_spot *spot = i < code->spot_count ? &code->spots[i] : NULL;

		ky_proto_number(&encoder->part, 1, (uint64_t)i + 1);
		if (spot && spot->module < encoder->mapping_count)
			ky_proto_number(&encoder->part, 2, encoder->mapping_of[spot->module]);
		ky_proto_number(&encoder->part, 3, spot ? spot->address : 0);
		for (k = 0; k < (spot ? spot->count : 1); k++) {
			const struct ky_code_line *line = spot ? &code->lines[spot->first + k] :
								 NULL;

			ky_proto_number(&encoder->inner, 1,
					line ? (uint64_t)line->function + 1 :
					       (uint64_t)code->function_count + 1);
			ky_proto_number(&encoder->inner, 2, line ? line->line : 0);
			ky_proto_bytes(&encoder->part, 4, encoder->inner.bytes,
				       encoder->inner.used);
			ky_buf_clear(&encoder->inner);
		}
		put_part(encoder, PROFILE_LOCATION);
	}
}

static void put_functions(struct pprof_encoder *encoder)
{
	const struct ky_code_stacks *code = encoder->export->code;
	uint32_t i;

	for (i = 0; i <= code->function_count; i++) {
		const struct ky_code_line *line = i < code->function_count ?
							  &code->lines[code->function_lines[i]] :
							  NULL;
		uint64_t name = line ? add_string(encoder, line->name) : TEXT_NO_STACK;

		ky_proto_number(&encoder->part, 1, (uint64_t)i + 1);
		/* No system_name: where both are the same, pprof takes the name for one of C++
		 * and cuts what stands in angle brackets, so that all of Rust's <T as Future>::poll
		 * become one function.
		 */
		ky_proto_number(&encoder->part, 2, name);
		if (line && *line->file)
			ky_proto_number(&encoder->part, 4, add_string(encoder, line->file));
		put_part(encoder, PROFILE_FUNCTION);
	}
}

static void put_times(struct pprof_encoder *encoder)
{
	const struct ky_export *export = encoder->export;
	uint64_t from_ns = export->from_ns, to_ns = export->to_ns;

	if (from_ns < export->trace->first_ns)
		from_ns = export->trace->first_ns;
	if (!to_ns || to_ns > export->trace->last_ns)
		to_ns = export->trace->last_ns;
	ky_proto_number(encoder->out, PROFILE_TIME_NANOS, ky_trace_unix_ns(export->trace, from_ns));
	ky_proto_number(encoder->out, PROFILE_DURATION_NANOS,
			to_ns > from_ns ? to_ns - from_ns : 0);
}

int ky_export_pprof(struct ky_buf *out, const struct ky_export *export)
{
	struct pprof_encoder encoder = {.export = export, .out = out};
	int result;

	ky_buf_init(&encoder.part, 0);
	ky_buf_init(&encoder.inner, 0);
	ky_buf_init(&encoder.strings, 0);
	for (uint32_t i = 0; i < TEXT_OWN_COUNT; i++)
		add_string(&encoder, own_strings[i]);
	put_types(&encoder);
	put_times(&encoder);
	result = put_mappings(&encoder);
	if (result == 0) {
		put_locations(&encoder);
		put_functions(&encoder);
		result = name_reasons(&encoder);
	}
	if (result == 0)
		result = put_rows(&encoder);
	ky_buf_append(out, encoder.strings.bytes, encoder.strings.used);
	if (result == 0)
		result = encoder.part.failed    ? encoder.part.failed :
			 encoder.inner.failed   ? encoder.inner.failed :
			 encoder.strings.failed ? encoder.strings.failed :
						  out->failed;
	ky_free(encoder.mapping_of);
	ky_free(encoder.reasons);
	ky_buf_release(&encoder.part);
	ky_buf_release(&encoder.inner);
	ky_buf_release(&encoder.strings);
	return result;
}
