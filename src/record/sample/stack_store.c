/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/stack_store.h>

#include <record/emit/ring_file.h>
#include <string.h>

#define PROBES_MAX 16u

static uint64_t hash_frames(const uint64_t *frames, uint32_t count)
{
	uint64_t hash = UINT64_C(0x9ae16a3b2f90404f) + count;

	for (uint32_t i = 0; i < count; i++) {
		hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash | 1;
}

static void refuse(const struct ky_stack_store *store)
{
	atomic_fetch_add_explicit(store->refused_count, 1, memory_order_relaxed);
}

static void keep_frames(const struct ky_stack_store *store, struct ky_place_stack *stack,
			const uint64_t *frames, uint32_t count)
{
	uint64_t needed = ((uint64_t)count * KY_SAMPLE_FRAME_BYTES + KY_PLACE_UNIT_BYTES - 1) /
			  KY_PLACE_UNIT_BYTES;
	uint64_t unit = atomic_load_explicit(store->units_used, memory_order_relaxed);
	uint8_t *to;

	do {
		if (unit + needed > store->unit_count) {
			refuse(store);
			return;
		}
	} while (!atomic_compare_exchange_weak_explicit(store->units_used, &unit, unit + needed,
							memory_order_relaxed,
							memory_order_relaxed));
	to = store->units + unit * KY_PLACE_UNIT_BYTES;
	/* The pages of both ends; it spans two at most. The words are ours alone. */
	if (!ky_ring_touch(to) || !ky_ring_touch(to + needed * KY_PLACE_UNIT_BYTES - 8)) {
		refuse(store);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		memcpy(to + (size_t)i * KY_SAMPLE_FRAME_BYTES, &frames[i], KY_SAMPLE_FRAME_BYTES);
	atomic_store_explicit(&stack->place, unit | (uint64_t)count << 16 | KY_PLACE_PUBLISHED,
			      memory_order_release);
}

uint32_t ky_stack_store_number(const struct ky_stack_store *store, const uint64_t *frames,
			       uint32_t count, uint32_t none)
{
	uint64_t hash = hash_frames(frames, count), was;

	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		uint32_t at = (uint32_t)((hash >> 32) + i) % store->index_count;
		struct ky_place_stack *stack = &store->index[at];

		was = atomic_load_explicit(&stack->hash, memory_order_relaxed);
		if (was == 0 && atomic_compare_exchange_strong_explicit(&stack->hash, &was, hash,
									memory_order_relaxed,
									memory_order_relaxed)) {
			keep_frames(store, stack, frames, count);
			return at;
		}
		if (was == hash)
			return at;
	}
	refuse(store);
	return none;
}

uint32_t ky_stack_store_frames(const struct ky_stack_store *store, uint32_t number,
			       uint64_t *frames, uint32_t frames_max)
{
	uint64_t place, unit;
	uint32_t count;

	if (number >= store->index_count)
		return 0;
	place = atomic_load_explicit(&store->index[number].place, memory_order_acquire);
	unit = place & 0xffffu;
	count = (uint32_t)(place >> 16) & 0xffffu;
	if (!(place & KY_PLACE_PUBLISHED) || count > frames_max ||
	    unit * KY_PLACE_UNIT_BYTES + (uint64_t)count * KY_SAMPLE_FRAME_BYTES >
		    (uint64_t)store->unit_count * KY_PLACE_UNIT_BYTES)
		return 0;
	for (uint32_t i = 0; frames && i < count; i++) {
		frames[i] = 0;
		memcpy(&frames[i],
		       store->units + unit * KY_PLACE_UNIT_BYTES +
			       (size_t)i * KY_SAMPLE_FRAME_BYTES,
		       KY_SAMPLE_FRAME_BYTES);
	}
	return count;
}
