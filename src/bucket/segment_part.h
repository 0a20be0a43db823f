/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_part.h - the chunks of a segment that a time touches, as a trace of its own.
 *
 * It has the chunks of the segment's start (whose it is, what was alive), those in the time, and
 * the last one. Where chunks are left out between them stands a LossEvent of cause "not recorded",
 * so that nothing is measured over the gap.
 * Threads: owner.
 */
#ifndef KY_BUCKET_SEGMENT_PART_H
#define KY_BUCKET_SEGMENT_PART_H

#include <bucket/segment_map.h>

struct ky_part_range {
	uint64_t from_unix_ns, to_unix_ns; /* without its end; 0: no bound */
};

struct ky_part_choice {
	uint32_t start_count; /* chunks of the segment's start */
	uint32_t first, end;  /* in the time; end 0: none is */
	uint32_t timed;       /* those behind have no times: names of code */
};

void ky_part_choose(struct ky_part_choice *out, const struct ky_segment_map *map,
		    const struct ky_part_range *range);

/* Where it goes. Each returns 0 or a negative error, which ends it. */
struct ky_part_out {
	int (*copy)(void *ctx, uint64_t from, uint64_t to); /* bytes of the segment as stored */
	int (*put)(void *ctx, const uint8_t *bytes, size_t count);
	void *ctx;
};

/* Nothing in the time: the start alone. *chunk_count: gets how many were copied but the last.
 * Returns 0, -ENOMEM, or what `out` returned. */
int ky_part_write(const struct ky_part_out *out, const struct ky_segment_map *map,
		  const struct ky_part_choice *choice, uint32_t *chunk_count);

#endif
