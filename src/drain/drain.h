/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain.h - ring image in, merged time-sorted TRC chunks out. A step function: no thread, no
 * file, no clock of its own; used by the recorder's drain thread and by `kymo run`.
 *
 * Each step takes an anchor, sets T = its time - 1 ms, copies what was published since the
 * last step, holds a busy thread's stamps back for at most 200 ms, converts and merges
 * everything at or below the watermark, and gives out whole chunks.
 *
 * The image is untrusted: it may be truncated, hostile, or change under our eyes.
 * Threads: owner.   Memory: bounded by options.
 */
#ifndef KY_DRAIN_DRAIN_H
#define KY_DRAIN_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wire/chunk.h>
#include <wire/ring_image.h>
#include <wire/watch_note.h>

struct ky_drain;

/* Fills one anchor from the clocks the ring's process uses. Tests pass a fake one. */
typedef int (*ky_anchor_fn)(void *ctx, struct ky_clock_anchor *out);

/* What is written of one kind; the rest is counted. */
struct ky_retain_rule {
	uint64_t threshold_ns; /* polls, blocking runs at least so long, wakes so late; 0: all */
	uint32_t throttle;     /* ... and so many a second at most; 0: all */
};

struct ky_retain_policy {
	struct ky_retain_rule rules[KY_RETAIN_COUNT];
};

struct ky_drain_options {
	const uint8_t *image; /* the mapped ring file, at least its header */
	size_t image_bytes;
	ky_anchor_fn anchor; /* NULL: CLOCK_MONOTONIC and the CPU's counter of this machine */
	void *anchor_ctx;
	ky_name_fn name; /* NULL: texts of the directory only */
	void *name_ctx;
	ky_chunk_fn chunk; /* NULL: it observes (ky_drain_watch), and encodes nothing */
	void *chunk_ctx;
	size_t memory_bytes_max;    /* 0: 64 MiB of copied records; beyond: merge early */
	uint32_t tracked_tasks_max; /* 0: 1 Mi */
	/* Called in each step once its clock was read: a caller that has samples elsewhere puts
	 * them into the ring now, so that none is missing before the moment that the step merges
	 * up to. NULL: no samples lie elsewhere. */
	void (*fetch_samples)(void *ctx);
	void *fetch_ctx;
	const char *hostname; /* NULL: gethostname */
	/* What the kernel has counted for a thread of the ring's process; false: unreadable. NULL:
	 * there are no readings. Asked about each worker's thread once a second at most, or 100 ms
	 * after the last reading where a task was polled 10 ms and more after its wake. */
	bool (*count_thread)(void *ctx, uint32_t tid, struct ky_thread_cpu *out);
	void *count_ctx;
	const char *source; /* "tokio preload", "C API", ...: metadata kymo.source */
	/* How a stream begins; the ring's settings change it while it runs. NULL: everything is
	 * written, whatever the settings say. Copied. */
	const struct ky_retain_policy *retain;
	/* Another stream of this ring has all records up to this stamp, and so many of this very
	 * stamp: as of ky_cut_options. What the ring has overwritten since is lost. 0: none has. */
	uint64_t from_ticks;
	uint32_t from_ties;
};

enum ky_drain_step_flags {
	/* the writer is gone or closed: take everything, flush, report open polls */
	KY_DRAIN_FINAL = 1u << 0
};

struct ky_drain_stats {
	uint64_t records_read, records_lost, records_late, events_written, chunks_written;
	uint64_t records_dropped; /* of the lost ones: never written, by the header's count */
	/* Not among the lost ones: overwritten in flight mode, reported as LossEvent `flight`. */
	uint64_t records_flown;
	uint64_t chunks_refused;                /* by the sink */
	uint64_t samples_written, samples_lost; /* of the sample area; not among the records */
	uint64_t slots_skipped_corrupt;
	uint32_t threads, workers, tasks_alive;
	int last_sink_error;
};

/* Returns 0; KYMO_E_NOT_TRACE / _VERSION / _TRUNCATED / _CORRUPT about the image; -ENOMEM. */
int ky_drain_open(struct ky_drain **out, const struct ky_drain_options *options);
void ky_drain_close(struct ky_drain *drain);

/* One cycle. Returns 0 or -ENOMEM; trouble with the image is data (Loss), never an error.
 * The caller paces it (pace.h). */
int ky_drain_step(struct ky_drain *drain, uint32_t flags);

/* Ends the segment: flushes the open chunk, writes report and index, chunk.is_segment_end. The next
 * chunk starts a new segment. No-op when the segment is empty. */
int ky_drain_seal(struct ky_drain *drain);

/* After the last seal: a chunk of its own, start and end of a segment at once, that reports what
 * sinks refused and no chunk has reported. No-op when there is nothing to report. */
void ky_drain_last_word(struct ky_drain *drain);

/* Reports what a sink dropped after it had taken it: counted, and reported in the next chunk. */
void ky_drain_refused(struct ky_drain *drain, const struct ky_chunk_loss *loss);

/* So many segments were deleted before a destination had them: the next chunk begins with the
 * LossEvent `unsent-segments`. */
void ky_drain_unsent(struct ky_drain *drain, uint64_t segment_count);

/* The stream was left for flight mode, sealed, and continues now with the next step: what the ring
 * overwrote since is reported as LossEvent `flight`, what it holds is written. When the ring has
 * gone round since, tasks count as unknown until they are seen again. */
void ky_drain_resume(struct ky_drain *drain);

/* Adds a pair to this and all later segments' metadata. */
int ky_drain_metadata(struct ky_drain *drain, const char *key, const char *value);

/* What the events since the last call say, for the rules of a watchdog. */
void ky_drain_watch(struct ky_drain *drain, struct ky_event_sums *out);

/* What a watchdog has seen, into the trace at its own time with the next step. Returns 0; -ENOMEM;
 * KYMO_E_LIMIT when too many wait. */
int ky_drain_stuck(struct ky_drain *drain, const struct ky_stuck_note *note);
int ky_drain_trigger(struct ky_drain *drain, const struct ky_trigger_note *note);

void ky_drain_stats(const struct ky_drain *drain, struct ky_drain_stats *out);

#endif
