/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* k-way merge over the queues of threads by stamp: a binary heap of threads, and runs of one thread
 * without touching the heap while it stays the earliest. */
#include <drain/drain_state.h>

#include <errno.h>

static void sift_down(struct ky_merge_entry *heap, uint32_t count, uint32_t at)
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

static inline uint64_t runner_up(const struct ky_merge_entry *heap, uint32_t count)
{
	uint64_t next = UINT64_MAX;

	if (count > 1)
		next = heap[1].ticks;
	if (count > 2 && heap[2].ticks < next)
		next = heap[2].ticks;
	return next;
}

/* Converts the head of this queue up to and including `limit`. */
static void run(struct ky_drain *drain, struct ky_dthread *thread, uint64_t limit)
{
	const struct ky_rec *recs = thread->recs;
	uint32_t head = thread->head, tail = thread->tail;

	/* Nothing below adds to a queue. */
	while (head < tail && recs[head].ticks <= limit) {
		const struct ky_rec *rec = &recs[head];
		uint64_t ns = ky_timeline_ns(&drain->timeline, rec->ticks);

		if (__builtin_expect(rec->ticks < drain->merged_ticks, 0)) {
			drain->stats.records_late++;
		} else {
			drain->merged_ticks = rec->ticks;
			drain->merged_ns = ns;
		}
		head += ky_drain_convert(drain, thread, rec, ns);
	}
	drain->waiting -= head - thread->head;
	if (head == tail)
		head = thread->tail = 0;
	thread->head = head;
}

int ky_drain_merge(struct ky_drain *drain, uint64_t through)
{
	struct ky_merge_entry *heap = drain->heap;
	uint32_t count = 0;

	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];

		if (thread->head < thread->tail && thread->recs[thread->head].ticks <= through)
			heap[count++] = (struct ky_merge_entry){thread->recs[thread->head].ticks,
								thread};
	}
	for (uint32_t i = count / 2; i-- > 0;)
		sift_down(heap, count, i);
	while (count) {
		struct ky_dthread *thread = heap[0].thread;
		uint64_t limit = runner_up(heap, count);

		run(drain, thread, limit < through ? limit : through);
		if (thread->head == thread->tail || thread->recs[thread->head].ticks > through)
			heap[0] = heap[--count];
		else
			heap[0].ticks = thread->recs[thread->head].ticks;
		if (count)
			sift_down(heap, count, 0);
	}
	return drain->is_out_of_memory ? -ENOMEM : 0;
}
