/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* time_merge.h - the second stage of a drain: which queue has the next record, and up to which
 * stamp it comes before all others; for merge_loop.c, which takes the records.
 *
 * Runs of one thread while it stays the earliest; then all threads are compared when they are few,
 * and a binary heap orders them when they are many.
 *
 * Memory:      one entry a thread.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_TIME_MERGE_H
#define KY_DRAIN_TIME_MERGE_H

#include <drain/common.h>

#define KY_MERGE_SCAN_MAX 8u

struct ky_merge_entry {
	uint64_t ticks; /* of the first record in the queue */
	struct ky_dthread *thread;
};

struct ky_merge {
	struct ky_merge_entry *entries;
	uint32_t count, capacity;
	uint64_t through; /* later records stay */
	bool is_heap;
	/* The run that another chunk has to be begun for: it is taken up again. */
	bool was_full;
	uint32_t stopped_at;
	uint64_t stopped_limit;
};

/* All queues with a record at or below `through`. Returns 0, -ENOMEM. */
int ky_merge_prepare(struct ky_merge *merge, struct ky_drain_common *common, uint64_t through);
void ky_merge_release(struct ky_merge *merge);

static inline void ky_merge_sift_down(struct ky_merge_entry *heap, uint32_t count, uint32_t at)
{
	struct ky_merge_entry moving = heap[at];

	for (;;) {
		uint32_t child = at * 2 + 1;

		if (child >= count)
			break;
		if (child + 1 < count && heap[child + 1].ticks < heap[child].ticks)
			child++;
		if (heap[child].ticks >= moving.ticks)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/* Stamp up to which the first thread of a heap comes before all others. */
static inline uint64_t ky_merge_runner_up(const struct ky_merge_entry *heap, uint32_t count)
{
	uint64_t next = UINT64_MAX;

	if (count > 1)
		next = heap[1].ticks;
	if (count > 2 && heap[2].ticks < next)
		next = heap[2].ticks;
	return next;
}

/* The same without a heap: compares every thread, and no branch depends on a stamp. */
static inline uint32_t ky_merge_scan(const struct ky_merge_entry *entries, uint32_t count,
				     uint64_t *next)
{
	uint64_t best = entries[0].ticks, second = UINT64_MAX;
	uint32_t at = 0;

	for (uint32_t i = 1; i < count; i++) {
		uint64_t ticks = entries[i].ticks, loser = ticks < best ? best : ticks;

		at = ticks < best ? i : at;
		best = ticks < best ? ticks : best;
		second = loser < second ? loser : second;
	}
	*next = second;
	return at;
}

#endif
