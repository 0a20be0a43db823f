/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/symbol_rows.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/symbol_table.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_enc.h>

/* An address as it is written: with a window where modules took turns at it. */
struct ky_symbol_target {
	uint64_t address, time_ns;
	uint64_t from_ns, to_ns; /* 0, UINT64_MAX: always */
	uint32_t module;
	bool is_named;
};

/* ---- which addresses ---- */

static int collect(void *ctx, const struct ky_event *event)
{
	struct ky_symbol_rows *rows = ctx;

	return ky_code_addresses_event(&rows->addresses, event->schema, event->values,
				       event->has_timestamp ? event->timestamp_ns : 0);
}

/* The stack of a crash is in no event: it is walked whenever it is read. */
static int collect_crashes(struct ky_symbol_rows *rows)
{
	struct ky_crash_stack stack;
	int err = 0;

	for (uint32_t i = 0; i < rows->symbols.crash_count && !err; i++) {
		if (ky_trace_symbols_crash(&rows->symbols, i, &stack))
			continue;
		for (uint32_t j = 0; j < stack.count && !err; j++)
			err = ky_code_addresses_add(&rows->addresses, stack.frames[j],
						    rows->symbols.crashes[i].time_ns);
	}
	return err;
}

static int add_target(struct ky_symbol_rows *rows, const struct ky_symbol_target *target)
{
	if (ky_grow(&rows->targets, &rows->target_capacity, rows->target_count + 1,
		    sizeof(*target)))
		return -ENOMEM;
	rows->targets[rows->target_count++] = *target;
	return 0;
}

/* Modules took turns at this address: one target for each that was there while it was seen. */
static int add_shared(struct ky_symbol_rows *rows, const struct ky_code_address *address)
{
	const struct ky_code_map *map = ky_symbol_table_map(rows->symbols.table);
	int err = 0;

	for (uint32_t i = 0; i < map->count && !err; i++) {
		const struct ky_code_module *module = &map->modules[i];
		struct ky_symbol_target target = {
			.address = address->address,
			.time_ns = module->from_ns > address->first_ns ? module->from_ns :
									 address->first_ns,
			.from_ns = module->from_ns,
			.to_ns = module->to_ns,
			.module = module->number,
		};

		if (address->address < module->start || address->address >= module->end ||
		    target.time_ns >= module->to_ns ||
		    (address->last_ns && module->from_ns > address->last_ns))
			continue;
		err = add_target(rows, &target);
	}
	return err;
}

static int add_targets(struct ky_symbol_rows *rows)
{
	struct ky_code_map *map = ky_symbol_table_map(rows->symbols.table);
	int err = 0;

	for (uint32_t i = 0; i < rows->addresses.count && !err; i++) {
		const struct ky_code_address *address = &rows->addresses.list[i];
		struct ky_symbol_target target = {.address = address->address,
						  .time_ns = address->first_ns,
						  .to_ns = UINT64_MAX};
		struct ky_code_place place;
		bool is_shared;

		ky_code_map_find(map, address->address, address->first_ns, &place, &is_shared);
		target.module = place.module;
		err = is_shared ? add_shared(rows, address) : add_target(rows, &target);
	}
	return err;
}

int ky_symbol_rows_open(struct ky_symbol_rows *rows, struct ky_input *input,
			const struct ky_trace_symbols_options *options)
{
	struct ky_trace_symbols_options sorted = *options;
	int result;

	sorted.is_sorted = true; /* ky_symbol_rows_name() does so */
	result = ky_trace_symbols_open(&rows->symbols, input, &sorted, collect, rows);
	if (!result)
		result = collect_crashes(rows);
	if (!result)
		result = add_targets(rows);
	if (!result && rows->addresses.refused_count)
		result = KYMO_E_LIMIT;
	if (result && !input->error[0])
		(void)ky_input_fail(input, result, "%s: too many addresses", input->arguments[0]);
	return result;
}

