/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_sink.h - a trace that goes to the host's function instead of a file, compressed.
 *
 * Errors:      the first one of the function ends it: nothing can be dropped of what is gone.
 * Threads:     owner.
 */
#ifndef KY_SHIP_TRACE_SINK_H
#define KY_SHIP_TRACE_SINK_H

#include <ship/compressor.h>
#include <wire/chunk.h>

struct ky_trace_sink;

/* Returns 0; the compressor's error; -ENOMEM. */
int ky_trace_sink_open(struct ky_trace_sink **out, const struct ky_compressor_factory *factory,
		       ky_write_fn write, void *write_ctx);
/* A ky_chunk_fn: ctx is the sink. Returns 0; the first error, for ever. */
int ky_trace_sink_chunk(void *ctx, const struct ky_chunk *chunk);
/* Ends the compression, where something was written and nothing failed: passes on what comes after
 * the last chunk. Nothing is written afterwards. Returns 0; the first error. */
int ky_trace_sink_end(struct ky_trace_sink *sink);
/* The same, unless it was done already. Returns 0; the first error. close(NULL) is fine. */
int ky_trace_sink_close(struct ky_trace_sink *sink);

uint64_t ky_trace_sink_bytes(const struct ky_trace_sink *sink); /* passed on so far */

#endif
