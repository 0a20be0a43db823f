/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/byte_source.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

struct memory {
	const uint8_t *bytes;
	size_t count;
	size_t at;
};

static int64_t memory_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct memory *memory = ctx;
	size_t left = memory->count - memory->at;
	size_t count = left < capacity ? left : capacity;

	if (count)
		memcpy(out, memory->bytes + memory->at, count);
	memory->at += count;
	return (int64_t)count;
}

static int memory_seek(void *ctx, uint64_t offset)
{
	struct memory *memory = ctx;

	if (offset > memory->count)
		return -EINVAL;
	memory->at = (size_t)offset;
	return 0;
}

int ky_byte_source_memory(struct ky_byte_source *out, const void *bytes, size_t count,
			  const char *name)
{
	struct memory *memory = ky_alloc(sizeof(*memory));

	memset(out, 0, sizeof(*out));
	if (!memory)
		return -ENOMEM;
	memory->bytes = bytes;
	memory->count = count;
	out->read = memory_read;
	out->seek = memory_seek;
	out->close = ky_free;
	out->ctx = memory;
	out->name = name;
	out->container = "raw";
	out->stored_bytes = count;
	return 0;
}
