/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* index_maker.h - the index of a trace that is written anew: fed with its events and chunks.
 *
 * Order:   ky_index_maker_event() after the event went into a chunk, ky_index_maker_chunk() when
 *          that chunk is handed on.
 * Memory:  at most KY_INDEX_BYTES_MAX and one row for each worker id below KY_INDEX_WORKERS_MAX;
 *          larger ids are left out: an index is a hint.
 * Threads: owner.
 */
#ifndef KY_EDIT_INDEX_MAKER_H
#define KY_EDIT_INDEX_MAKER_H

#include <base/buf.h>
#include <read/event_stream.h>
#include <stdbool.h>
#include <wire/chunk.h>
#include <wire/segment_index.h>

#define KY_INDEX_BYTES_MAX (32u << 20) /* below what readers take as one frame */
#define KY_INDEX_WORKERS_MAX 4096u

struct ky_index_lane {
	struct ky_index_worker row;
	uint64_t open_ns, task; /* of the open poll */
	bool is_open;
	bool is_touched; /* has a row in this chunk */
	bool is_listed;  /* in seen */
};

struct ky_index_maker {
	struct ky_index_lane *lanes; /* by worker id */
	uint32_t *seen;              /* worker ids with a lane in use */
	uint32_t seen_count, chunk_count, loss_count;
	uint64_t lost_count;
	uint64_t first_ns;  /* of this chunk; 0: nothing with a time yet */
	uint64_t offset;    /* of the next chunk */
	uint64_t last_ns;   /* of all chunks */
	struct ky_buf rows; /* failed: there will be no index */
};

/* Returns 0, -ENOMEM. */
int ky_index_maker_init(struct ky_index_maker *maker);
void ky_index_maker_release(struct ky_index_maker *maker);

void ky_index_maker_event(struct ky_index_maker *maker, const struct ky_event *event);
void ky_index_maker_chunk(struct ky_index_maker *maker, const struct ky_chunk *chunk);

/* A chunk whose events have no time, such as names of code: its row has none, and no workers. */
void ky_index_maker_untimed(struct ky_index_maker *maker, const struct ky_chunk *chunk);

/* Bytes that get no row: a stream that is left with nothing in it. */
void ky_index_maker_skip(struct ky_index_maker *maker, uint64_t bytes);
/* Another process's, or a later part: no poll continues from before. */
void ky_index_maker_forget(struct ky_index_maker *maker);

/* The last chunk: a stream with SegmentIndexEvent alone. Errors: out->failed; a failed index
 * writes nothing. */
void ky_index_maker_finish(struct ky_index_maker *maker, struct ky_buf *out);

#endif
