/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* k-way merge over the queues of threads by stamp: a binary heap of threads, and runs of one thread
 * without touching the heap while it stays the earliest. */
#include <drain/drain_state.h>

#include <errno.h>

static inline uint64_t first_ticks(const struct ky_dthread *thread)
{
	return thread->recs[thread->head].ticks;
}

static void sift_down(struct ky_dthread **heap, uint32_t count, uint32_t at)
{
	struct ky_dthread *moving = heap[at];
	uint64_t ticks = first_ticks(moving);

	for (;;) {
		uint32_t child = at * 2 + 1;

		if (child >= count)
			break;
		if (child + 1 < count && first_ticks(heap[child + 1]) < first_ticks(heap[child]))
			child++;
		if (first_ticks(heap[child]) >= ticks)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

static uint64_t runner_up(struct ky_dthread *const *heap, uint32_t count)
{
	uint64_t next = UINT64_MAX;

	if (count > 1)
		next = first_ticks(heap[1]);
	if (count > 2 && first_ticks(heap[2]) < next)
		next = first_ticks(heap[2]);
	return next;
}

/* Converts the head of this queue up to and including `limit`. */
static void run(struct ky_drain *drain, struct ky_dthread *thread, uint64_t limit)
{
	while (thread->head < thread->tail) {
		const struct ky_rec *rec = &thread->recs[thread->head];
		uint64_t ns;

		if (rec->ticks > limit)
			return;
		ns = ky_timeline_ns(&drain->timeline, rec->ticks);
		if (rec->ticks < drain->merged_ticks) {
			drain->stats.records_late++;
		} else {
			drain->merged_ticks = rec->ticks;
			drain->merged_ns = ns;
		}
		thread->head += ky_drain_convert(drain, thread, rec, ns);
	}
	thread->head = thread->tail = 0;
}

int ky_drain_merge(struct ky_drain *drain, uint64_t through)
{
	struct ky_dthread **heap = drain->heap;
	uint32_t count = 0;

	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];

		if (thread->head < thread->tail && first_ticks(thread) <= through)
			heap[count++] = thread;
	}
	for (uint32_t i = count / 2; i-- > 0;)
		sift_down(heap, count, i);
	while (count) {
		uint64_t limit = runner_up(heap, count);

		run(drain, heap[0], limit < through ? limit : through);
		if (heap[0]->head == heap[0]->tail || first_ticks(heap[0]) > through)
			heap[0] = heap[--count];
		if (count)
			sift_down(heap, count, 0);
	}
	return drain->is_out_of_memory ? -ENOMEM : 0;
}
