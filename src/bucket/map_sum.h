/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* map_sum.h - what the maps of segments say together, of a time.
 *
 * Threads: owner.
 */
#ifndef KY_BUCKET_MAP_SUM_H
#define KY_BUCKET_MAP_SUM_H

#include <bucket/segment_map.h>

/* Zeros: of nothing yet. Times are Unix times in ns, of chunks that have some; 0: none has. */
struct ky_map_sum {
	uint64_t start_ns, end_ns;
	uint64_t events, polls, busy_ns, lost;
	uint64_t longest_ns, longest_start_ns, longest_task; /* of polls; 0: none ended */
	uint32_t longest_worker;
};

/* Adds the chunks that touch the time, to the chunk; bounds as ky_segment_map_touches(). */
void ky_map_sum_add(struct ky_map_sum *sum, const struct ky_segment_map *map, uint64_t from_unix_ns,
		    uint64_t to_unix_ns);
void ky_map_sum_join(struct ky_map_sum *sum, const struct ky_map_sum *other);

#endif
