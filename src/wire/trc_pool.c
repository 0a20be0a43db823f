/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <wire/trc_pool.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define BLOCK_BYTES 65536u
#define LARGE_BYTES 16384u
#define ARENA_KEPT_BYTES (4u << 20)
#define PIECE_OVERHEAD_BYTES 48u /* an entry of a half-full table, and rounding */
#define SLOTS_MIN 256u

struct ky_arena_block {
	struct ky_arena_block *next;
	size_t used;
	_Alignas(8) uint8_t bytes[];
};

static void free_blocks(struct ky_arena_block *block)
{
	while (block) {
		struct ky_arena_block *next = block->next;

		ky_free(block);
		block = next;
	}
}

void ky_arena_release(struct ky_arena *arena)
{
	free_blocks(arena->first);
	free_blocks(arena->large);
	arena->first = NULL;
	arena->current = NULL;
	arena->large = NULL;
	arena->bytes_used = 0;
}

void ky_arena_reset(struct ky_arena *arena)
{
	free_blocks(arena->large);
	arena->large = NULL;
	if (arena->bytes_used > ARENA_KEPT_BYTES && arena->first) {
		free_blocks(arena->first->next);
		arena->first->next = NULL;
	}
	arena->current = arena->first;
	if (arena->current)
		arena->current->used = 0;
	arena->bytes_used = 0;
}

static struct ky_arena_block *block_for(struct ky_arena *arena, size_t count)
{
	struct ky_arena_block *block = arena->current;

	if (count > LARGE_BYTES) {
		block = ky_alloc(sizeof(*block) + count);
		if (block) {
			block->next = arena->large;
			arena->large = block;
		}
		return block;
	}
	if (block && BLOCK_BYTES - block->used >= count)
		return block;
	block = block ? block->next : NULL;
	if (!block) {
		block = ky_alloc(sizeof(*block) + BLOCK_BYTES);
		if (!block)
			return NULL;
		if (arena->current)
			arena->current->next = block;
		else
			arena->first = block;
	}
	block->used = 0;
	arena->current = block;
	return block;
}

int ky_arena_copy(struct ky_arena *arena, const uint8_t *bytes, size_t count, const uint8_t **out)
{
	size_t padded = (count + 7) & ~(size_t)7;
	struct ky_arena_block *block;

	if (padded < count || padded + PIECE_OVERHEAD_BYTES > arena->bytes_max - arena->bytes_used)
		return KYMO_E_LIMIT;
	block = block_for(arena, padded);
	if (!block)
		return -ENOMEM;
	*out = block->bytes + block->used;
	if (count)
		memcpy(block->bytes + block->used, bytes, count);
	block->used += padded;
	arena->bytes_used += padded + PIECE_OVERHEAD_BYTES;
	return 0;
}

static uint32_t shift_of(uint32_t slot_count)
{
	return 32u - (uint32_t)__builtin_ctz(slot_count);
}

int ky_id_table_init(struct ky_id_table *table, uintptr_t seed)
{
	memset(table, 0, sizeof(*table));
	table->slots = ky_alloc(SLOTS_MIN * sizeof(*table->slots));
	if (!table->slots)
		return -ENOMEM;
	table->slot_count = SLOTS_MIN;
	table->shift = shift_of(SLOTS_MIN);
	table->generation = 1;
	/* The upper part of the golden ratio spreads 0, 1, 2, ... well; the rest is the seed's. */
	table->factor = UINT32_C(0x9e370001) | ((uint32_t)(seed >> 4) & 0xfffeu);
	return 0;
}

void ky_id_table_release(struct ky_id_table *table)
{
	ky_free(table->slots);
	memset(table, 0, sizeof(*table));
}

void ky_id_table_reset(struct ky_id_table *table)
{
	table->used_count = 0;
	if (++table->generation)
		return;
	/* After 2^32 resets a slot could seem alive again. */
	table->generation = 1;
	memset(table->slots, 0, table->slot_count * sizeof(*table->slots));
}

static struct ky_id_entry *slot_for(const struct ky_id_table *table, uint32_t id)
{
	uint32_t at = (id * table->factor) >> table->shift;

	while (table->slots[at].generation == table->generation && table->slots[at].id != id)
		at = (at + 1) & (table->slot_count - 1);
	return &table->slots[at];
}

static int grow(struct ky_id_table *table)
{
	struct ky_id_table bigger = *table;

	if (table->slot_count > UINT32_MAX / 4 / sizeof(*table->slots))
		return KYMO_E_LIMIT;
	bigger.slot_count = table->slot_count * 2;
	bigger.shift = table->shift - 1;
	bigger.slots = ky_alloc(bigger.slot_count * sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->slot_count; i++) {
		if (table->slots[i].generation == table->generation)
			*slot_for(&bigger, table->slots[i].id) = table->slots[i];
	}
	ky_free(table->slots);
	*table = bigger;
	return 0;
}

int ky_id_table_set(struct ky_id_table *table, uint32_t id, const uint8_t *bytes, uint32_t count)
{
	struct ky_id_entry *entry;

	if (table->used_count >= table->slot_count / 2) {
		int err = grow(table);

		if (err)
			return err;
	}
	entry = slot_for(table, id);
	if (entry->generation != table->generation)
		table->used_count++;
	entry->bytes = bytes;
	entry->count = count;
	entry->id = id;
	entry->generation = table->generation;
	return 0;
}
