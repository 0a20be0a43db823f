/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* k-way merge over the queues of threads by stamp: runs of one thread while it stays the earliest;
 * then a look at all threads when they are few, a binary heap of them when they are many. */
#include <drain/drain_state.h>

#include <drain/hot_record.h>
#include <errno.h>

#define SCAN_MAX 8u

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

/* Stamp up to which the first thread comes before all others. */
static inline uint64_t runner_up(const struct ky_merge_entry *heap, uint32_t count)
{
	uint64_t next = UINT64_MAX;

	if (count > 1)
		next = heap[1].ticks;
	if (count > 2 && heap[2].ticks < next)
		next = heap[2].ticks;
	return next;
}

/* The same without a heap: looks at every thread, and no branch depends on a stamp. */
static inline uint32_t scan(const struct ky_merge_entry *entries, uint32_t count, uint64_t *next)
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

/* What the hot way does not take. */
static __attribute__((noinline)) struct ky_hot convert(struct ky_drain *drain,
						       struct ky_dthread *thread, struct ky_hot hot)
{
	ky_hot_settle(drain, hot);
	ky_drain_convert(drain, thread, thread->recs[thread->head].ticks);
	return ky_hot_begin(drain);
}

/* Nothing is for the hot way as long as the drain is muted or a policy holds things back. */
static __attribute__((noinline)) struct ky_hot
convert_run(struct ky_drain *drain, struct ky_dthread *thread, uint64_t limit)
{
	struct ky_hot none = {0};

	ky_drain_convert(drain, thread, limit);
	return ky_hot_may_be(drain) ? ky_hot_begin(drain) : none;
}

/* Takes what it can of the thread up to the limit. Returns the first record that is left. */
static inline __attribute__((always_inline)) const struct ky_rec *
take_hot(struct ky_drain *drain, struct ky_hot *hot, struct ky_dthread *thread, uint64_t limit)
{
	const struct ky_rec *first = thread->recs + thread->head, *rec = first;
	const struct ky_rec *end = thread->is_announced ? thread->recs + thread->tail : first;
	uint64_t last = limit < hot->last_ticks ? limit : hot->last_ticks;
	uint32_t count;

	while (rec < end && rec->ticks <= last && ky_hot_record(drain, hot, thread, rec))
		rec++;
	count = (uint32_t)(rec - first);
	if (count) {
		hot->told_count += count;
		thread->head += count;
		thread->last_ns = hot->ns;
	}
	return rec;
}

/* Converts what this thread has up to the others. False: it has nothing more for this merge. */
static inline __attribute__((always_inline)) bool advance(struct ky_drain *drain,
							  struct ky_hot *hot,
							  struct ky_merge_entry *entry,
							  uint64_t limit, uint64_t through)
{
	struct ky_dthread *thread = entry->thread;
	const struct ky_rec *rec;

	if (through < limit)
		limit = through;
	for (;;) {
		if (__builtin_expect(!ky_hot_may_be(drain), 0)) {
			*hot = convert_run(drain, thread, limit);
			rec = thread->recs + thread->head;
		} else {
			rec = take_hot(drain, hot, thread, limit);
		}
		if (thread->head == thread->tail) {
			thread->head = thread->tail = 0;
			return false;
		}
		if (rec->ticks > limit) {
			entry->ticks = rec->ticks;
			return rec->ticks <= through;
		}
		*hot = convert(drain, thread, *hot);
		if (thread->head == thread->tail)
			return false;
	}
}

static void merge_many(struct ky_drain *drain, uint32_t count, uint64_t through)
{
	struct ky_merge_entry *heap = drain->heap;
	struct ky_hot hot = ky_hot_begin(drain);

	for (uint32_t i = count / 2; i-- > 0;)
		sift_down(heap, count, i);
	while (count) {
		if (!advance(drain, &hot, &heap[0], runner_up(heap, count), through))
			heap[0] = heap[--count];
		if (count)
			sift_down(heap, count, 0);
	}
	ky_hot_settle(drain, hot);
}

static void merge_few(struct ky_drain *drain, uint32_t count, uint64_t through)
{
	struct ky_merge_entry *entries = drain->heap;
	struct ky_hot hot = ky_hot_begin(drain);

	while (count) {
		uint64_t next;
		uint32_t at = scan(entries, count, &next);

		if (!advance(drain, &hot, &entries[at], next, through))
			entries[at] = entries[--count];
	}
	ky_hot_settle(drain, hot);
}

static uint32_t add(struct ky_merge_entry *heap, uint32_t count, struct ky_dthread *thread,
		    uint64_t through)
{
	if (thread->head == thread->tail || thread->recs[thread->head].ticks > through)
		return count;
	heap[count] = (struct ky_merge_entry){thread->recs[thread->head].ticks, thread};
	return count + 1;
}

int ky_drain_merge(struct ky_drain *drain, uint64_t through)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < drain->thread_count; i++)
		count = add(drain->heap, count, drain->threads[i], through);
	count = add(drain->heap, count, drain->outside, through);
	count = add(drain->heap, count, drain->samples.queue, through);
	if (count > SCAN_MAX)
		merge_many(drain, count, through);
	else
		merge_few(drain, count, through);
	return drain->is_out_of_memory ? -ENOMEM : 0;
}
