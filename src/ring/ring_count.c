/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_count.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/emit.h>
#include <string.h>
#include <wire/ring_record.h>

#define THREADS_MAX (1u << 20)

/* NULL: no memory, or an index that no directory has room for. */
static struct ky_ring_thread_count *thread_at(struct ky_ring_count *count, uint32_t index)
{
	if (index >= THREADS_MAX ||
	    ky_grow(&count->threads, &count->thread_count, index + 1, sizeof(*count->threads)))
		return NULL;
	return &count->threads[index];
}

static int note_slot(struct ky_ring_count *count, const struct ky_ring_view *view, uint32_t slot,
		     uint64_t *newest_number)
{
	uint64_t claim = ky_ring_view_claim(view, slot), number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim);
	struct ky_ring_thread_count *thread;
	struct ky_slot_head head;

	if (state > KY_SLOT_PARKED)
		return 0;
	count->slots_by_state[state]++;
	if (state == KY_SLOT_FREE || state == KY_SLOT_FILLING ||
	    ky_ring_view_head(view, slot, number, &head) != 0)
		return 0;
	if (number > *newest_number) {
		*newest_number = number;
		count->newest_anchor = head.anchor;
	}
	thread = thread_at(count, head.thread);
	if (thread == NULL)
		return head.thread >= THREADS_MAX ? 0 : -ENOMEM;
	if (number <= thread->claim_number && thread->claim_number != 0)
		return 0;
	thread->claim_number = number;
	thread->slot = slot;
	thread->tid = head.tid;
	thread->record_count = head.record_count;
	return 0;
}

static void see(struct ky_ring_thread_count *thread, uint64_t record_count)
{
	if (thread != NULL && record_count > thread->record_count)
		thread->record_count = record_count;
}

/* Counts through one sub-buffer: it may have been continued by other threads. Returns the last. */
static uint32_t walk(struct ky_ring_count *count, const uint64_t *words, uint32_t word_count,
		     uint32_t index, const struct ky_slot_head *head)
{
	uint64_t so_far = head->record_count, ticks = head->start_ticks;
	struct ky_ring_thread_count *thread = thread_at(count, index);
	uint32_t at = 0, length;

	while (at < word_count) {
		uint32_t type = ky_record_type(words[at]);

		length = ky_record_words(words[at]);
		if (length == 0 || length > word_count - at)
			break;
		ticks = ky_record_ticks(ticks, words[at]);
		if (type == KYMO_RECORD_TIME && words[at + 1] > ticks)
			ticks = words[at + 1];
		if (type == KYMO_RECORD_THREAD_CHANGE) {
			see(thread, so_far);
			index = (uint32_t)(words[at + 1] >> 32);
			thread = thread_at(count, index);
			if (thread != NULL)
				thread->tid = (uint32_t)words[at + 1];
			so_far = words[at + 3];
			ticks = words[at + 2];
		}
		so_far++;
		at += length;
	}
	see(thread, so_far);
	if (ticks > count->newest_ticks)
		count->newest_ticks = ticks;
	return index;
}

static void walk_newest(struct ky_ring_count *count, const struct ky_ring_view *view,
			uint32_t index, uint64_t *words)
{
	uint64_t number = count->threads[index].claim_number;
	uint32_t slot = count->threads[index].slot, offset;
	struct ky_slot_head head;
	bool is_busy;
	int copied;

	if (number == 0 || ky_ring_view_head(view, slot, number, &head) != 0 ||
	    ky_ring_view_published(view, slot, &is_busy, &offset) != 0)
		return;
	copied = ky_ring_view_copy(view, slot, number, KY_SLOT_HEADER_BYTES, offset, words);
	if (copied > 0)
		count->slot_threads[slot] = walk(count, words, (uint32_t)copied, index, &head);
}

int ky_ring_count(struct ky_ring_count *out, const struct ky_ring_view *view)
{
	uint32_t populated = ky_ring_view_populated(view), slot, i, known;
	uint64_t newest_number = 0, *words;

	memset(out, 0, sizeof(*out));
	out->slot_count = populated;
	out->slot_threads = ky_alloc((populated + 1u) * sizeof(*out->slot_threads));
	if (out->slot_threads == NULL)
		return -ENOMEM;
	for (slot = 0; slot < populated; slot++)
		if (note_slot(out, view, slot, &newest_number) < 0)
			return -ENOMEM;
	words = ky_alloc(KY_SLOT_BYTES);
	if (words == NULL)
		return -ENOMEM;
	known = out->thread_count;
	for (i = 0; i < known; i++)
		walk_newest(out, view, i, words);
	ky_free(words);
	return 0;
}

void ky_ring_count_release(struct ky_ring_count *count)
{
	ky_free(count->threads);
	ky_free(count->slot_threads);
	memset(count, 0, sizeof(*count));
}

uint64_t ky_ring_count_between(const struct ky_ring_count *from, const struct ky_ring_count *to)
{
	uint64_t sum = 0, before;
	uint32_t i;

	for (i = 0; i < to->thread_count; i++) {
		before = i < from->thread_count ? from->threads[i].record_count : 0;
		if (to->threads[i].record_count > before)
			sum += to->threads[i].record_count - before;
	}
	return sum;
}
