/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <wire/string_pool.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define SLOTS_MIN 256u
#define TEXT_BYTES_MAX ((size_t)256 << 20)
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

struct ky_string_span {
	uint32_t offset;
	uint32_t count;
};

static uint64_t mix(uint64_t value)
{
	value *= GOLDEN;
	return value ^ (value >> 32);
}

static uint64_t hash_text(const uint8_t *text, size_t count)
{
	uint64_t hash = mix(count + 1);

	for (; count >= 8; text += 8, count -= 8)
		hash = mix(hash ^ ky_get_u64(text));
	while (count--)
		hash = mix(hash ^ *text++);
	return hash;
}

static int table_init(struct ky_string_table *table, uint32_t slot_count)
{
	table->slots = ky_alloc(slot_count * sizeof(*table->slots));
	table->slot_count = slot_count;
	table->used_count = 0;
	return table->slots ? 0 : -ENOMEM;
}

/* The slot that holds `hash` and passes `same`, or the free one where it belongs. */
static struct ky_string_slot *table_find(const struct ky_string_pool *pool,
					 const struct ky_string_table *table, uint64_t hash,
					 const void *text, size_t text_bytes)
{
	uint32_t mask = table->slot_count - 1;

	for (uint32_t at = (uint32_t)(mix(hash) & mask);; at = (at + 1) & mask) {
		struct ky_string_slot *slot = &table->slots[at];
		struct ky_string_span span;

		if (slot->generation != pool->generation)
			return slot;
		if (slot->hash != hash)
			continue;
		if (!text)
			return slot;
		memcpy(&span, pool->spans.bytes + (size_t)slot->id * sizeof(span), sizeof(span));
		if (span.count == text_bytes &&
		    (!text_bytes || !memcmp(pool->bytes.bytes + span.offset, text, text_bytes)))
			return slot;
	}
}

static int table_grow(struct ky_string_pool *pool, struct ky_string_table *table)
{
	struct ky_string_table bigger;
	int err;

	if (table->used_count < table->slot_count / 2)
		return 0;
	if (table->slot_count > UINT32_MAX / 4)
		return KYMO_E_LIMIT;
	err = table_init(&bigger, table->slot_count * 2);
	if (err)
		return err;
	for (uint32_t i = 0; i < table->slot_count; i++) {
		uint32_t mask = bigger.slot_count - 1;
		uint32_t at = (uint32_t)(mix(table->slots[i].hash) & mask);

		if (table->slots[i].generation != pool->generation)
			continue;
		while (bigger.slots[at].generation == pool->generation)
			at = (at + 1) & mask;
		bigger.slots[at] = table->slots[i];
		bigger.used_count++;
	}
	ky_free(table->slots);
	*table = bigger;
	return 0;
}

int ky_string_pool_init(struct ky_string_pool *pool)
{
	int err;

	memset(pool, 0, sizeof(*pool));
	pool->generation = 1;
	ky_buf_init(&pool->spans, TEXT_BYTES_MAX);
	ky_buf_init(&pool->bytes, TEXT_BYTES_MAX);
	err = table_init(&pool->texts, SLOTS_MIN);
	if (!err)
		err = table_init(&pool->keys, SLOTS_MIN);
	if (err)
		ky_string_pool_release(pool);
	return err;
}

void ky_string_pool_release(struct ky_string_pool *pool)
{
	ky_free(pool->texts.slots);
	ky_free(pool->keys.slots);
	ky_buf_release(&pool->spans);
	ky_buf_release(&pool->bytes);
	memset(pool, 0, sizeof(*pool));
}

void ky_string_pool_reset(struct ky_string_pool *pool)
{
	pool->texts.used_count = 0;
	pool->keys.used_count = 0;
	pool->count = 0;
	ky_buf_clear(&pool->spans);
	ky_buf_clear(&pool->bytes);
	if (++pool->generation)
		return;
	/* After 2^32 resets a slot could seem alive again. */
	pool->generation = 1;
	memset(pool->texts.slots, 0, pool->texts.slot_count * sizeof(*pool->texts.slots));
	memset(pool->keys.slots, 0, pool->keys.slot_count * sizeof(*pool->keys.slots));
}

static void table_set(struct ky_string_pool *pool, struct ky_string_table *table,
		      struct ky_string_slot *slot, uint64_t hash, uint32_t id)
{
	slot->hash = hash;
	slot->generation = pool->generation;
	slot->id = id;
	table->used_count++;
}

static int add_text(struct ky_string_pool *pool, const void *text, size_t text_bytes, uint32_t *id)
{
	uint64_t hash = hash_text(text, text_bytes);
	struct ky_string_slot *slot;
	struct ky_string_span span;
	int err = table_grow(pool, &pool->texts);

	if (err)
		return err;
	slot = table_find(pool, &pool->texts, hash, text, text_bytes);
	if (slot->generation == pool->generation) {
		*id = slot->id;
		return 0;
	}
	span.offset = (uint32_t)pool->bytes.used;
	span.count = (uint32_t)text_bytes;
	err = ky_buf_reserve(&pool->spans, sizeof(span));
	if (!err)
		err = ky_buf_append(&pool->bytes, text, text_bytes);
	if (err) {
		/* Sticky errors of a ky_buf are for its owner; here the next text may fit again. */
		pool->spans.failed = 0;
		pool->bytes.failed = 0;
		return err;
	}
	ky_buf_append(&pool->spans, &span, sizeof(span));
	*id = pool->count++;
	table_set(pool, &pool->texts, slot, hash, *id);
	return 1;
}

int ky_string_pool_add(struct ky_string_pool *pool, uint64_t key, const void *text,
		       size_t text_bytes, uint32_t *id)
{
	struct ky_string_slot *slot;
	int is_new, err;

	text = text ? text : "";
	if (!key)
		return add_text(pool, text, text_bytes, id);
	slot = table_find(pool, &pool->keys, key, NULL, 0);
	if (slot->generation == pool->generation) {
		*id = slot->id;
		return 0;
	}
	err = table_grow(pool, &pool->keys);
	if (err)
		return err;
	is_new = add_text(pool, text, text_bytes, id);
	if (is_new < 0)
		return is_new;
	slot = table_find(pool, &pool->keys, key, NULL, 0);
	table_set(pool, &pool->keys, slot, key, *id);
	return is_new;
}
