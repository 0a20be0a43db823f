/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/hash.h>
#include <kymo/base.h>
#include <read/names.h>
#include <string.h>

#define TEXT_BYTES_MAX (64u << 10)
#define ARENA_BYTES (64u << 10)
#define FIRST_SLOTS 256u

void ky_names_init(struct ky_names *names, struct ky_pages *pages)
{
	memset(names, 0, sizeof(*names));
	names->pages = pages;
}

void ky_names_release(struct ky_names *names)
{
	uint32_t i;

	if (!names->pages)
		return;
	for (i = 0; i < names->arena_count; i++)
		ky_pages_free(names->pages, names->arenas[i], names->arena_bytes[i]);
	ky_pages_free(names->pages, names->arenas, names->arena_capacity * sizeof(*names->arenas));
	ky_pages_free(names->pages, names->arena_bytes,
		      names->arena_bytes_capacity * sizeof(*names->arena_bytes));
	ky_pages_free(names->pages, names->names, names->capacity * sizeof(*names->names));
	ky_pages_free(names->pages, names->slots, names->slot_count * sizeof(*names->slots));
	memset(names, 0, sizeof(*names));
}

static uint32_t hash_text(const uint8_t *text, size_t count)
{
	uint64_t hash = ky_hash_bytes(KY_HASH_START, text, count);

	return (uint32_t)(hash ^ (hash >> 32));
}

static uint32_t *probe(const struct ky_names *names, const void *text, size_t count, uint32_t hash)
{
	uint32_t at = hash & (names->slot_count - 1);

	while (names->slots[at] != 0) {
		const struct ky_name *name = &names->names[names->slots[at] - 1];

		if (name->hash == hash && name->bytes == count &&
		    (count == 0 || memcmp(name->text, text, count) == 0))
			break;
		at = (at + 1) & (names->slot_count - 1);
	}
	return &names->slots[at];
}

static bool grow_slots(struct ky_names *names)
{
	uint32_t i, at, wanted = names->slot_count ? names->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots = ky_pages_alloc(names->pages, wanted * sizeof(*slots));

	if (!slots)
		return false;
	for (i = 0; i < names->count; i++) {
		at = names->names[i].hash & (wanted - 1);
		while (slots[at] != 0)
			at = (at + 1) & (wanted - 1);
		slots[at] = i + 1;
	}
	ky_pages_free(names->pages, names->slots, names->slot_count * sizeof(*slots));
	names->slots = slots;
	names->slot_count = wanted;
	return true;
}

static uint8_t *take_bytes(struct ky_names *names, uint32_t count)
{
	uint32_t last, wanted = count > ARENA_BYTES ? count : ARENA_BYTES;
	uint8_t *arena;

	if (names->arena_left < count) {
		if (!ky_pages_array(names->pages, &names->arenas, &names->arena_capacity,
				    names->arena_count + 1, sizeof(*names->arenas)))
			return NULL;
		if (!ky_pages_array(names->pages, &names->arena_bytes, &names->arena_bytes_capacity,
				    names->arena_count + 1, sizeof(*names->arena_bytes)))
			return NULL;
		arena = ky_pages_alloc(names->pages, wanted);
		if (!arena)
			return NULL;
		names->arenas[names->arena_count] = arena;
		names->arena_bytes[names->arena_count++] = wanted;
		names->arena_left = wanted;
	}
	last = names->arena_count - 1;
	arena = names->arenas[last] + (names->arena_bytes[last] - names->arena_left);
	names->arena_left -= count;
	return arena;
}

uint32_t ky_names_intern(struct ky_names *names, const void *text, size_t text_bytes)
{
	uint32_t count = text_bytes < TEXT_BYTES_MAX ? (uint32_t)text_bytes : TEXT_BYTES_MAX - 1;
	uint32_t hash = hash_text(text, count), *slot;
	struct ky_name *name;
	uint8_t *bytes;

	if (names->count >= names->slot_count / 2 && !grow_slots(names))
		return UINT32_MAX;
	slot = probe(names, text, count, hash);
	if (*slot != 0)
		return *slot - 1;
	if (names->count == KY_NAMES_MAX) {
		names->pages->failed = KYMO_E_LIMIT;
		return UINT32_MAX;
	}
	if (!ky_pages_array(names->pages, &names->names, &names->capacity, names->count + 1,
			    sizeof(*names->names)))
		return UINT32_MAX;
	bytes = take_bytes(names, count + 1);
	if (!bytes)
		return UINT32_MAX;
	if (count > 0)
		memcpy(bytes, text, count);
	bytes[count] = 0;
	name = &names->names[names->count++];
	name->text = (const char *)bytes;
	name->bytes = count;
	name->hash = hash;
	*slot = names->count;
	return names->count - 1;
}

uint32_t ky_names_find(const struct ky_names *names, const void *text, size_t text_bytes)
{
	if (names->slot_count == 0 || text_bytes >= TEXT_BYTES_MAX)
		return UINT32_MAX;
	return *probe(names, text, text_bytes, hash_text(text, text_bytes)) - 1u;
}

uint32_t ky_names_intern_below(struct ky_names *names, const void *text, size_t text_bytes,
			       uint32_t limit)
{
	return names->count < limit ? ky_names_intern(names, text, text_bytes) :
				      ky_names_find(names, text, text_bytes);
}