/* By module, so that each file is opened once. */
static int compare(const void *a, const void *b)
{
	const struct ky_symbol_target *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static void count_unnamed(struct ky_symbol_rows *rows, const struct ky_symbol_target *target,
			  uint32_t why)
{
	bool is_kernel = target->address >= KY_CODE_KERNEL_START;
	struct ky_symbol_unnamed *row = rows->unnamed;

	rows->not_named++;
	for (uint32_t i = 0; i < rows->unnamed_count; i++, row++) {
		if (row->module == target->module && row->why == why &&
		    row->is_kernel == is_kernel) {
			row->count++;
			return;
		}
	}
	if (rows->unnamed_count == KY_SYMBOL_UNNAMED_MAX)
		return;
	rows->unnamed[rows->unnamed_count++] = (struct ky_symbol_unnamed){target->module, why, 1,
									  is_kernel};
}

/* Which of the kernel's names are needed: its list has hundreds of thousands. Without memory for
 * that it is kept whole, or has none either. */
static void expect_kernel(struct ky_symbol_rows *rows)
{
	uint64_t *addresses = rows->target_count ?
				      ky_alloc(rows->target_count * sizeof(*addresses)) :
				      NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; addresses && i < rows->target_count; i++)
		if (rows->targets[i].address >= KY_CODE_KERNEL_START &&
		    (!count || rows->targets[i].address > addresses[count - 1]))
			addresses[count++] = rows->targets[i].address;
	if (addresses && rows->symbols.symbolizer)
		(void)ky_symbolizer_expect(rows->symbols.symbolizer, addresses, count);
	ky_free(addresses);
}

void ky_symbol_rows_name(struct ky_symbol_rows *rows)
{
	if (rows->target_count > 1)
		qsort(rows->targets, rows->target_count, sizeof(*rows->targets), compare);
	expect_kernel(rows);
	for (uint32_t i = 0; i < rows->target_count; i++) {
		struct ky_symbol_target *target = &rows->targets[i];
		const struct ky_symbol_frame *frames;
		uint32_t count;

		if (ky_symbol_table_has(rows->symbols.table, target->address, target->time_ns)) {
			rows->had++;
			continue;
		}
		count = ky_symbol_table_find(rows->symbols.table, target->address, target->time_ns,
					     &frames);
		target->is_named = frames[0].why == KY_SYMBOL_FOUND;
		rows->named += target->is_named;
		rows->row_count += target->is_named ? count : 0;
		if (!target->is_named)
			count_unnamed(rows, target, frames[0].why);
	}
}

/* ---- writing ---- */

struct symbol_writer {
	struct ky_trc_enc enc;
	struct ky_buf bytes;
	struct ky_redact *redact;
	ky_chunk_fn chunk;
	void *ctx;
};

static uint32_t put_text(struct symbol_writer *writer, const char *text)
{
	struct ky_slice seen = {(const void *)text, strlen(text)};

	if (writer->redact) {
		seen = ky_redact_name(writer->redact, seen);
		if (writer->redact->text.failed)
			writer->bytes.failed = writer->redact->text.failed;
	}
	return ky_trc_enc_string(&writer->enc, 0, (const char *)seen.bytes, seen.count);
}

static void put_row(struct symbol_writer *writer, const struct ky_symbol_entry *entry)
{
	uint32_t name = put_text(writer, entry->name), file = put_text(writer, entry->file);
	struct ky_trc_enc *enc = &writer->enc;

	ky_trc_enc_event(enc, KY_EV_SYMBOL, 0);
	ky_trc_enc_varint(enc, entry->address);
	ky_trc_enc_varint(enc, entry->code_bytes);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_varint(enc, entry->depth);
	ky_trc_enc_u32(enc, file);
	ky_trc_enc_varint(enc, entry->line);
	ky_trc_enc_opt_varint(enc, entry->from_ns != 0, entry->from_ns);
	ky_trc_enc_opt_varint(enc, entry->to_ns != UINT64_MAX, entry->to_ns);
}

