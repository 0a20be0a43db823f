/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Hostile call frame information and code, made into tables.
 * Promises: nothing is written outside of the room there is; what is made is sorted and without
 * two rows for one place; the block index finds what a look at every row finds; code without
 * information is read within its bounds.
 *
 * The input: as of fuzz_unwind, where the stack is the code, at CODE. */
#include "eh_frame_table.h"
#include "fuzz_target.h"

#include <kymo/base.h>
#include <unwind/plain_code.h>
#include <unwind/unwind_build.h>
#include <unwind/unwind_table.h>

#define CODE 0x10000u
#define CODE_BYTES 0x2000u
#define PREFIX_BYTES (1u + 18u * 8u + 2u)
#define OFFSET 65536u
#define ROOM_BYTES (1u << 20)

struct input {
	uint8_t image[HEADER_BYTES + FRAMES_BYTES_MAX];
	size_t image_bytes;
	const uint8_t *code;
	size_t code_bytes;
	uint64_t end_offset;
	_Alignas(8) uint8_t area[ROOM_BYTES];
};

static size_t read_at(void *ctx, uint64_t address, void *out, size_t bytes)
{
	const struct input *input = ctx;
	const uint8_t *from = input->image;
	uint64_t base = FRAMES - HEADER_BYTES, count = input->image_bytes;

	if (address < base) {
		from = input->code;
		base = CODE;
		count = input->code_bytes;
	}
	if (address < base || address - base >= count)
		return 0;
	if (bytes > count - (address - base))
		bytes = (size_t)(count - (address - base));
	memcpy(out, from + (address - base), bytes);
	return bytes;
}

static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	struct input *input = ctx;

	FUZZ_CHECK(offset >= OFFSET && offset <= input->end_offset);
	FUZZ_CHECK(count <= input->end_offset - offset);
	memcpy(input->area + (offset - OFFSET), bytes, count);
	return 0;
}

static const void *place_of(const struct input *input, uint64_t offset)
{
	return input->area + (offset - OFFSET);
}

static void check(const struct input *input, const struct ky_unwind_built *built)
{
	struct ky_unwind_code code = {.base = built->base,
				      .blocks = place_of(input, built->blocks_offset),
				      .rows = place_of(input, built->rows_offset),
				      .wides = place_of(input, built->wide_offset),
				      .block_count = built->block_count,
				      .row_count = built->row_count,
				      .wide_count = built->wide_count};
	struct ky_unwind_wide wide;
	uint32_t row = 0;

	FUZZ_CHECK(built->end_offset <= input->end_offset);
	FUZZ_CHECK(built->row_count > 0 && code.rows[0].pc == 0);
	for (uint32_t i = 1; i < built->row_count; i++)
		FUZZ_CHECK(code.rows[i].pc > code.rows[i - 1].pc);
	for (uint32_t pc = 0; pc < CODE_BYTES; pc++) {
		while (row + 1 < code.row_count && code.rows[row + 1].pc <= pc)
			row++;
		FUZZ_CHECK(ky_unwind_rule_at(&code, built->base + pc, &wide) ==
			   code.rows[row].rule);
	}
}

static void read_plain(const uint8_t *code, size_t bytes)
{
	struct ky_plain plain;

	FUZZ_CHECK(ky_plain_padding(code, bytes) <= bytes);
	if (ky_plain_read(code, bytes, &plain) != 0)
		return;
	FUZZ_CHECK(plain.bytes > 0 && plain.bytes <= bytes);
	FUZZ_CHECK(plain.row_count > 0 && plain.row_count <= KY_PLAIN_ROWS_MAX);
	for (uint32_t i = 0; i < plain.row_count; i++)
		FUZZ_CHECK(plain.rows[i].at < plain.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static struct ky_unwind_builder builder;
	static struct input input;
	struct ky_cfi_source source = {.read = read_at, .ctx = &input};
	struct ky_unwind_built built;
	uint16_t frames_bytes;
	bool is_whole;

	if (count < PREFIX_BYTES)
		return 0;
	is_whole = (bytes[0] & 1) != 0;
	memcpy(&frames_bytes, bytes + PREFIX_BYTES - 2, 2);
	/* Little room, by the register that nothing else looks at here. */
	input.end_offset = OFFSET + (bytes[0] & 2 ? bytes[1] * 16u : ROOM_BYTES);
	bytes += PREFIX_BYTES;
	count -= PREFIX_BYTES;
	if (frames_bytes > count || frames_bytes > FRAMES_BYTES_MAX)
		return 0;
	memset(input.image, 0, HEADER_BYTES);
	memcpy(input.image + HEADER_BYTES, bytes, frames_bytes);
	input.image_bytes = HEADER_BYTES + frames_bytes;
	input.code = bytes + frames_bytes;
	input.code_bytes = count - frames_bytes;
	source.header = is_whole ? FRAMES : FRAMES - HEADER_BYTES;
	source.header_bytes = is_whole ? frames_bytes :
					 make_table(input.image, bytes, frames_bytes);
	read_plain(input.code, input.code_bytes);
	ky_cfi_reset(&builder.machine);
	if (ky_unwind_build(&builder, &source, CODE, CODE + CODE_BYTES, OFFSET, input.end_offset,
			    put, &input, &built) == 0)
		check(&input, &built);
	return 0;
}
