/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of allocations, read by a reader that trusts nothing of it: wire/alloc_table.h. */
#include <ring/ring_view.h>

const uint8_t *ky_ring_view_allocs(const struct ky_ring_view *view)
{
	if (!view->alloc_offset ||
	    atomic_load_explicit(&view->header->alloc_ready, memory_order_acquire) != 1)
		return NULL;
	return view->image + view->alloc_offset;
}

bool ky_ring_view_alloc(const uint8_t *area, uint32_t entry, struct ky_alloc_seen *out)
{
	const _Atomic uint64_t *word =
		(const _Atomic uint64_t *)(const void *)(area + KY_ALLOC_WORDS_OFFSET) + entry;
	const struct ky_alloc_entry *from =
		(const struct ky_alloc_entry *)(const void *)(area + KY_ALLOC_ENTRIES_OFFSET) +
		entry;

	out->address = atomic_load_explicit(word, memory_order_acquire);
	if (out->address <= KY_ALLOC_BUSY)
		return false;
	out->stamp = atomic_load_explicit(&from->stamp, memory_order_relaxed);
	out->bytes = atomic_load_explicit(&from->bytes, memory_order_relaxed);
	out->weight = atomic_load_explicit(&from->weight, memory_order_relaxed);
	out->about = atomic_load_explicit(&from->about, memory_order_relaxed);
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(word, memory_order_relaxed) == out->address &&
	       atomic_load_explicit(&from->stamp, memory_order_relaxed) == out->stamp;
}

uint64_t ky_ring_view_alloc_units(const uint8_t *area)
{
	const struct ky_alloc_head *head = (const struct ky_alloc_head *)(const void *)area;
	uint64_t used = atomic_load_explicit(&head->units_used, memory_order_relaxed);

	return used < KY_ALLOC_UNITS ? used : KY_ALLOC_UNITS;
}

uint32_t ky_ring_view_alloc_stack(const uint8_t *area, uint32_t number,
				  uint64_t frames[KY_ALLOC_FRAMES_MAX])
{
	const struct ky_place_stack *stacks =
		(const struct ky_place_stack *)(const void *)(area + KY_ALLOC_STACKS_OFFSET);

	if (number >= KY_ALLOC_STACKS)
		return 0;
	return ky_ring_view_kept_stack(stacks, number, area + KY_ALLOC_UNITS_OFFSET, KY_ALLOC_UNITS,
				       frames, KY_ALLOC_FRAMES_MAX);
}
