/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ring_tables.h"

#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#define TID 501u

void test_ring_add_tables(struct test_ring *ring)
{
	size_t bytes = ring->image_bytes + KY_PLACE_AREA_BYTES + KY_ALLOC_AREA_BYTES;
	uint8_t *image = aligned_alloc(KY_SLOT_BYTES,
				       (bytes + KY_SLOT_BYTES - 1) / KY_SLOT_BYTES * KY_SLOT_BYTES);

	assert_non_null(image);
	memset(image, 0, bytes);
	memcpy(image, ring->image, ring->image_bytes);
	free(ring->image);
	ring->header = (struct ky_ring_header *)(void *)image;
	ring->control = (void *)(image + ((uint8_t *)ring->control - ring->image));
	ring->side = (void *)(image + ((uint8_t *)ring->side - ring->image));
	ring->header->place_offset = ring->image_bytes;
	ring->header->place_bytes = KY_PLACE_AREA_BYTES;
	ring->header->alloc_offset = ring->image_bytes + KY_PLACE_AREA_BYTES;
	ring->header->alloc_bytes = KY_ALLOC_AREA_BYTES;
	ring->header->file_bytes = bytes;
	ring->image = image;
	ring->image_bytes = bytes;
	atomic_store(&ring->header->place_ready, 1);
	atomic_store(&ring->header->alloc_ready, 1);
}

static uint8_t *places(struct test_ring *ring)
{
	return ring->image + ring->header->place_offset;
}

static uint8_t *allocs(struct test_ring *ring)
{
	return ring->image + ring->header->alloc_offset;
}

struct kymo_place_row *test_place_row(struct test_ring *ring, uint32_t slot)
{
	struct kymo_place_set *sets = (struct kymo_place_set *)(void *)(places(ring) +
									KY_PLACE_SETS_OFFSET);

	return &sets[slot / KYMO_PLACE_WAYS].ways[slot % KYMO_PLACE_WAYS];
}

static void put_stack(uint8_t *stacks, uint8_t *units, uint32_t number, uint32_t unit,
		      uint64_t leaf, uint32_t count)
{
	struct ky_place_stack *stack = (struct ky_place_stack *)(void *)stacks + number;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t frame = leaf + i;

		memcpy(units + unit * KY_PLACE_UNIT_BYTES + i * KY_SAMPLE_FRAME_BYTES, &frame,
		       KY_SAMPLE_FRAME_BYTES);
	}
	atomic_store(&stack->hash, number + 1);
	atomic_store(&stack->place, unit | (uint64_t)count << 16 | KY_PLACE_PUBLISHED);
}

uint32_t test_place_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count)
{
	put_stack(places(ring) + KY_PLACE_STACKS_OFFSET, places(ring) + KY_PLACE_UNITS_OFFSET,
		  number, unit, leaf, count);
	return number;
}

uint32_t test_alloc_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count)
{
	put_stack(allocs(ring) + KY_ALLOC_STACKS_OFFSET, allocs(ring) + KY_ALLOC_UNITS_OFFSET,
		  number, unit, leaf, count);
	return number;
}

void test_points(struct test_ring *ring, uint32_t number, uint64_t word)
{
	uint64_t *table = (uint64_t *)(void *)(places(ring) + KY_PLACE_POINTS_OFFSET);

	table[number] = word | KY_PLACE_IS_WORD;
}

static uint64_t low_word(uint64_t ns, uint32_t low)
{
	return test_ticks(ns) >> KYMO_PLACE_TICKS_SHIFT << KYMO_PLACE_LOW_BITS | low;
}

struct kymo_place_row *test_place(struct test_ring *ring, uint32_t slot, uint64_t task,
				  uint32_t name, uint64_t ns, uint32_t points)
{
	struct kymo_place_row *row = test_place_row(ring, slot);

	row->task = task;
	row->polled = low_word(ns, points);
	row->since = name;
	return row;
}

void test_place_since(struct test_ring *ring, uint32_t slot, uint64_t ns)
{
	struct kymo_place_row *row = test_place_row(ring, slot);

	row->since = low_word(ns, (uint32_t)(row->since & KYMO_PLACE_LOW_MASK));
}

struct ky_alloc_entry *test_alloc(struct test_ring *ring, uint32_t entry, uint64_t address,
				  uint64_t bytes, uint64_t ns, uint32_t stack)
{
	struct ky_alloc_entry *out = (struct ky_alloc_entry *)(void *)(allocs(ring) +
								       KY_ALLOC_ENTRIES_OFFSET) +
				     entry;
	_Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(allocs(ring) +
							      KY_ALLOC_WORDS_OFFSET) +
				 entry;

	atomic_store(&out->stamp, test_ticks(ns));
	atomic_store(&out->bytes, bytes);
	atomic_store(&out->weight, UINT64_C(1) << 32);
	atomic_store(&out->about, (uint64_t)TID << 32 | stack);
	atomic_store(word, address);
	return out;
}
