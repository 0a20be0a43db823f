/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/base.h>
#include <string.h>
#include <unwind/plain_code.h>
#include <unwind/unwind_build.h>
#include <unwind/unwind_table.h>

/* Code begins at such an address; what is less than that after a function fills up. */
#define CODE_ALIGN UINT64_C(16)
#define RECENT_WIDES 64u
#define GAP_BYTES_MAX 4096u

static void put(struct ky_unwind_builder *builder, uint64_t offset, const void *bytes, size_t count)
{
	if (builder->error == 0 && count > 0)
		builder->error = builder->write(builder->write_ctx, offset, bytes, count);
}

static void flush_rows(struct ky_unwind_builder *builder)
{
	put(builder, builder->rows_offset + builder->rows_written * sizeof(builder->rows[0]),
	    builder->rows, builder->rows_waiting * sizeof(builder->rows[0]));
	builder->rows_written += builder->rows_waiting;
	builder->rows_waiting = 0;
}

static void flush_blocks(struct ky_unwind_builder *builder)
{
	put(builder, builder->blocks_offset + builder->blocks_written * sizeof(uint32_t),
	    builder->blocks, builder->blocks_waiting * sizeof(uint32_t));
	builder->blocks_written += builder->blocks_waiting;
	builder->blocks_waiting = 0;
}

/* Blocks that begin before pc belong to the row that is the last one so far. */
static void fill_blocks(struct ky_unwind_builder *builder, uint64_t pc)
{
	uint32_t done = builder->blocks_written + builder->blocks_waiting;

	for (; done < builder->block_count && (uint64_t)done * KY_UNWIND_BLOCK_BYTES < pc; done++) {
		builder->blocks[builder->blocks_waiting++] = builder->row_count - 1;
		if (builder->blocks_waiting == KY_UNWIND_ROWS_AT_ONCE)
			flush_blocks(builder);
	}
	builder->blocks_end = done < builder->block_count ? (uint64_t)done * KY_UNWIND_BLOCK_BYTES :
							    UINT64_MAX;
}

/* The newest row is settled: another one follows. */
static void settle(struct ky_unwind_builder *builder)
{
	if (builder->row_count > 0 && builder->last.pc > builder->blocks_end)
		fill_blocks(builder, builder->last.pc);
	if (builder->rows_offset + ((uint64_t)builder->row_count + 1) * sizeof(builder->rows[0]) >
	    builder->end_offset) {
		builder->error = builder->error ? builder->error : KYMO_E_LIMIT;
		return;
	}
	builder->rows[builder->rows_waiting++] = builder->last;
	builder->row_count++;
	if (builder->rows_waiting == KY_UNWIND_ROWS_AT_ONCE)
		flush_rows(builder);
}

/* In order of pc; what goes back is left out. */
static void add_row(struct ky_unwind_builder *builder, uint64_t address, uint32_t rule)
{
	uint32_t pc = (uint32_t)(address - builder->base);

	if (address < builder->base || address >= builder->limit ||
	    (builder->has_row && pc < builder->last.pc))
		return;
	if (builder->has_row && pc > builder->last.pc && rule == builder->last.rule)
		return;
	if (builder->has_row && pc > builder->last.pc)
		settle(builder);
	builder->has_row = true;
	builder->last = (struct ky_unwind_row){pc, rule};
}

static uint32_t add_wide(struct ky_unwind_builder *builder, const struct ky_unwind_wide *wide)
{
	uint32_t count = builder->wide_count;

	for (uint32_t i = count > RECENT_WIDES ? count - RECENT_WIDES : 0; i < count; i++)
		if (memcmp(&builder->wides[i], wide, sizeof(*wide)) == 0)
			return KY_UNWIND_WIDE | i << KY_UNWIND_KIND_BITS;
	if (count == KY_UNWIND_WIDES_MAX)
		return KY_UNWIND_BEYOND;
	builder->wides[builder->wide_count++] = *wide;
	return KY_UNWIND_WIDE | count << KY_UNWIND_KIND_BITS;
}

static void take_row(void *ctx, uint64_t pc, const struct ky_cfi_row *row)
{
	struct ky_unwind_builder *builder = ctx;
	struct ky_unwind_wide wide;
	uint32_t rule;

	if (pc >= builder->function_end)
		return;
	rule = ky_unwind_pack(row, builder->is_signal, &wide);
	if (rule == KY_UNWIND_WIDE)
		rule = add_wide(builder, &wide);
	add_row(builder, pc, rule);
}

/* What no entry describes: mostly filling; small functions in it are read as they stand. */
static void take_gap(struct ky_unwind_builder *builder, const struct ky_cfi_source *source,
		     uint64_t end)
{
	uint64_t at = builder->function_end;
	uint8_t code[KY_PLAIN_BYTES_MAX];
	struct ky_plain plain;

	add_row(builder, at, KY_UNWIND_NO_CODE);
	/* One function may stand there, or a few; in a desert there is none. */
	while (at < end && end - at <= GAP_BYTES_MAX) {
		size_t wanted = end - at < sizeof(code) ? (size_t)(end - at) : sizeof(code);
		size_t got = source->read(source->ctx, at, code, wanted);
		size_t filled = ky_plain_padding(code, got);

		at += filled;
		if (filled == got || at % CODE_ALIGN ||
		    ky_plain_read(code + filled, got - filled, &plain) != 0)
			return;
		for (uint32_t i = 0; i < plain.row_count; i++)
			add_row(builder, at + plain.rows[i].at, plain.rows[i].rule);
		at += plain.bytes;
		add_row(builder, at, KY_UNWIND_NO_CODE);
	}
}

