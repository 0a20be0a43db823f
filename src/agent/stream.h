/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stream.h - stream mode of the library: a drain over the ring, and where its chunks go (segments
 * in a directory, one file, or a function).
 *
 * How far it has got stands in the ring (struct ky_ring_drained): a recovery of a killed process
 * goes on behind what is on disk. Not so with a function, whose bytes nobody here finds again.
 * Invariant: left for flight mode and taken up again it writes no record twice, and none is missing
 * that the ring still held; what was overwritten in between is told as LossEvent `flight`.
 * Threads: owner, but for the three words at the end.
 */
#ifndef KY_AGENT_STREAM_H
#define KY_AGENT_STREAM_H

#include <drain/drain.h>
#include <drain/pace.h>
#include <ring/ring_view.h>
#include <kymo/recorder.h>
#include <record/emit/ring_file.h>
#include <proc/proc_look.h>
#include <ship/store.h>
#include <ship/trace_sink.h>

struct ky_stream {
	/* set by the owner before the first step */
	const struct ky_stage_factory *stage;
	kymo_write_fn write; /* NULL: to disk */
	void *write_ctx;
	void (*fetch_samples)(void *ctx); /* of struct ky_drain_options */
	void *fetch_ctx;
	char trace_file[512];      /* "": segments in a directory */
	uint32_t file_further_pid; /* not 0: the name is the parent's */

	struct ky_drain *drain;
	struct ky_ring_view view; /* of the ring it drains */
	struct ky_drain_pace pace;
	struct ky_proc_look proc; /* this process; open as long as there is a drain */
	bool is_paused;           /* left for flight mode: sealed, and nothing is read */
	struct ky_store *store;
	struct ky_trace_sink *sink;
	uint64_t store_retry_ns;
	char run_name[64];
	struct ky_ring_drained *progress; /* in the ring, as long as the drain is over it */

	uint64_t sealed_before, bytes_before; /* by what was closed since */
	uint64_t segments_sealed;             /* atomic */
	uint64_t bytes_written;               /* atomic */
	int32_t last_error;                   /* atomic; the first */
};

/* One look at the ring; returns how long to wait for the next. */
uint64_t ky_stream_step(struct ky_stream *stream, const struct ky_ring *ring);

/* To flight mode: what is published is written, the segment sealed; the next step takes it up
 * again. No-op when nothing streams. */
void ky_stream_pause(struct ky_stream *stream);

/* Everything that is still in the ring unless it was left before, then the end of the segment.
 * No-op when nothing streams. */
void ky_stream_end(struct ky_stream *stream);

/* Takes everything even when no step came before. */
void ky_stream_finish(struct ky_stream *stream, const struct ky_ring *ring);

/* In a forked child: what the parent had open stays where it is, untouched. */
void ky_stream_forget(struct ky_stream *stream);

/* NULL while nothing streams. */
static inline struct ky_drain *ky_stream_drain(struct ky_stream *stream)
{
	return stream->is_paused ? NULL : stream->drain;
}

#endif
