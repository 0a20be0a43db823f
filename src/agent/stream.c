/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/stream.h>

#include <base/now.h>
#include <record/emit/emit_engine.h>

#define MS_NS UINT64_C(1000000)
/* Each step takes a core from the host's threads: few, large ones. */
#define PACE_NS (1000 * MS_NS)
#define LOOK_NS (100 * MS_NS) /* at how much there is */
#define DRAIN_MEMORY_BYTES (6u << 20)

static void note_error(struct ky_stream *stream, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(&stream->last_error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void ky_stream_event(void *ctx, const struct ky_agent_event *event)
{
	note_error(ctx, event->error);
}

static bool count_thread(void *ctx, uint32_t tid, struct ky_thread_cpu *out)
{
	const struct ky_stream *stream = ctx;

	return !ky_engine_is_under_filter() && ky_proc_look_counts(&stream->proc, tid, out);
}

static int open_drain(struct ky_stream *stream, const struct ky_ring *ring)
{
	/* All of it, until the ring's settings say otherwise. */
	static const struct ky_retain_policy everything;
	struct ky_drain_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.chunk = ky_agent_output_chunk,
		.chunk_ctx = &stream->output,
		.memory_bytes_max = DRAIN_MEMORY_BYTES,
		.source = "C API",
		.count_thread = count_thread,
		.count_ctx = stream,
		.fetch_samples = stream->fetch_samples,
		.fetch_ctx = stream->fetch_ctx,
		.retain = &everything,
	};
	int err;

	ky_agent_output_init(&stream->output, stream->options, ring->header,
			     &(const struct ky_ring_access){.base = ring->base},
			     &stream->is_file_taken);
	err = ky_ring_view_open(&stream->view, ring->base, ring->mapped_bytes);
	if (!err)
		err = ky_drain_open(&stream->drain, &options);
	ky_drain_pace_begin(&stream->pace, ky_now_ns(CLOCK_MONOTONIC));
	if (!err)
		ky_proc_look_open(&stream->proc, NULL, NULL, 0, 0);
	return err;
}

static void note_store(struct ky_stream *stream)
{
	note_error(stream, atomic_load_explicit(&stream->output.store_error, memory_order_relaxed));
}

/* Segments of a directory take up where they were left; a file or a function has one stream. */
static int take_up(struct ky_stream *stream, const struct ky_ring *ring)
{
	int err = stream->drain ? 0 : open_drain(stream, ring);

	if (!err && stream->is_paused) {
		ky_drain_resume(stream->drain);
		stream->pace.due_ns = 0;
	}
	stream->is_paused = false;
	return err;
}

uint64_t ky_stream_step(struct ky_stream *stream, const struct ky_ring *ring)
{
	int err = take_up(stream, ring);
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (err) {
		note_error(stream, err);
		return LOOK_NS;
	}
	if (ky_drain_pace_is_due(&stream->pace, &stream->view, now_ns)) {
		ky_drain_pace_step(&stream->pace, &stream->view, now_ns, PACE_NS);
		note_error(stream, ky_drain_step(stream->drain, 0));
		note_store(stream);
	}
	if (ky_agent_output_wants_seal(&stream->output, now_ns)) {
		note_error(stream, ky_drain_seal(stream->drain));
		note_store(stream);
	}
	return ky_drain_pace_rest(&stream->pace, ky_now_ns(CLOCK_MONOTONIC), LOOK_NS);
}

void ky_stream_pause(struct ky_stream *stream)
{
	if (!stream->drain || stream->is_paused)
		return;
	note_error(stream, ky_drain_step(stream->drain, 0));
	note_error(stream, ky_drain_seal(stream->drain));
	stream->is_paused = true;
	note_store(stream);
}

void ky_stream_end(struct ky_stream *stream)
{
	if (!stream->drain)
		return;
	if (!stream->is_paused) {
		note_error(stream, ky_drain_step(stream->drain, KY_DRAIN_FINAL));
		note_error(stream, ky_drain_seal(stream->drain));
	}
	ky_drain_last_word(stream->drain);
	note_store(stream);
	ky_agent_output_close(&stream->output);
	ky_drain_close(stream->drain);
	ky_proc_look_close(&stream->proc);
	stream->drain = NULL;
	stream->is_paused = false;
}

void ky_stream_finish(struct ky_stream *stream, const struct ky_ring *ring)
{
	note_error(stream, take_up(stream, ring));
	ky_stream_end(stream);
}

void ky_stream_forget(struct ky_stream *stream)
{
	if (stream->drain) /* a descriptor of the parent's folder, in our table */
		ky_proc_look_close(&stream->proc);
	stream->drain = NULL;
	stream->is_paused = false;
	ky_agent_output_forget(&stream->output);
	stream->last_error = 0;
}
