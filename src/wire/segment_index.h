/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_index.h - the bytes inside SegmentIndexEvent: one row per chunk of a sealed segment, so
 * that a reader can draw a first picture and jump without decoding. Little-endian; docs/format.md
 * "Index".
 *
 *   struct ky_index_head
 *   chunk_count times:  struct ky_index_chunk, then worker_count times struct ky_index_worker
 *   struct ky_index_tail
 *
 * The event is the last one of the segment and its only field ends with its bytes: the tail is the
 * last 8 bytes of the decompressed segment. index_bytes counts everything from the head up to and
 * including the tail. The rows cover every chunk before the one that carries the index.
 * A reader trusts nothing here: offsets, counts and times are hints that decoding must confirm.
 */
#ifndef KY_WIRE_SEGMENT_INDEX_H
#define KY_WIRE_SEGMENT_INDEX_H

#include <stdint.h>

#define KY_INDEX_MAGIC 0x58494d4bu /* "KMIX" */
#define KY_INDEX_VERSION 1u

struct ky_index_head {
	uint32_t version;
	uint32_t chunk_count;
};

struct ky_index_chunk {
	uint64_t raw_offset; /* of its stream header in the decompressed segment */
	uint64_t first_ns;   /* smallest and largest time stamp in it; both 0: none */
	uint64_t last_ns;
	uint64_t lost_count; /* sum of record_count of its LossEvents */
	uint32_t raw_bytes;
	uint32_t event_count;
	uint32_t loss_count;   /* LossEvents */
	uint32_t worker_count; /* rows that follow: workers with a poll in it */
};

struct ky_index_worker {
	uint64_t busy_ns; /* time inside polls between first_ns and last_ns */
	/* longest poll that ended in this chunk; 0, 0, 0 when none did */
	uint64_t longest_start_ns;
	uint64_t longest_ns;
	uint64_t longest_task;
	uint32_t worker_id;
	uint32_t poll_count; /* polls that ended in this chunk */
};

struct ky_index_tail {
	uint32_t index_bytes;
	uint32_t magic; /* KY_INDEX_MAGIC */
};

_Static_assert(sizeof(struct ky_index_head) == 8, "written as it lies in memory");
_Static_assert(sizeof(struct ky_index_chunk) == 48, "written as it lies in memory");
_Static_assert(sizeof(struct ky_index_worker) == 40, "written as it lies in memory");
_Static_assert(sizeof(struct ky_index_tail) == 8, "written as it lies in memory");

#endif