/* One function. What lies between the one before and it belongs to none, unless it only fills
 * up. */
static bool take_function(struct ky_unwind_builder *builder, const struct ky_cfi_source *source,
			  uint64_t start, uint64_t address)
{
	struct ky_cfi_machine *machine = &builder->machine;
	uint64_t filled = (builder->function_end + CODE_ALIGN - 1) & ~(CODE_ALIGN - 1);
	uint64_t at;

	if (start > filled)
		take_gap(builder, source, start);
	if (!ky_cfi_begin(machine, source, address) || machine->start != start ||
	    machine->bytes > builder->limit - start) {
		add_row(builder, start, KY_UNWIND_BEYOND);
		builder->function_end = start + 1;
		return false;
	}
	if (machine->bytes == 0)
		return true;
	builder->function_end = start + machine->bytes;
	builder->is_signal = machine->is_signal;
	if (ky_cfi_rows(machine, take_row, builder))
		return true;
	/* From where it has got to; what it has reported before stands. */
	at = machine->location;
	add_row(builder, at > start && at < builder->function_end ? at : start, KY_UNWIND_BEYOND);
	return false;
}

/* Every function, by its start: so the table is sorted. */
static void take_functions(struct ky_unwind_builder *builder, const struct ky_cfi_source *source,
			   uint64_t table, uint64_t count, struct ky_unwind_built *out)
{
	for (uint64_t at = 0; at < count && builder->error == 0;) {
		uint64_t wanted = count - at < KY_UNWIND_PAIRS_AT_ONCE ? count - at :
									 KY_UNWIND_PAIRS_AT_ONCE;
		size_t got = source->read(source->ctx, table + at * KY_CFI_PAIR_BYTES,
					  builder->pairs, (size_t)wanted * KY_CFI_PAIR_BYTES) /
			     KY_CFI_PAIR_BYTES;

		if (got == 0)
			return;
		for (size_t i = 0; i < got && builder->error == 0; i++) {
			uint64_t start = ky_cfi_from_header(source, builder->pairs[i][0]);

			if (start < builder->base || start >= builder->limit)
				continue;
			out->function_count++;
			out->unknown_count += !take_function(
				builder, source, start,
				ky_cfi_from_header(source, builder->pairs[i][1]));
		}
		at += got;
	}
}

int ky_unwind_build(struct ky_unwind_builder *builder, const struct ky_cfi_source *source,
		    uint64_t code_start, uint64_t code_end, uint64_t offset, uint64_t end_offset,
		    ky_unwind_write_fn write, void *write_ctx, struct ky_unwind_built *out)
{
	uint64_t table, count, base = code_start & ~(uint64_t)(KY_UNWIND_BLOCK_BYTES - 1);

	memset(out, 0, sizeof(*out));
	memset(builder, 0, offsetof(struct ky_unwind_builder, blocks));
	if (!ky_cfi_index(source, &table, &count))
		return KYMO_E_UNSUPPORTED;
	if (code_end <= base || code_end - base > UINT32_MAX)
		return KYMO_E_LIMIT;
	builder->write = write;
	builder->write_ctx = write_ctx;
	builder->base = base;
	builder->limit = code_end;
	builder->end_offset = end_offset;
	builder->block_count = (uint32_t)((code_end - base + KY_UNWIND_BLOCK_BYTES - 1) /
					  KY_UNWIND_BLOCK_BYTES);
	builder->blocks_offset = offset;
	builder->rows_offset = (offset + builder->block_count * sizeof(uint32_t) + 7) &
			       ~UINT64_C(7);
	if (builder->rows_offset > end_offset)
		return KYMO_E_LIMIT;
	builder->function_end = base;
	add_row(builder, base, KY_UNWIND_NO_CODE);
	take_functions(builder, source, table, count, out);
	add_row(builder, builder->function_end, KY_UNWIND_NO_CODE);
	settle(builder);
	fill_blocks(builder, UINT64_MAX);
	flush_rows(builder);
	flush_blocks(builder);
	out->wide_offset = builder->rows_offset + builder->row_count * sizeof(builder->rows[0]);
	out->end_offset = out->wide_offset + builder->wide_count * sizeof(builder->wides[0]);
	if (out->end_offset > end_offset)
		builder->error = builder->error ? builder->error : KYMO_E_LIMIT;
	put(builder, out->wide_offset, builder->wides,
	    builder->wide_count * sizeof(builder->wides[0]));
	out->base = base;
	out->blocks_offset = builder->blocks_offset;
	out->rows_offset = builder->rows_offset;
	out->block_count = builder->block_count;
	out->row_count = builder->row_count;
	out->wide_count = builder->wide_count;
	return builder->error;
}
