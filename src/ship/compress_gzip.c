/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One gzip member per segment: what dial9's own viewer reads. Flushed at every chunk, so that
 * a segment truncated after a chunk gives everything up to there. */
#include <ship/compressor.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <limits.h>
#include <stdbool.h>
#include <zlib.h>

#define LEVEL_DEFAULT 1
#define WINDOW_GZIP (15 + 16)
#define MEMORY_LEVEL 8
#define OUT_BYTES 65536u

/* Of a member: fixed block with nothing but its end, then checksum and length. */
#define TRAILER_BYTES 10u

struct gzip_compressor {
	z_stream stream;
	bool is_open;
	/* A chunk did not get through: the member ends after the one before it, and the stream's
	 * own state is past that. */
	bool is_broken;
	uint32_t crc;       /* of the chunks of this member that got through */
	uint64_t raw_bytes; /* of them */
	uint8_t out[OUT_BYTES];
};

static void gzip_close(void *compressor)
{
	struct gzip_compressor *self = compressor;

	if (!self)
		return;
	if (self->is_open)
		deflateEnd(&self->stream);
	ky_free(self);
}

static int run(struct gzip_compressor *self, int flush, ky_write_fn out, void *ctx)
{
	int err, state;

	do {
		self->stream.next_out = self->out;
		self->stream.avail_out = OUT_BYTES;
		state = deflate(&self->stream, flush);
		if (state == Z_STREAM_ERROR)
			return -EIO;
		err = out(ctx, self->out, OUT_BYTES - self->stream.avail_out);
		if (err)
			return err;
	} while (self->stream.avail_out == 0);
	return 0;
}

/* Every chunk that got through ends at a byte, so the end of the member can be set after it. */
static int end_broken(struct gzip_compressor *self, ky_write_fn out, void *ctx)
{
	uint8_t trailer[TRAILER_BYTES] = {3, 0};

	for (uint32_t i = 0; i < 4; i++) {
		trailer[2 + i] = (uint8_t)(self->crc >> 8 * i);
		trailer[6 + i] = (uint8_t)(self->raw_bytes >> 8 * i);
	}
	return self->raw_bytes ? out(ctx, trailer, sizeof(trailer)) : 0;
}

static int gzip_write(void *compressor, const uint8_t *chunk, size_t chunk_bytes, ky_write_fn out,
		      void *ctx)
{
	struct gzip_compressor *self = compressor;
	bool was_broken = self->is_broken;
	int err;

	if (chunk_bytes > UINT_MAX)
		return KYMO_E_LIMIT;
	if (was_broken) {
		err = end_broken(self, out, ctx);
		if (err)
			return err;
		deflateReset(&self->stream);
	}
	self->stream.next_in = (z_const Bytef *)(uintptr_t)chunk;
	self->stream.avail_in = (uInt)chunk_bytes;
	self->is_broken = true;
	err = run(self, Z_SYNC_FLUSH, out, ctx);
	if (err)
		return err;
	self->is_broken = false;
	self->crc = (uint32_t)self->stream.adler; /* the checksum so far, in a gzip stream */
	self->raw_bytes = (was_broken ? 0 : self->raw_bytes) + chunk_bytes;
	return 0;
}

static int gzip_finish(void *compressor, ky_write_fn out, void *ctx)
{
	struct gzip_compressor *self = compressor;

	if (self->is_broken)
		return end_broken(self, out, ctx);
	self->stream.avail_in = 0;
	return run(self, Z_FINISH, out, ctx);
}

static int gzip_open(const struct ky_compressor_factory *self, struct ky_compressor *out)
{
	struct gzip_compressor *compressor = ky_alloc(sizeof(*compressor));

	if (!compressor)
		return -ENOMEM;
	if (deflateInit2(&compressor->stream, self->level, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		gzip_close(compressor);
		return -ENOMEM;
	}
	compressor->is_open = true;
	*out = (struct ky_compressor){gzip_write, gzip_finish, gzip_close, compressor};
	return 0;
}

void ky_compressor_gzip(struct ky_compressor_factory *out, int level)
{
	*out = (struct ky_compressor_factory){".gz", gzip_open,
					      level <= 0 ? LEVEL_DEFAULT :
					      level > 9  ? 9 :
							   level};
}
