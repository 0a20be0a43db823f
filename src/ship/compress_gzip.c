/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One gzip member per segment: what dial9's own viewer reads. Flushed at every chunk, so that
 * a segment cut behind a chunk gives everything up to there. */
#include <ship/stage.h>

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

struct gzip_stage {
	z_stream stream;
	bool is_open;
	uint8_t out[OUT_BYTES];
};

static void gzip_close(void *stage)
{
	struct gzip_stage *self = stage;

	if (!self)
		return;
	if (self->is_open)
		deflateEnd(&self->stream);
	ky_free(self);
}

static int run(struct gzip_stage *self, int flush, ky_write_fn out, void *ctx)
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

static int gzip_write(void *stage, const uint8_t *chunk, size_t chunk_bytes, ky_write_fn out,
		      void *ctx)
{
	struct gzip_stage *self = stage;

	if (chunk_bytes > UINT_MAX)
		return KYMO_E_LIMIT;
	self->stream.next_in = (z_const Bytef *)(uintptr_t)chunk;
	self->stream.avail_in = (uInt)chunk_bytes;
	return run(self, Z_SYNC_FLUSH, out, ctx);
}

static int gzip_finish(void *stage, ky_write_fn out, void *ctx)
{
	struct gzip_stage *self = stage;

	self->stream.avail_in = 0;
	return run(self, Z_FINISH, out, ctx);
}

static int gzip_open(const struct ky_stage_factory *self, struct ky_stage *out)
{
	struct gzip_stage *stage = ky_alloc(sizeof(*stage));

	if (!stage)
		return -ENOMEM;
	if (deflateInit2(&stage->stream, self->level, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		gzip_close(stage);
		return -ENOMEM;
	}
	stage->is_open = true;
	*out = (struct ky_stage){gzip_write, gzip_finish, gzip_close, stage};
	return 0;
}

void ky_stage_gzip(struct ky_stage_factory *out, int level)
{
	*out = (struct ky_stage_factory){".gz", gzip_open,
					 level <= 0 ? LEVEL_DEFAULT :
					 level > 9  ? 9 :
						      level};
}
