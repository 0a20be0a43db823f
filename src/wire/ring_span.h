/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_span.h - reads an open span of the side area that its process may change meanwhile.
 * Pure. Threads: any.
 */
#ifndef KY_WIRE_RING_SPAN_H
#define KY_WIRE_RING_SPAN_H

#include <stdbool.h>
#include <wire/ring_image.h>

struct ky_open_span {
	uint64_t id, begin_ticks;
	uint64_t word; /* id << 24 | name */
	uint32_t name;
};

/* False: nothing is open there, or it changes. entry: below KY_SPANS. */
static inline bool ky_ring_span(const struct ky_ring_side *side, uint32_t entry,
				struct ky_open_span *out)
{
	const struct ky_ring_span *span = &side->spans[entry];

	/* Pairs with the stores of copy_entry() in span_table.c: ticks first, then the word. */
	out->word = atomic_load_explicit(&span->word, memory_order_acquire);
	out->begin_ticks = atomic_load_explicit(&span->begin_ticks, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	out->id = out->word >> 24;
	out->name = (uint32_t)out->word & 0xffffffu;
	return out->id && atomic_load_explicit(&span->word, memory_order_relaxed) == out->word;
}

#endif
