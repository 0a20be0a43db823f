/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_map.h - what the last bytes of a sealed .trc.zst segment say of all of it: whose it is,
 * and of each chunk where it is stored, when it was and what happened in it.
 *
 * The seek table (a skippable frame) says where the frames are; the last frame holds the last
 * chunk, whose last event is the index (docs/format.md 12 and 14). A map exists only where both
 * agree on every size; what they say of content stays a hint.
 * Input:   untrusted.
 * Memory:  the last chunk, at most KY_MAP_CHUNK_BYTES_MAX, and a row for each chunk and each
 *          worker in it.
 * Threads: owner.
 */
#ifndef KY_BUCKET_SEGMENT_MAP_H
#define KY_BUCKET_SEGMENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_MAP_CHUNK_BYTES_MAX (33u << 20)
#define KY_MAP_TEXT_BYTES 128u

struct ky_map_chunk {
	uint64_t stored_at, first_ns, last_ns; /* of the trace's clock */
	uint64_t event_count, lost_count, loss_count;
	uint64_t poll_count; /* that ended in it */
	uint64_t busy_ns;    /* of all its workers */
	uint64_t longest_ns, longest_start_ns, longest_task;
	uint32_t stored_bytes, raw_bytes, worker_count;
	uint32_t longest_worker, first_worker;
};

/* What a worker did in a chunk. */
struct ky_map_worker {
	uint64_t busy_ns, longest_ns, longest_start_ns, longest_task;
	uint32_t id, poll_count;
};

struct ky_segment_map {
	struct ky_map_chunk *chunks; /* of the last one, with the index, only sizes and events */
	uint32_t count;
	struct ky_map_worker *workers; /* by chunk: from its first_worker on, its worker_count */
	uint64_t clock_ns, unix_ns;    /* one reading of the wall clock; unix_ns 0: none */
	uint64_t slack_ns;             /* so far off it may be */
	char service[KY_MAP_TEXT_BYTES], host[KY_MAP_TEXT_BYTES], pid[KY_MAP_TEXT_BYTES];
	char end[KY_MAP_TEXT_BYTES]; /* process.end; "": it went on */
};

/* tail: the last tail_bytes of a file of file_bytes.
 * Returns  0: the map is there. More than 0: with so many of the last bytes there may be one.
 *          KYMO_E_UNSUPPORTED: this file has none. -ENOMEM.
 * Release it in any case. */
int64_t ky_segment_map_read(struct ky_segment_map *map, const uint8_t *tail, size_t tail_bytes,
			    uint64_t file_bytes);
void ky_segment_map_release(struct ky_segment_map *map);

/* Of the trace's clock to the wall clock and back; 0 without a reading of it. */
uint64_t ky_segment_map_unix_ns(const struct ky_segment_map *map, uint64_t ns);

/* May something of the chunk lie in this time, without its end? 0: no bound. */
bool ky_segment_map_touches(const struct ky_segment_map *map, const struct ky_map_chunk *chunk,
			    uint64_t from_unix_ns, uint64_t to_unix_ns);

#endif
