/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <stdlib.h>
#include <string.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_process.h>

#define SLICE_BYTES 3072u

/* The piece of the stack that was read last. */
struct slice {
	uint32_t pid;
	uint64_t start;
	size_t bytes;
	uint8_t data[SLICE_BYTES];
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

static bool read_slice(void *ctx, uint64_t address, uint64_t *out)
{
	struct slice *slice = ctx;
	uint64_t at = address - slice->start;

	if (address < slice->start || at > slice->bytes || slice->bytes - at < sizeof(*out)) {
		slice->start = address;
		slice->bytes = ky_unwind_read_process(&slice->pid, address, slice->data,
						      sizeof(slice->data));
		at = 0;
		if (slice->bytes < sizeof(*out))
			return false;
	}
	memcpy(out, slice->data + at, sizeof(*out));
	return true;
}

void ky_unwind_process(struct ky_walk *walk, const struct ky_unwind_view *view, uint32_t pid,
		       const struct ky_walk_start *start)
{
	struct slice slice;
	const struct ky_walk_memory memory = {.read = read_slice, .ctx = &slice};

	slice.pid = pid;
	slice.start = slice.bytes = 0;
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
