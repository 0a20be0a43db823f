/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/stream.h>

#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <record/emit/emit_engine.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS_NS UINT64_C(1000000)
/* Each step takes a core from the host's threads: few, large ones. */
#define PACE_NS (1000 * MS_NS)
#define LOOK_NS (100 * MS_NS) /* at how much there is */
#define STORE_RETRY_NS (1000 * MS_NS)
#define DRAIN_MEMORY_BYTES (6u << 20)
#define TRACE_DIRECTORY_DEFAULT "./kymo-traces"

static void note_error(struct ky_stream *stream, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(&stream->last_error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- how far it has got, for whoever recovers ---- */

/* As its reader takes it: absolute, and of the moment the store was opened, for the host may change
 * its directory. Without a path a recovery tells everything that the ring holds. */
static void note_path(struct ky_stream *stream)
{
	struct ky_ring_drained *progress = stream->progress;
	struct ky_store_stats stats;
	char link[40];
	ssize_t bytes;
	int fd;

	if (!progress)
		return;
	ky_store_stats(stream->store, &stats);
	fd = open(stats.run_directory, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	atomic_store_explicit(&progress->path_bytes, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	bytes = readlink(link, progress->path, sizeof(progress->path));
	close(fd);
	if (bytes > 0 && (size_t)bytes < sizeof(progress->path))
		atomic_store_explicit(&progress->path_bytes, (uint32_t)bytes, memory_order_release);
}

/* Before the chunk is written. Goes on counting where an earlier stream over this ring ended. */
static void note_chunk(struct ky_stream *stream, const struct ky_chunk *chunk)
{
	struct ky_ring_drained *progress = stream->progress;
	uint64_t hand;
	uint32_t at;

	if (!progress)
		return;
	hand = atomic_load_explicit(&progress->chunk_hand, memory_order_relaxed);
	at = hand % KY_DRAINED_CHUNKS;
	atomic_store_explicit(&progress->chunks[at].last_ns, chunk->last_ns, memory_order_relaxed);
	atomic_store_explicit(&progress->chunks[at].last_ticks, chunk->last_ticks,
			      memory_order_relaxed);
	atomic_store_explicit(&progress->chunks[at].last_ties, chunk->last_ties,
			      memory_order_relaxed);
	atomic_store_explicit(&progress->chunk_hand, hand + 1, memory_order_release);
}

/* ---- where chunks go ---- */

/* Opened with the first chunk: a process that records nothing leaves nothing. */
static int open_store(struct ky_stream *stream)
{
	const struct kymo_recorder_options *options = &ky_engine.options;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct ky_store_options store = {
		.file = stream->trace_file[0] ? stream->trace_file : NULL,
		.file_further_pid = stream->file_further_pid,
		.directory = ky_engine.trace_directory[0] ? ky_engine.trace_directory :
							    TRACE_DIRECTORY_DEFAULT,
		.service = ky_engine.service,
		.run = stream->run_name,
		.stage = stream->stage,
		.segment_bytes_max = options->segment_bytes_max,
		.rotate_interval_ns = options->rotate_interval_ns,
		.total_bytes_max = options->total_bytes_max,
	};
	int err;

	if (now_ns < stream->store_retry_ns)
		return -EAGAIN;
	stream->store_retry_ns = now_ns + STORE_RETRY_NS;
	err = ky_store_open(&stream->store, &store);
	if (!err)
		note_path(stream);
	return err;
}

static int sink_chunk(struct ky_stream *stream, const struct ky_chunk *chunk)
{
	int err = 0;

	if (!stream->sink)
		err = ky_trace_sink_open(&stream->sink, stream->stage, stream->write,
					 stream->write_ctx);
	if (!err)
		err = ky_trace_sink_chunk(stream->sink, chunk);
	return err;
}

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_stream *stream = ctx;
	int err = 0;

	if (stream->write) {
		err = sink_chunk(stream, chunk);
	} else {
		if (!stream->store)
			err = open_store(stream);
		if (!err) {
			note_chunk(stream, chunk);
			err = ky_store_chunk(stream->store, chunk);
		}
	}
	if (err != -EAGAIN)
		note_error(stream, err);
	return err;
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
		.chunk = take_chunk,
		.chunk_ctx = stream,
		.memory_bytes_max = DRAIN_MEMORY_BYTES,
		.source = "C API",
		.count_thread = count_thread,
		.count_ctx = stream,
		.fetch_samples = stream->fetch_samples,
		.fetch_ctx = stream->fetch_ctx,
		.retain = &everything,
	};
	int err;

	ky_store_run_name(stream->run_name, sizeof(stream->run_name), ring->header->boot_id,
			  ring->header->pid, ring->start_time_ticks);
	stream->progress = ring->side ? &ring->side->drained : NULL;
	err = ky_ring_view_open(&stream->view, ring->base, ring->mapped_bytes);
	if (!err)
		err = ky_drain_open(&stream->drain, &options);
	ky_drain_pace_begin(&stream->pace, ky_now_ns(CLOCK_MONOTONIC));
	if (!err)
		ky_proc_look_open(&stream->proc, NULL, NULL, 0, 0);
	return err;
}

static void update_status(struct ky_stream *stream)
{
	struct ky_store_stats stats;

	if (stream->sink)
		__atomic_store_n(&stream->bytes_written,
				 stream->bytes_before + ky_trace_sink_bytes(stream->sink),
				 __ATOMIC_RELAXED);
	if (!stream->store)
		return;
	ky_store_stats(stream->store, &stats);
	__atomic_store_n(&stream->segments_sealed, stream->sealed_before + stats.segments_sealed,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&stream->bytes_written, stream->bytes_before + stats.bytes_stored,
			 __ATOMIC_RELAXED);
	note_error(stream, stats.last_error);
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
		update_status(stream);
	}
	if (stream->store && ky_store_wants_seal(stream->store, now_ns)) {
		note_error(stream, ky_drain_seal(stream->drain));
		update_status(stream);
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
	update_status(stream);
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
	if (stream->sink)
		note_error(stream, ky_trace_sink_end(stream->sink));
	update_status(stream);
	ky_drain_close(stream->drain);
	ky_proc_look_close(&stream->proc);
	stream->drain = NULL;
	stream->is_paused = false;
	stream->progress = NULL;
	ky_store_close(stream->store);
	stream->store = NULL;
	note_error(stream, ky_trace_sink_close(stream->sink));
	stream->sink = NULL;
	stream->store_retry_ns = 0;
	stream->sealed_before = stream->segments_sealed;
	stream->bytes_before = stream->bytes_written;
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
	stream->progress = NULL;
	stream->store = NULL;
	stream->sink = NULL;
	stream->store_retry_ns = 0;
	stream->sealed_before = stream->bytes_before = 0;
	stream->segments_sealed = stream->bytes_written = 0;
	stream->last_error = 0;
}
