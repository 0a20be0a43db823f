/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/time_merge.h>

#include <base/alloc.h>
#include <errno.h>

static void add(struct ky_merge *merge, struct ky_dthread *thread)
{
	const struct ky_queue *queue = &thread->queue;

	if (!ky_queue_is_empty(queue) && queue->recs[queue->head].ticks <= merge->through)
		merge->entries[merge->count++] = (struct ky_merge_entry){
			queue->recs[queue->head].ticks, thread};
}

int ky_merge_prepare(struct ky_merge *merge, struct ky_drain_common *common, uint64_t through)
{
	/* Two more: the notes, and the samples. */
	uint32_t wanted = common->threads.capacity + 2;
	struct ky_merge_entry *entries;

	merge->count = 0;
	merge->was_full = false;
	merge->through = through;
	if (merge->capacity < wanted) {
		entries = ky_realloc(merge->entries, wanted * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		merge->entries = entries;
		merge->capacity = wanted;
	}
	for (uint32_t i = 0; i < common->threads.count; i++)
		add(merge, common->threads.list[i]);
	add(merge, common->notes.source);
	add(merge, common->samples.source);
	merge->is_heap = merge->count > KY_MERGE_SCAN_MAX;
	for (uint32_t i = merge->count / 2; merge->is_heap && i-- > 0;)
		ky_merge_sift_down(merge->entries, merge->count, i);
	return 0;
}

void ky_merge_release(struct ky_merge *merge)
{
	ky_free(merge->entries);
}
