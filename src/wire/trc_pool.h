/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trc_pool.h - what a stream defines for later use: copies of bytes, found again by a number.
 *
 * Invariants:  a pointer stays valid until the reset of its pool; a later definition of a number
 *              replaces the earlier one; bytes_used <= bytes_max.
 * Memory:      ky_alloc; after a reset at most ARENA_KEPT_BYTES stay allocated.
 * Threads: owner.
 */
#ifndef KY_WIRE_TRC_POOL_H
#define KY_WIRE_TRC_POOL_H

#include <stddef.h>
#include <stdint.h>

struct ky_arena_block;

/* Bytes that live as long as a stream. */
struct ky_arena {
	struct ky_arena_block *first; /* small pieces */
	struct ky_arena_block *current;
	struct ky_arena_block *large; /* one piece each, given back at the reset */
	uint64_t bytes_used;          /* with the overhead of each piece */
	uint64_t bytes_max;
};

void ky_arena_release(struct ky_arena *arena);
void ky_arena_reset(struct ky_arena *arena);

/* Copy of count bytes, 8-byte aligned. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_arena_copy(struct ky_arena *arena, const uint8_t *bytes, size_t count, const uint8_t **out);

struct ky_id_entry {
	const uint8_t *bytes;
	uint32_t count; /* bytes of a string, frames of a stack */
	uint32_t id;
	uint32_t generation;
};

struct ky_id_table {
	struct ky_id_entry *slots; /* power of two, at most half full */
	uint32_t slot_count;
	uint32_t used_count;
	uint32_t generation;
	uint32_t shift;
	uint32_t factor; /* odd; not known to who writes a trace, so he cannot aim at one slot */
};

/* Returns 0, -ENOMEM. */
int ky_id_table_init(struct ky_id_table *table, uintptr_t seed);
void ky_id_table_release(struct ky_id_table *table);
void ky_id_table_reset(struct ky_id_table *table);
/* Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_id_table_set(struct ky_id_table *table, uint32_t id, const uint8_t *bytes, uint32_t count);

/* NULL: not defined. */
static inline const struct ky_id_entry *ky_id_table_find(const struct ky_id_table *table,
							 uint32_t id)
{
	uint32_t at = (id * table->factor) >> table->shift;

	for (;; at = (at + 1) & (table->slot_count - 1)) {
		const struct ky_id_entry *entry = &table->slots[at];

		if (entry->generation != table->generation)
			return NULL;
		if (entry->id == id)
			return entry;
	}
}

#endif
