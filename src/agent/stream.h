/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stream.h - stream mode of the library: a drain over the ring, and where its chunks go (segments
 * in a directory, one file, or a function).

 * Invariant: left for flight mode and taken up again it writes no record twice, and none is missing
 * that the ring still held; what was overwritten in between is told as LossEvent `flight`.
 * Threads: owner, but for the three words at the end.
 */
#ifndef KY_AGENT_STREAM_H
#define KY_AGENT_STREAM_H

#include <agent/output.h>
#include <drain/drain.h>
#include <drain/pace.h>
#include <ring/ring_view.h>
#include <record/emit/ring_file.h>
#include <proc/proc_look.h>

struct ky_stream {
	/* set by the owner before the first step */
	const struct ky_agent_options *options;
	void (*fetch_samples)(void *ctx); /* of struct ky_drain_options */
	void *fetch_ctx;
	bool is_file_taken; /* by the parent, or by this process */

	struct ky_drain *drain;
	struct ky_ring_view view; /* of the ring it drains */
	struct ky_drain_pace pace;
	struct ky_proc_look proc;      /* this process; open as long as there is a drain */
	bool is_paused;                /* left for flight mode: sealed, and nothing is read */
	struct ky_agent_output output; /* while there is a drain */
	int32_t last_error;            /* atomic; the first */
};

/* A ky_agent_event_fn that keeps the first error; ctx is the stream. */
void ky_stream_event(void *ctx, const struct ky_agent_event *event);

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
