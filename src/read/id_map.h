/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* id_map.h - u64 id to u32 index: a page table for small ids (runtimes number their tasks from 1),
 * open addressing for the rest.
 *
 * Memory: ky_pages; at most 16 MiB for the page table, 32 B per other id.
 * Threads: owner while it grows; any number of readers afterwards.
 */
#ifndef KY_READ_ID_MAP_H
#define KY_READ_ID_MAP_H

#include <read/column.h>

#define KY_ID_MAP_SMALL_MAX (UINT64_C(1) << 22)
#define KY_ID_MAP_PAGE_IDS 4096u

struct ky_id_slot {
	uint64_t id;
	uint32_t value; /* index + 1; 0 empty */
};

struct ky_id_map {
	struct ky_pages *pages;
	uint32_t **small; /* index + 1 by id */
	struct ky_id_slot *slots;
	uint64_t slot_count; /* a power of two, or 0 */
	uint64_t used;
};

void ky_id_map_init(struct ky_id_map *map, struct ky_pages *pages);
void ky_id_map_release(struct ky_id_map *map);

/* Index of an id, UINT32_MAX when it has none. */
uint32_t ky_id_map_find(const struct ky_id_map *map, uint64_t id);
/* Where the index + 1 of an id is kept (0: new), NULL with pages->failed set. Valid until the
 * next. */
uint32_t *ky_id_map_slot(struct ky_id_map *map, uint64_t id);

#endif
