/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* next_ids.h - who spawns: Tokio's counter of ids (tokio::runtime::task::id::Id::next::NEXT_ID),
 * read when something begins to run and when it ends.
 *
 * An id that was given out in between was given out by what ran, or by another thread meanwhile.
 * Invariants:  a counter is read while code of its own object runs, so the object is there.
 * Threads:     any.      Cost: two loads at either end.
 */
#ifndef KY_TOKIO_NEXT_IDS_H
#define KY_TOKIO_NEXT_IDS_H

#include <kymo/emit.h>

#include "tables.h"

/* By copy; NULL: it has no name. */
extern const uint64_t *ky_tokio_next_ids[KY_TOKIO_COPIES_MAX];

/* The id that is next; 0: not known. */
static inline uint64_t ky_tokio_next_id(uint32_t copy)
{
	const uint64_t *at = ky_tokio_next_ids[copy];

	return at ? __atomic_load_n(at, __ATOMIC_RELAXED) : 0;
}

void ky_tokio_ids_emit(uint32_t copy, uint64_t first, uint64_t next, enum kymo_spawn_by by);

/* Right before the end of what ran; first: what was next when it began, 0: not known. */
static inline void ky_tokio_ids_end(uint32_t copy, uint64_t first, enum kymo_spawn_by by)
{
	uint64_t next = ky_tokio_next_id(copy);

	if (KYMO_UNLIKELY(next != first) && first)
		ky_tokio_ids_emit(copy, first, next, by);
}

/* The copies that are known, for the trace. */
uint32_t ky_tokio_ids_count(void);

/* Of roots, whose tables do not name a copy: that of the program itself, if it has one only. The id
 * that is next; 0: not known. */
uint64_t ky_tokio_ids_root_next(void);
/* Right before the end of a root's poll; first: of its begin, 0: it began before anything was seen
 * of its thread. Returns what is next now. */
uint64_t ky_tokio_ids_root_end(uint64_t first);

/* Of this object, if it has the counter, and one copy only. */
void ky_tokio_ids_find(const struct ky_tokio_elf *elf, uint32_t copy);

#endif
