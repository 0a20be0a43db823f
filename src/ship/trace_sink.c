/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/trace_sink.h>

#include <base/alloc.h>
#include <errno.h>
#include <stdbool.h>

struct ky_trace_sink {
	struct ky_compressor compressor;
	ky_write_fn write;
	void *write_ctx;
	uint64_t bytes;
	bool has_chunk;
	int err;
};

static int pass_on(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_trace_sink *sink = ctx;
	int err = sink->write(sink->write_ctx, bytes, count);

	if (err > 0) /* not ours to interpret; nothing says how much of it was taken */
		err = -EIO;
	if (!err)
		sink->bytes += count;
	return err;
}

int ky_trace_sink_open(struct ky_trace_sink **out, const struct ky_compressor_factory *factory,
		       ky_write_fn write, void *write_ctx)
{
	struct ky_trace_sink *sink = ky_alloc(sizeof(*sink));
	int err;

	*out = NULL;
	if (!sink)
		return -ENOMEM;
	sink->write = write;
	sink->write_ctx = write_ctx;
	err = factory->open(factory, &sink->compressor);
	if (err) {
		ky_free(sink);
		return err;
	}
	*out = sink;
	return 0;
}

int ky_trace_sink_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_trace_sink *sink = ctx;

	if (sink->err)
		return sink->err;
	sink->has_chunk = true;
	sink->err = sink->compressor.write(sink->compressor.self, chunk->bytes, chunk->byte_count,
					   pass_on, sink);
	return sink->err;
}

int ky_trace_sink_end(struct ky_trace_sink *sink)
{
	if (!sink->err && sink->has_chunk)
		sink->err = sink->compressor.finish(sink->compressor.self, pass_on, sink);
	sink->has_chunk = false;
	return sink->err;
}

int ky_trace_sink_close(struct ky_trace_sink *sink)
{
	int err;

	if (!sink)
		return 0;
	err = ky_trace_sink_end(sink);
	sink->compressor.close(sink->compressor.self);
	ky_free(sink);
	return err;
}

uint64_t ky_trace_sink_bytes(const struct ky_trace_sink *sink)
{
	return sink->bytes;
}
