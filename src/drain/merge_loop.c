/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Record after record: takes runs of one thread from the merge and turns them into events, the
 * frequent ones by hot_record.h, the others by convert.c, until the chunk is full. */
#include <drain/convert_stage.h>
#include <drain/hot_record.h>

/* What the hot way does not take. */
static __attribute__((noinline)) struct ky_hot
convert_head(struct ky_convert *convert, struct ky_dthread *thread, struct ky_hot hot)
{
	ky_hot_settle(convert, hot);
	ky_convert_records(convert, thread, thread->queue.recs[thread->queue.head].ticks);
	return ky_hot_begin(convert);
}

/* Nothing is for the hot way as long as the chunk is muted or a policy holds things back. */
static __attribute__((noinline)) struct ky_hot
convert_run(struct ky_convert *convert, struct ky_dthread *thread, uint64_t limit)
{
	struct ky_hot none = {0};

	ky_convert_records(convert, thread, limit);
	return ky_hot_may_be(convert) ? ky_hot_begin(convert) : none;
}

/* Takes what it can of the thread up to the limit. Returns the first record that is left. */
static inline __attribute__((always_inline)) const struct ky_rec *
take_hot(struct ky_convert *convert, struct ky_hot *hot, struct ky_dthread *thread, uint64_t limit)
{
	const struct ky_rec *first = thread->queue.recs + thread->queue.head, *rec = first;
	const struct ky_rec *end = thread->is_announced ? thread->queue.recs + thread->queue.tail :
							  first;
	uint64_t last = limit < hot->last_ticks ? limit : hot->last_ticks;
	uint32_t count;

	while (rec < end && rec->ticks <= last && ky_hot_record(convert, hot, thread, rec))
		rec++;
	count = (uint32_t)(rec - first);
	if (count) {
		hot->reported_count += count;
		thread->queue.head += count;
		thread->last_ns = hot->ns;
	}
	return rec;
}

/* Converts what this thread has up to the others. False: it has nothing more for this merge, or
 * the chunk has no room for its next record. */
static inline __attribute__((always_inline)) bool advance(struct ky_convert *convert,
							  struct ky_hot *hot,
							  struct ky_merge_entry *entry,
							  uint64_t limit, uint64_t through)
{
	struct ky_dthread *thread = entry->thread;
	const struct ky_rec *rec;

	if (through < limit)
		limit = through;
	for (;;) {
		if (__builtin_expect(!ky_hot_may_be(convert), 0)) {
			*hot = convert_run(convert, thread, limit);
			if (convert->full_for)
				return false;
			rec = thread->queue.recs + thread->queue.head;
		} else {
			rec = take_hot(convert, hot, thread, limit);
		}
		if (ky_queue_is_empty(&thread->queue)) {
			thread->queue.head = thread->queue.tail = 0;
			return false;
		}
		if (rec->ticks > limit) {
			entry->ticks = rec->ticks;
			return rec->ticks <= through;
		}
		*hot = convert_head(convert, thread, *hot);
		if (convert->full_for)
			return false;
		if (ky_queue_is_empty(&thread->queue))
			return false;
	}
}

static bool is_full(const struct ky_convert *convert)
{
	return convert->full_for != KY_FULL_FOR_NONE;
}

static void run_many(struct ky_convert *convert, struct ky_merge *merge)
{
	struct ky_merge_entry *heap = merge->entries;
	struct ky_hot hot = ky_hot_begin(convert);
	uint64_t through = merge->through;
	uint32_t count = merge->count;

	while (count) {
		if (!advance(convert, &hot, &heap[0], ky_merge_runner_up(heap, count), through)) {
			if (is_full(convert))
				break;
			heap[0] = heap[--count];
		}
		if (count)
			ky_merge_sift_down(heap, count, 0);
	}
	ky_hot_settle(convert, hot);
	merge->count = count;
}

static void run_few(struct ky_convert *convert, struct ky_merge *merge)
{
	struct ky_merge_entry *entries = merge->entries;
	struct ky_hot hot = ky_hot_begin(convert);
	uint64_t next = merge->stopped_limit, through = merge->through;
	uint32_t count = merge->count, at = merge->stopped_at;

	if (count && !merge->was_full)
		at = ky_merge_scan(entries, count, &next);
	while (count) {
		if (!advance(convert, &hot, &entries[at], next, through)) {
			if (is_full(convert))
				break;
			entries[at] = entries[--count];
			if (!count)
				break;
		}
		at = ky_merge_scan(entries, count, &next);
	}
	ky_hot_settle(convert, hot);
	merge->count = count;
	merge->stopped_at = at;
	merge->stopped_limit = next;
}

int ky_convert_run(struct ky_convert *convert, struct ky_merge *merge, uint64_t *ns)
{
	if (merge->is_heap)
		run_many(convert, merge);
	else
		run_few(convert, merge);
	merge->was_full = is_full(convert);
	*ns = convert->next_ns;
	return merge->was_full ? KY_CONVERT_FULL : 0;
}
