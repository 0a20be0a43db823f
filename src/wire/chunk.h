/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chunk.h - the unit in which a trace travels from the drain to the store: where the two wings
 * meet. */
#ifndef KY_WIRE_CHUNK_H
#define KY_WIRE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_CHUNK_BYTES_MAX (256u << 10)
#define KY_CHUNK_EVENTS_MAX 16384u
#define KY_CHUNK_SPAN_MAX_NS UINT64_C(1000000000)

struct ky_chunk {
	const uint8_t *bytes; /* one self-contained TRC stream */
	size_t byte_count;
	uint64_t event_count;
	uint64_t record_count;          /* ring records its events stand for */
	uint64_t reported_loss_count;   /* records (no samples) that its LossEvents report lost */
	uint64_t reported_loss_from_ns; /* ... the first of them after this time; 0: none are */
	uint64_t first_ns, last_ns;
	/* Every record stamped before is in this chunk or an earlier one, but for late ones; of
	 * those with this very stamp the first last_ties. */
	uint64_t last_ticks;
	uint32_t last_ties;
	bool is_segment_start; /* carries metadata, descriptions, live tasks */
	bool is_segment_end;   /* carries the index: seal after it */
			       /* both: a last word, which reports what was refused to the end */
};

/* Chunks that a sink took and could not keep after all, with the losses they were to report. */
struct ky_chunk_loss {
	uint64_t chunk_count, event_count, record_count, reported_count;
	uint64_t first_ns, last_ns;
};

static inline void ky_chunk_lose(struct ky_chunk_loss *loss, const struct ky_chunk *chunk)
{
	uint64_t first_ns = chunk->first_ns;

	if (chunk->reported_loss_from_ns && chunk->reported_loss_from_ns < first_ns)
		first_ns = chunk->reported_loss_from_ns;
	if (!loss->chunk_count || first_ns < loss->first_ns)
		loss->first_ns = first_ns;
	if (chunk->last_ns > loss->last_ns)
		loss->last_ns = chunk->last_ns;
	loss->chunk_count++;
	loss->event_count += chunk->event_count;
	loss->record_count += chunk->record_count;
	loss->reported_count += chunk->reported_loss_count;
}

/* Takes a chunk; the bytes are the drain's and valid during the call. Returns 0 or a negative
 * error: the drain then counts the chunk's events as lost (cause write-error) and continues. */
typedef int (*ky_chunk_fn)(void *ctx, const struct ky_chunk *chunk);

#endif
