/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/map_sum.h>

static void add_chunk(struct ky_map_sum *sum, const struct ky_segment_map *map,
		      const struct ky_map_chunk *chunk)
{
	const struct ky_map_sum one = {
		.start_ns = ky_segment_map_unix_ns(map, chunk->first_ns),
		.end_ns = ky_segment_map_unix_ns(map, chunk->last_ns),
		.events = chunk->event_count,
		.polls = chunk->poll_count,
		.busy_ns = chunk->busy_ns,
		.lost = chunk->lost_count,
		.longest_ns = chunk->longest_ns,
		.longest_start_ns = ky_segment_map_unix_ns(map, chunk->longest_start_ns),
		.longest_task = chunk->longest_task,
		.longest_worker = chunk->longest_worker,
	};

	ky_map_sum_join(sum, &one);
}

void ky_map_sum_add(struct ky_map_sum *sum, const struct ky_segment_map *map, uint64_t from_unix_ns,
		    uint64_t to_unix_ns)
{
	for (uint32_t i = 0; i < map->count; i++) {
		const struct ky_map_chunk *chunk = &map->chunks[i];
		bool is_last = i + 1 == map->count;

		/* Names of code have no time and are of any; the last chunk has none here. */
		if (!chunk->last_ns && (!is_last || (!from_unix_ns && !to_unix_ns)))
			sum->events += chunk->event_count;
		else if (chunk->last_ns &&
			 ky_segment_map_touches(map, chunk, from_unix_ns, to_unix_ns))
			add_chunk(sum, map, chunk);
	}
}

void ky_map_sum_join(struct ky_map_sum *sum, const struct ky_map_sum *other)
{
	sum->events += other->events;
	sum->polls += other->polls;
	sum->busy_ns += other->busy_ns;
	sum->lost += other->lost;
	if (other->start_ns && (!sum->start_ns || other->start_ns < sum->start_ns))
		sum->start_ns = other->start_ns;
	if (other->end_ns > sum->end_ns)
		sum->end_ns = other->end_ns;
	if (other->longest_ns <= sum->longest_ns)
		return;
	sum->longest_ns = other->longest_ns;
	sum->longest_start_ns = other->longest_start_ns;
	sum->longest_task = other->longest_task;
	sum->longest_worker = other->longest_worker;
}
