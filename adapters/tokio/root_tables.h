/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* root_tables.h - finds the waker tables of block_on in an object, by the names of their functions.
 *
 * Tokio has other tables made by util::wake (of the tasks of a JoinSet); those of a runtime are the
 * ones whose wake_by_ref reaches a scheduler or its driver.
 *
 * Threads: setup-only.
 */
#ifndef KY_TOKIO_ROOT_TABLES_H
#define KY_TOKIO_ROOT_TABLES_H

#include "tables.h"

/* Functions that stand first in such tables. */
struct ky_tokio_root_clones {
	struct {
		uintptr_t address;
		enum ky_tokio_root_kind kind;
	} list[KY_TOKIO_ROOT_TABLES_MAX];
	uint32_t count;
	uintptr_t low, high;
};

/* Adds the function of this name, if it is one. */
void ky_tokio_root_clones_add(struct ky_tokio_root_clones *clones, const char *name,
			      uintptr_t address);

static inline bool ky_tokio_root_may_be(const struct ky_tokio_root_clones *clones, uintptr_t word)
{
	return word - clones->low <= clones->high - clones->low && clones->count;
}

/* Adds the table at these words, if it is one. Returns whether it is. */
bool ky_tokio_root_table_add(struct ky_tokio_found *found, const struct ky_tokio_elf *elf,
			     const struct ky_tokio_root_clones *clones, uintptr_t *words);

#endif
