/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* string_pool.h - byte string -> small number, for the encoder's string and stack pools.
 *
 * Invariants:  numbers are 0, 1, 2, ... in the order of first use since the last reset; a slot
 *              counts only while its generation is the pool's, so a reset costs nothing.
 * Memory:      ky_alloc, at most bytes_max of text; released by ky_string_pool_release.
 * Threads: owner.
 */
#ifndef KY_WIRE_STRING_POOL_H
#define KY_WIRE_STRING_POOL_H

#include <base/buf.h>

struct ky_string_slot {
	uint64_t hash; /* or the key itself */
	uint32_t generation;
	uint32_t id;
};

struct ky_string_table {
	struct ky_string_slot *slots; /* power of two, at most half full */
	uint32_t slot_count;
	uint32_t used_count;
};

struct ky_string_pool {
	struct ky_string_table texts;
	struct ky_string_table keys;
	struct ky_buf spans; /* struct ky_string_span by id */
	struct ky_buf bytes; /* the texts, back to back */
	uint32_t generation;
	uint32_t count;
};

/* Returns 0, -ENOMEM. */
int ky_string_pool_init(struct ky_string_pool *pool);
void ky_string_pool_release(struct ky_string_pool *pool); /* zeroed or initialised */
void ky_string_pool_reset(struct ky_string_pool *pool);

/* Number of a text. key: 0, or a nonzero number that always stands for this text.
 * Returns 1 when the text is new, 0 when it was there, -ENOMEM, KYMO_E_LIMIT. */
int ky_string_pool_add(struct ky_string_pool *pool, uint64_t key, const void *text,
		       size_t text_bytes, uint32_t *id);

#endif