static int pass_on(struct symbol_writer *writer)
{
	struct ky_chunk chunk = {
		.bytes = writer->bytes.bytes,
		.byte_count = writer->bytes.used,
		.event_count = writer->enc.event_count,
	};
	int result = writer->bytes.failed;

	if (!result && writer->enc.event_count)
		result = writer->chunk(writer->ctx, &chunk);
	ky_buf_clear(&writer->bytes);
	ky_trc_enc_begin(&writer->enc);
	return result;
}

static int put_entry(struct symbol_writer *writer, const struct ky_symbol_entry *entry)
{
	size_t bound = strlen(entry->name) + strlen(entry->file) + 1024;

	if (writer->enc.event_count && (writer->enc.event_count >= KY_CHUNK_EVENTS_MAX ||
					writer->bytes.used + bound > KY_CHUNK_BYTES_MAX)) {
		int result = pass_on(writer);

		if (result)
			return result;
	}
	put_row(writer, entry);
	return writer->bytes.failed;
}

static int put_target(struct ky_symbol_rows *rows, struct symbol_writer *writer,
		      const struct ky_symbol_target *target)
{
	const struct ky_symbol_frame *frames;
	uint32_t count = ky_symbol_table_find(rows->symbols.table, target->address, target->time_ns,
					      &frames);
	int result = 0;

	for (uint32_t i = count; i-- > 0 && !result;) { /* the outermost first */
		struct ky_symbol_entry entry = {
			.address = target->address,
			.code_bytes = frames[i].code_bytes,
			.depth = frames[i].depth,
			.from_ns = target->from_ns,
			.to_ns = target->to_ns,
			.name = frames[i].name,
			.file = frames[i].file,
			.line = frames[i].line,
		};

		result = put_entry(writer, &entry);
	}
	return result;
}

/* All of them in one place: those that stood in the trace, then the new ones. */
int ky_symbol_rows_write(void *ctx, ky_chunk_fn chunk, void *chunk_ctx)
{
	struct ky_symbol_rows *rows = ctx;
	struct symbol_writer writer = {.redact = rows->redact, .chunk = chunk, .ctx = chunk_ctx};
	struct ky_symbol_entry entry;
	int result;

	ky_buf_init(&writer.bytes, 0);
	result = ky_trc_enc_init(&writer.enc, &writer.bytes);
	if (!result)
		ky_trc_enc_begin(&writer.enc);
	for (uint32_t i = 0; !result && ky_symbol_table_entry(rows->symbols.table, i, &entry); i++)
		result = put_entry(&writer, &entry);
	for (uint32_t i = 0; i < rows->target_count && !result; i++)
		if (rows->targets[i].is_named)
			result = put_target(rows, &writer, &rows->targets[i]);
	if (!result)
		result = pass_on(&writer);
	ky_trc_enc_release(&writer.enc);
	ky_buf_release(&writer.bytes);
	return result;
}

bool ky_symbol_rows_keep(void *ctx, const struct ky_event *event)
{
	(void)ctx;
	return event->schema->event != KY_EV_SYMBOL;
}

const char *ky_symbol_rows_place(struct ky_symbol_rows *rows,
				 const struct ky_symbol_unnamed *unnamed)
{
	const struct ky_code_map *map = ky_symbol_table_map(rows->symbols.table);

	for (uint32_t i = 0; i < map->count; i++)
		if (map->modules[i].number == unnamed->module)
			return ky_code_module_path(map, &map->modules[i]);
	return unnamed->is_kernel ? "kernel" : "";
}

void ky_symbol_rows_release(struct ky_symbol_rows *rows)
{
	ky_code_addresses_release(&rows->addresses);
	ky_trace_symbols_close(&rows->symbols);
	ky_free(rows->targets);
}
