/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/wasm/unpack.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <lanes/wasm/viewer.h>
#include <stdbool.h>
#include <string.h>
#include <zstd.h>

#define WINDOW_BYTES (1u << 20)
#define WINDOW_LOG_MAX 27

struct unpack {
	uint64_t file_bytes, at;
	ZSTD_DCtx *zstd; /* NULL: the file is not packed */
	uint8_t *window;
	ZSTD_inBuffer in;
	bool is_inside; /* a frame has begun and not ended */
	bool has_failed;
};

static int64_t read_file(struct unpack *unpack, uint8_t *out, size_t capacity)
{
	uint64_t left = unpack->file_bytes - unpack->at;
	uint32_t count = capacity < WINDOW_BYTES ? (uint32_t)capacity : WINDOW_BYTES;
	int32_t got;

	if (count > left)
		count = (uint32_t)left;
	if (!count)
		return 0;
	got = kymo_host_read((double)unpack->at, out, count);
	if (got < 0 || (uint32_t)got > count)
		return -EIO;
	unpack->at += (uint32_t)got;
	return got;
}

static int64_t raw_read(void *ctx, uint8_t *out, size_t capacity)
{
	return read_file(ctx, out, capacity);
}

static int64_t zstd_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct unpack *unpack = ctx;
	ZSTD_outBuffer room = {.dst = out, .size = capacity};

	while (!room.pos && !unpack->has_failed) {
		size_t result;

		if (unpack->in.pos == unpack->in.size) {
			int64_t got = read_file(unpack, unpack->window, WINDOW_BYTES);

			if (got < 0)
				return got;
			if (!got)
				return unpack->is_inside ? KYMO_E_TRUNCATED : 0;
			unpack->in = (ZSTD_inBuffer){.src = unpack->window, .size = (size_t)got};
		}
		result = ZSTD_decompressStream(unpack->zstd, &room, &unpack->in);
		unpack->has_failed = ZSTD_isError(result) != 0;
		unpack->is_inside = result != 0;
	}
	if (!room.pos && unpack->has_failed)
		return KYMO_E_CORRUPT;
	return (int64_t)room.pos;
}

static int seek(void *ctx, uint64_t offset)
{
	struct unpack *unpack = ctx;

	if (unpack->zstd && offset)
		return -EINVAL;
	if (offset > unpack->file_bytes)
		return -EINVAL;
	unpack->at = offset;
	if (unpack->zstd) {
		ZSTD_DCtx_reset(unpack->zstd, ZSTD_reset_session_only);
		unpack->in = (ZSTD_inBuffer){0};
		unpack->is_inside = unpack->has_failed = false;
	}
	return 0;
}

static void close(void *ctx)
{
	struct unpack *unpack = ctx;

	ZSTD_freeDCtx(unpack->zstd);
	ky_free(unpack->window);
	ky_free(unpack);
}

int ky_unpack_open(struct ky_byte_source *out, uint64_t file_bytes, const char *name)
{
	static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
	struct unpack *unpack = ky_alloc(sizeof(*unpack));
	uint8_t first[4] = {0};

	if (!unpack)
		return -ENOMEM;
	unpack->file_bytes = file_bytes;
	*out = (struct ky_byte_source){.read = raw_read,
				       .seek = seek,
				       .close = close,
				       .ctx = unpack,
				       .name = name,
				       .container = "raw",
				       .stored_bytes = file_bytes};
	if (read_file(unpack, first, sizeof(first)) == sizeof(first) &&
	    !memcmp(first, magic, sizeof(magic))) {
		out->read = zstd_read;
		out->container = "zstd";
		unpack->zstd = ZSTD_createDCtx();
		unpack->window = ky_alloc(WINDOW_BYTES);
		if (!unpack->zstd || !unpack->window) {
			close(unpack);
			return -ENOMEM;
		}
		ZSTD_DCtx_setParameter(unpack->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	}
	unpack->at = 0;
	return 0;
}
