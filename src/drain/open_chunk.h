/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* open_chunk.h - the chunk that is being written: its bytes, how much more it takes, and the events
 * that each writer may need, losses and the line of the clock; for src/drain.
 *
 * Invariants:  writers append events and never end the chunk: the caller asks
 *              before each record, by ky_chunk_takes(), and lets segment.c end it where the answer
 *              is no. While it is muted its buffer refuses everything.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_OPEN_CHUNK_H
#define KY_DRAIN_OPEN_CHUNK_H

#include <base/buf.h>
#include <base/timeline.h>
#include <wire/chunk.h>
#include <wire/sample_area.h>
#include <wire/trc_enc.h>

/* Room for the events of one record: a chunk must not end between them, because what it reports
 * about open polls at its start would be the state in the middle of the record. */
#define KY_RECORD_EVENTS_MAX 32u
#define KY_RECORD_BYTES_MAX 32768u
#define KY_CHUNK_BYTES_SOFT (KY_CHUNK_BYTES_MAX - 8192u)
/* And for some more of the same stamp, in whatever order the merge takes them: a recovery that
 * continues between two of them may take them in another order than the stream did. */
#define KY_TIES_EVENTS 64u
#define KY_TIES_BYTES 4096u

enum ky_loss_cause {
	KY_LOSS_NONE = 0,
	KY_LOSS_SIGNAL = 1, /* 1..4 as enum kymo_drop_cause */
	KY_LOSS_NO_SLOT = 2,
	KY_LOSS_NO_STATE = 3,
	KY_LOSS_EXITED = 4,
	KY_LOSS_OVERWRITTEN = 5,
	KY_LOSS_CORRUPT = 6,
	KY_LOSS_WRITE_ERROR = 7,
	KY_LOSS_UNSUPPORTED = 8,
	/* a cut begins here: what the thread wrote before is not in the ring any more */
	KY_LOSS_HORIZON = 9,
	/* overwritten while it was not to be written: in flight mode, before a stream began */
	KY_LOSS_FLIGHT = 10,
	KY_LOSS_SAMPLES = 11, /* + enum ky_sample_class */
	/* segments that were deleted before a destination had them: no gap in this one */
	KY_LOSS_UNSENT = KY_LOSS_SAMPLES + KY_SAMPLE_CLASSES,
	KY_LOSS_COUNT
};

struct ky_loss {
	uint32_t tid, cause;
	uint64_t count, from_ns, to_ns;
	bool is_exact;
};

struct ky_open_chunk {
	struct ky_buf out;
	struct ky_trc_enc enc;
	struct ky_timeline *timeline;
	bool is_open;
	bool is_segment_start;
	bool is_muted; /* states are followed, nothing is written */
	uint64_t serial;
	uint64_t first_ns, last_ns;
	uint64_t span_ns; /* it takes events of so long a time; 0: it is not open */
	/* Of the record that is being reported, and the CounterClockEvent that holds for it. */
	uint64_t record_ticks, clock_ticks, clock_span, clock_serial;
	uint64_t records_reported; /* ring records that were turned into events, of all chunks */
	uint64_t records_from;     /* records_reported when it began */
	uint64_t lost_count;
	uint64_t reported_count, reported_from_ns; /* of them records; since when: ky_chunk */
	uint32_t loss_count;
	uint64_t last_ticks; /* largest stamp whose record is written, in whatever chunk */
	uint32_t last_ties;  /* records of that stamp written */
	uint64_t segment_ns; /* its segment began */
};

/* timeline: the caller's, it outlives the chunk. Returns 0, -ENOMEM. */
int ky_chunk_init(struct ky_open_chunk *chunk, struct ky_timeline *timeline);
void ky_chunk_release(struct ky_open_chunk *chunk);
/* From here on states are followed and nothing is written, until an event at from_ns. */
void ky_chunk_mute(struct ky_open_chunk *chunk, uint64_t from_ns);
/* An empty stream, open from this time on; with its clocks. */
void ky_chunk_begin(struct ky_open_chunk *chunk, uint64_t ns);

void ky_chunk_loss(struct ky_open_chunk *chunk, const struct ky_loss *loss, uint64_t ns);
/* Pool id of a text. NULL: "". */
uint32_t ky_chunk_text(struct ky_open_chunk *chunk, const char *text);

/* Reports which line of the timeline these ticks lie on, unless the chunk has reported it. */
void ky_chunk_write_clock(struct ky_open_chunk *chunk, uint64_t ticks, uint64_t ns);
static inline void ky_chunk_put_clock(struct ky_open_chunk *chunk, uint64_t ticks, uint64_t ns)
{
	if (__builtin_expect(ticks - chunk->clock_ticks >= chunk->clock_span ||
				     chunk->clock_serial != chunk->serial,
			     0))
		ky_chunk_write_clock(chunk, ticks, ns);
}

/* Whether it is open, and has room for so much more of this time. */
static inline bool ky_chunk_takes(struct ky_open_chunk *chunk, uint64_t ns, uint32_t events,
				  uint32_t bytes)
{
	/* Before first_ns is far ahead of it, too. */
	if (__builtin_expect(ns - chunk->first_ns >= chunk->span_ns ||
				     chunk->enc.event_count >= KY_CHUNK_EVENTS_MAX - events ||
				     chunk->out.used > KY_CHUNK_BYTES_SOFT - bytes,
			     0))
		return false;
	if (ns > chunk->last_ns)
		chunk->last_ns = ns;
	return true;
}

#endif
