/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The place table, read by a reader that trusts nothing of it: wire/place_table.h. */
#include <ring/ring_view.h>

#include <string.h>
#include <wire/sample_area.h>

#define READS_MAX 100u

const uint8_t *ky_ring_view_places(const struct ky_ring_view *view)
{
	if (!view->place_offset ||
	    atomic_load_explicit(&view->header->place_ready, memory_order_acquire) != 1)
		return NULL;
	return view->image + view->place_offset;
}

/* The stamp keeps 40 bits of the ticks: the newest such moment that is not in the future. */
static uint64_t polled_ticks(uint64_t word, uint64_t now_ticks)
{
	uint64_t bits = word >> KYMO_PLACE_TAG_BITS << KYMO_PLACE_TICKS_SHIFT;
	uint64_t mask = (UINT64_C(1) << (64 - KYMO_PLACE_TAG_BITS + KYMO_PLACE_TICKS_SHIFT)) - 1;
	uint64_t ago = (now_ticks - bits) & mask;

	return ago < now_ticks ? now_ticks - ago : 0;
}

static bool copy_slot(const struct ky_place_slot *slot, struct ky_place_seen *out)
{
	uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
	uint64_t stacks;

	if (sequence & 1u)
		return false;
	out->one_in = atomic_load_explicit(&slot->one_in, memory_order_relaxed);
	out->task_word = atomic_load_explicit(&slot->task_word, memory_order_relaxed);
	out->since_ticks = atomic_load_explicit(&slot->since_ticks, memory_order_relaxed);
	out->taken_ticks = atomic_load_explicit(&slot->taken_ticks, memory_order_relaxed);
	out->moved_ticks = atomic_load_explicit(&slot->moved_ticks, memory_order_relaxed);
	stacks = atomic_load_explicit(&slot->stacks, memory_order_relaxed);
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != sequence)
		return false;
	for (uint32_t i = 0; i < KYMO_PLACE_STACKS_MAX; i++)
		out->stacks[i] = (uint32_t)(stacks >> 16 * i) & 0xffffu;
	out->is_truncated = stacks >> 48 & KY_PLACE_TRUNCATED;
	return true;
}

enum ky_place_read ky_ring_view_place(const uint8_t *area, uint32_t slot, uint64_t now_ticks,
				      struct ky_place_seen *out)
{
	const struct kymo_place_set *sets =
		(const struct kymo_place_set *)(const void *)(area + KY_PLACE_SETS_OFFSET);
	const struct ky_place_slot *slots =
		(const struct ky_place_slot *)(const void *)(area + KY_PLACE_SLOTS_OFFSET);
	const uint64_t *word = &sets[slot / KYMO_PLACE_WAYS].tasks[slot % KYMO_PLACE_WAYS];

	memset(out, 0, sizeof(*out));
	for (uint32_t reads = 0; reads < READS_MAX; reads++) {
		uint64_t task = __atomic_load_n(word, __ATOMIC_ACQUIRE) & KY_PLACE_TASK_MASK,
			 polled;
		uint32_t hash = kymo_place_hash(task);

		if (!task)
			return KY_PLACE_FREE;
		if (!copy_slot(&slots[slot], out) || out->task_word >> KYMO_NAME_BITS != task ||
		    (__atomic_load_n(word, __ATOMIC_RELAXED) & KY_PLACE_TASK_MASK) != task)
			continue;
		polled = __atomic_load_n(
			&sets[KYMO_PLACE_SET_OF(hash)].polled[KYMO_PLACE_WAY_OF(hash)],
			__ATOMIC_RELAXED);
		if (polled && KYMO_PLACE_TAG_OF((uint32_t)polled) == KYMO_PLACE_TAG_OF(hash))
			out->polled_ticks = polled_ticks(polled, now_ticks);
		return KY_PLACE_WHOLE;
	}
	return KY_PLACE_CHANGING;
}

void ky_ring_view_place_copy(const uint8_t *area, uint32_t slot, uint64_t out[8])
{
	const struct ky_place_slot *slots =
		(const struct ky_place_slot *)(const void *)(area + KY_PLACE_SLOTS_OFFSET);
	const _Atomic uint64_t *words = (const void *)&slots[slot];
	struct ky_place_seen seen;

	memset(out, 0, 8 * sizeof(*out));
	for (uint32_t reads = 0; reads < READS_MAX; reads++) {
		uint32_t sequence = atomic_load_explicit(&slots[slot].sequence,
							 memory_order_acquire);

		for (uint32_t i = 0; i < 7; i++) /* the last is anybody's */
			out[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
		if (copy_slot(&slots[slot], &seen) &&
		    atomic_load_explicit(&slots[slot].sequence, memory_order_relaxed) == sequence)
			return;
	}
	memset(out, 0, 8 * sizeof(*out));
}

uint64_t ky_ring_view_place_units(const uint8_t *area)
{
	const struct ky_place_head *head = (const struct ky_place_head *)(const void *)area;
	uint64_t used = atomic_load_explicit(&head->units_used, memory_order_relaxed);

	return used < KY_PLACE_UNITS ? used : KY_PLACE_UNITS;
}

uint32_t ky_ring_view_kept_stack(const struct ky_place_stack *stacks, uint32_t number,
				 const uint8_t *units, uint32_t unit_count, uint64_t *frames,
				 uint32_t frames_max)
{
	const uint8_t *from;
	uint64_t place, unit, count;

	place = atomic_load_explicit(&stacks[number].place, memory_order_acquire);
	unit = place & 0xffffu;
	count = place >> 16 & 0xffffu;
	if (!(place & KY_PLACE_PUBLISHED) || count > frames_max ||
	    unit * KY_PLACE_UNIT_BYTES + count * KY_SAMPLE_FRAME_BYTES >
		    (uint64_t)unit_count * KY_PLACE_UNIT_BYTES)
		return 0;
	from = units + unit * KY_PLACE_UNIT_BYTES;
	for (uint32_t i = 0; i < count; i++, from += KY_SAMPLE_FRAME_BYTES) {
		frames[i] = 0;
		memcpy(&frames[i], from, KY_SAMPLE_FRAME_BYTES);
	}
	return (uint32_t)count;
}

uint32_t ky_ring_view_place_stack(const uint8_t *area, uint32_t number,
				  uint64_t frames[KYMO_PLACE_FRAMES_MAX])
{
	const struct ky_place_stack *stacks =
		(const struct ky_place_stack *)(const void *)(area + KY_PLACE_STACKS_OFFSET);

	if (number >= KY_PLACE_STACKS)
		return 0;
	return ky_ring_view_kept_stack(stacks, number, area + KY_PLACE_UNITS_OFFSET, KY_PLACE_UNITS,
				       frames, KYMO_PLACE_FRAMES_MAX);
}
