/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <stdlib.h>
#include <string.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_process.h>

#define STACK_BYTES 2560u
#define CODE_BYTES 64u
#define STACK_SPAN (UINT64_C(64) << 20)

/* The piece of the stack that was read last, and of what lies elsewhere: code, mostly. */
struct piece {
	uint64_t start;
	size_t bytes;
};

struct pieces {
	uint32_t pid;
	uint64_t sp;
	struct piece stack, code;
	uint8_t stack_data[STACK_BYTES], code_data[CODE_BYTES];
};

bool ky_unwind_view_of(const uint8_t *image, uint64_t image_bytes, struct ky_unwind_view *out)
{
	const struct ky_ring_header *header = (const struct ky_ring_header *)(const void *)image;
	uint64_t offset, bytes;

	out->area = NULL;
	out->area_bytes = 0;
	if (image_bytes < sizeof(*header) ||
	    atomic_load_explicit(&header->unwind_ready, memory_order_acquire) != 1)
		return false;
	offset = header->unwind_offset;
	bytes = header->unwind_bytes;
	if (offset == 0 || offset % 64 || offset > image_bytes || bytes > image_bytes - offset ||
	    bytes < sizeof(struct ky_unwind_head))
		return false;
	out->area = image + offset;
	out->area_bytes = bytes;
	return true;
}

static bool read_piece(void *ctx, uint64_t address, uint64_t *out)
{
	struct pieces *pieces = ctx;
	bool is_stack = address - pieces->sp < STACK_SPAN;
	struct piece *piece = is_stack ? &pieces->stack : &pieces->code;
	uint8_t *data = is_stack ? pieces->stack_data : pieces->code_data;
	uint64_t at = address - piece->start;

	if (address < piece->start || at > piece->bytes || piece->bytes - at < sizeof(*out)) {
		piece->start = address;
		piece->bytes = ky_unwind_read_process(&pieces->pid, address, data,
						      is_stack ? STACK_BYTES : CODE_BYTES);
		at = 0;
		if (piece->bytes < sizeof(*out))
			return false;
	}
	memcpy(out, data + at, sizeof(*out));
	return true;
}

void ky_unwind_process(struct ky_walk *walk, const struct ky_unwind_view *view, uint32_t pid,
		       const struct ky_walk_start *start)
{
	struct pieces pieces;
	const struct ky_walk_memory memory = {.read = read_piece, .ctx = &pieces};

	pieces.pid = pid;
	pieces.sp = start->sp;
	pieces.stack.start = pieces.stack.bytes = 0;
	pieces.code.start = pieces.code.bytes = 0;
	ky_unwind_walk(walk, view, &memory, start);
}

/* "202 0x7f… 0x80 … 0xSP 0xPC", "running", or "-1 0xSP 0xPC". */
bool ky_unwind_syscall_line(const char *line, int64_t *number, struct ky_walk_start *out)
{
	uint64_t words[9];
	uint32_t count = 0;
	char *end;

	memset(out, 0, sizeof(*out));
	*number = strtoll(line, &end, 10);
	if (end == line)
		return false;
	while (count < 9 && *end == ' ') {
		const char *from = end + 1;

		words[count] = strtoull(from, &end, 16);
		if (end == from)
			return false;
		count++;
	}
	if (count < 2)
		return false;
	out->sp = words[count - 2];
	out->pc = words[count - 1];
	return true;
}
