/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/id_map.h>
#include <base/hash.h>
#include <string.h>

#define SMALL_PAGES (KY_ID_MAP_SMALL_MAX / KY_ID_MAP_PAGE_IDS)
#define FIRST_SLOTS 64u

void ky_id_map_init(struct ky_id_map *map, struct ky_pages *pages)
{
	memset(map, 0, sizeof(*map));
	map->pages = pages;
}

void ky_id_map_release(struct ky_id_map *map)
{
	uint32_t i;

	for (i = 0; map->small && i < SMALL_PAGES; i++)
		ky_pages_free(map->pages, map->small[i], KY_ID_MAP_PAGE_IDS * sizeof(uint32_t));
	if (map->pages) {
		ky_pages_free(map->pages, map->small, SMALL_PAGES * sizeof(*map->small));
		ky_pages_free(map->pages, map->slots, map->slot_count * sizeof(*map->slots));
	}
	memset(map, 0, sizeof(*map));
}

static struct ky_id_slot *probe(struct ky_id_slot *slots, uint64_t slot_count, uint64_t id)
{
	uint64_t at = ky_hash_number(id) & (slot_count - 1);

	while (slots[at].value != 0 && slots[at].id != id)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

uint32_t ky_id_map_find(const struct ky_id_map *map, uint64_t id)
{
	const uint32_t *page;

	if (id < KY_ID_MAP_SMALL_MAX) {
		page = map->small ? map->small[id / KY_ID_MAP_PAGE_IDS] : NULL;
		return page ? page[id % KY_ID_MAP_PAGE_IDS] - 1u : UINT32_MAX;
	}
	if (map->slot_count == 0)
		return UINT32_MAX;
	return probe(map->slots, map->slot_count, id)->value - 1u;
}

static bool grow(struct ky_id_map *map)
{
	uint64_t i, wanted = map->slot_count ? map->slot_count * 2 : FIRST_SLOTS;
	struct ky_id_slot *slots;

	if (wanted > SIZE_MAX / sizeof(*slots))
		wanted = SIZE_MAX / sizeof(*slots);
	slots = ky_pages_alloc(map->pages, (size_t)(wanted * sizeof(*slots)));
	if (!slots)
		return false;
	for (i = 0; i < map->slot_count; i++)
		if (map->slots[i].value != 0)
			*probe(slots, wanted, map->slots[i].id) = map->slots[i];
	ky_pages_free(map->pages, map->slots, (size_t)(map->slot_count * sizeof(*slots)));
	map->slots = slots;
	map->slot_count = wanted;
	return true;
}

static uint32_t *small_slot(struct ky_id_map *map, uint64_t id)
{
	uint32_t **page;

	if (!map->small) {
		map->small = ky_pages_alloc(map->pages, SMALL_PAGES * sizeof(*map->small));
		if (!map->small)
			return NULL;
	}
	page = &map->small[id / KY_ID_MAP_PAGE_IDS];
	if (!*page) {
		*page = ky_pages_alloc(map->pages, KY_ID_MAP_PAGE_IDS * sizeof(uint32_t));
		if (!*page)
			return NULL;
	}
	return &(*page)[id % KY_ID_MAP_PAGE_IDS];
}

uint32_t *ky_id_map_slot(struct ky_id_map *map, uint64_t id)
{
	struct ky_id_slot *slot;

	if (id < KY_ID_MAP_SMALL_MAX)
		return small_slot(map, id);
	if (map->used >= map->slot_count / 4 * 3 && !grow(map))
		return NULL;
	slot = probe(map->slots, map->slot_count, id);
	if (slot->value == 0) {
		slot->id = id;
		map->used++;
	}
	return &slot->value;
}
