/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* counter_news.h - which values of the ring's counters the open segment has; for src/drain.
 * Threads: owner.
 */
#ifndef KY_DRAIN_COUNTER_NEWS_H
#define KY_DRAIN_COUNTER_NEWS_H

#include <stdbool.h>
#include <wire/ring_image.h>

struct ky_counter_news {
	uint64_t values[KY_COUNTERS];
	uint64_t reported; /* bit by index: this value is in the open segment */
};

static inline uint32_t ky_counter_count(const struct ky_ring_side *area)
{
	uint32_t count = atomic_load_explicit(&area->counter_count, memory_order_acquire);

	return count < KY_COUNTERS ? count : KY_COUNTERS;
}

static inline uint64_t ky_counter_value(const struct ky_ring_side *area, uint32_t index)
{
	return atomic_load_explicit(&area->counters[index].value, memory_order_relaxed);
}

/* The value changed, or the open segment has none; then it counts as reported. */
static inline bool ky_counter_is_news(struct ky_counter_news *news, uint32_t index, uint64_t value)
{
	uint64_t bit = UINT64_C(1) << index;

	if ((news->reported & bit) && news->values[index] == value)
		return false;
	news->reported |= bit;
	news->values[index] = value;
	return true;
}

#endif
