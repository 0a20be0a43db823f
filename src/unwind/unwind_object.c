/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/base.h>
#include <string.h>
#include <unwind/unwind_object.h>

#define PAGE UINT64_C(4096)
#define SEGMENTS_READ_MAX 256u

/* The ELF of 64 bits, little-endian: what we need of it (elf.h is not everywhere). */
enum {
	PT_IS_LOAD = 1,
	PT_IS_EH_FRAME = 0x6474e550,
	PF_IS_CODE = 1,
	ET_IS_EXEC = 2,
	ET_IS_DYN = 3
};
#if defined(__aarch64__)
#define OWN_MACHINE 183
#else
#define OWN_MACHINE 62
#endif

struct elf_header {
	uint8_t ident[16];
	uint16_t type, machine;
	uint32_t version;
	uint64_t entry, program_offset, section_offset;
	uint32_t flags;
	uint16_t header_bytes, program_bytes, program_count;
	uint16_t section_bytes, section_count, section_names;
};

struct program_header {
	uint32_t type, flags;
	uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};

_Static_assert(sizeof(struct elf_header) == 64, "as in the file");
_Static_assert(sizeof(struct program_header) == 56, "as in the file");

/* The window with so many bytes from there on, or a fresh one with as many as there are. */
static struct ky_unwind_window *window_of(struct ky_unwind_object *object, uint64_t at,
					  size_t bytes)
{
	struct ky_unwind_window *window;

	for (uint32_t i = 0; i < KY_UNWIND_WINDOWS; i++) {
		window = &object->windows[i];
		if (at - window->start < window->bytes &&
		    bytes <= window->bytes - (at - window->start))
			return window;
	}
	window = &object->windows[object->next_window++ % KY_UNWIND_WINDOWS];
	window->start = at;
	window->bytes = object->read(object->ctx, at, window->data, sizeof(window->data));
	if (window->bytes > sizeof(window->data))
		window->bytes = 0;
	return window;
}

/* Through the windows: entries lie one after the other, mostly. */
static size_t read_raw(struct ky_unwind_object *object, uint64_t at, void *out, size_t bytes)
{
	struct ky_unwind_window *window;
	size_t count;

	if (bytes > KY_UNWIND_WINDOW_BYTES / 2)
		return object->read(object->ctx, at, out, bytes);
	window = window_of(object, at, bytes);
	count = window->bytes - (size_t)(at - window->start);
	if (count > bytes)
		count = bytes;
	memcpy(out, window->data + (at - window->start), count);
	return count;
}

/* Where the bytes at an address as linked lie, and how many there are; 0: none. */
static uint64_t find_linked(const struct ky_unwind_object *object, uint64_t address,
			    uint64_t *bytes)
{
	for (uint32_t i = 0; i < object->segment_count; i++) {
		const struct ky_unwind_segment *segment = &object->segments[i];
		uint64_t at = address - segment->address;

		if (address < segment->address || at >= segment->file_bytes)
			continue;
		*bytes = segment->file_bytes - at;
		return object->is_memory ? object->bias + address : segment->offset + at;
	}
	*bytes = 0;
	return 0;
}

/* For the machine: at an address as linked. */
static size_t read_linked(void *ctx, uint64_t address, void *out, size_t bytes)
{
	struct ky_unwind_object *object = ctx;
	uint64_t there, at = find_linked(object, address, &there);

	return there ? read_raw(object, at, out, bytes < there ? bytes : (size_t)there) : 0;
}

static const uint8_t *borrow_linked(void *ctx, uint64_t address, size_t *bytes)
{
	struct ky_unwind_object *object = ctx;
	uint64_t there, at = find_linked(object, address, &there);
	const struct ky_unwind_window *window;
	size_t skipped;

	*bytes = 0;
	if (!there)
		return NULL;
	window = window_of(object, at, 1);
	if (!window->bytes)
		return NULL;
	skipped = (size_t)(at - window->start);
	*bytes = window->bytes - skipped < there ? window->bytes - skipped : (size_t)there;
	return window->data + skipped;
}

static void take_segment(struct ky_unwind_object *object, const struct program_header *from)
{
	if (from->type == PT_IS_EH_FRAME) {
		object->source.header = from->address;
		object->source.header_bytes = from->file_bytes;
	}
	if (from->type != PT_IS_LOAD || object->segment_count == KY_UNWIND_SEGMENTS_MAX)
		return;
	object->segments[object->segment_count++] = (struct ky_unwind_segment){
		.address = from->address,
		.memory_bytes = from->memory_bytes,
		.offset = from->offset,
		.file_bytes = from->file_bytes,
		.is_code = (from->flags & PF_IS_CODE) != 0};
}

int ky_unwind_object_init(struct ky_unwind_object *object, ky_unwind_read_fn read, void *ctx,
			  bool is_memory, uint64_t image)
{
	static const uint8_t ident[] = {0x7f, 'E', 'L', 'F', 2, 1};
	struct elf_header header;
	struct program_header segment;

	memset(object, 0, offsetof(struct ky_unwind_object, windows));
	for (uint32_t i = 0; i < KY_UNWIND_WINDOWS; i++)
		object->windows[i].bytes = 0;
	object->next_window = 0;
	object->read = read;
	object->ctx = ctx;
	object->is_memory = is_memory;
	object->image = image;
	object->source.read = read_linked;
	object->source.borrow = borrow_linked;
	object->source.ctx = object;
	if (read_raw(object, image, &header, sizeof(header)) != sizeof(header))
		return KYMO_E_TRUNCATED;
	if (memcmp(header.ident, ident, sizeof(ident)) != 0 || header.machine != OWN_MACHINE ||
	    (header.type != ET_IS_EXEC && header.type != ET_IS_DYN))
		return KYMO_E_UNSUPPORTED;
	if (header.program_bytes != sizeof(segment))
		return KYMO_E_CORRUPT;
	for (uint32_t i = 0; i < header.program_count && i < SEGMENTS_READ_MAX; i++) {
		if (read_raw(object, image + header.program_offset + (uint64_t)i * sizeof(segment),
			     &segment, sizeof(segment)) != sizeof(segment))
			return KYMO_E_TRUNCATED;
		take_segment(object, &segment);
	}
	/* What is loaded at the image is what the file begins with. */
	for (uint32_t i = 0; is_memory && i < object->segment_count; i++)
		if (object->segments[i].offset < PAGE)
			object->bias = image -
				       (object->segments[i].address - object->segments[i].offset);
	return object->segment_count ? 0 : KYMO_E_CORRUPT;
}

bool ky_unwind_object_bias(const struct ky_unwind_object *object, uint64_t mapped_at,
			   uint64_t mapped_offset, uint64_t *bias)
{
	/* A mapping starts at a page; so does what the file has there, up to the rest of the page,
	 * which two segments may share. */
	for (uint32_t i = 0; i < object->segment_count; i++) {
		const struct ky_unwind_segment *segment = &object->segments[i];

		if (!segment->is_code || (segment->offset & ~(PAGE - 1)) > mapped_offset ||
		    mapped_offset >= segment->offset + segment->file_bytes)
			continue;
		*bias = mapped_at - mapped_offset + segment->offset - segment->address;
		return true;
	}
	return false;
}
