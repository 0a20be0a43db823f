/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "next_ids.h"

#include <string.h>
#include <sys/auxv.h>

#define ID_MAX (UINT64_C(1) << KYMO_TASK_BITS)

const uint64_t *ky_tokio_next_ids[KY_TOKIO_COPIES_MAX];
static uint32_t root_copy = KY_TOKIO_COPIES_MAX;
static uint64_t first_id; /* of this recording, of root_copy */

__attribute__((noinline)) void ky_tokio_ids_emit(uint32_t copy, uint64_t first, uint64_t next,
						 enum kymo_spawn_by by)
{
	uint64_t count = next - first;

	/* A counter that was found meanwhile, or is none. */
	if (next < first || next >= ID_MAX)
		return;
	if (count > KYMO_SPAWN_COUNT_MAX)
		count = KYMO_SPAWN_COUNT_MAX;
	kymo_emit(KYMO_GATE_SPAWN, KYMO_RECORD_SPAWN_WINDOW,
		  (uint32_t)by | copy << KYMO_SPAWN_COPY_SHIFT, 1, first << KYMO_NAME_BITS | count,
		  0, 0);
}

uint32_t ky_tokio_ids_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < KY_TOKIO_COPIES_MAX; i++)
		count += ky_tokio_next_ids[i] != NULL;
	return count;
}

uint64_t ky_tokio_ids_root_next(void)
{
	return root_copy < KY_TOKIO_COPIES_MAX ? ky_tokio_next_id(root_copy) : 0;
}

uint64_t ky_tokio_ids_root_end(uint64_t first)
{
	uint64_t next = ky_tokio_ids_root_next();

	if (first < first_id) /* in an earlier recording, or never */
		first = first_id;
	if (KYMO_UNLIKELY(next != first))
		ky_tokio_ids_emit(root_copy, first, next, KYMO_SPAWN_BY_ROOT);
	return next;
}

void ky_tokio_ids_find(const struct ky_tokio_elf *elf, uint32_t copy)
{
	uintptr_t found = 0;

	ky_tokio_next_ids[copy] = NULL;
	for (size_t i = 0; i < elf->symbol_count; i++) {
		const struct ky_tokio_symbol *symbol = &elf->symbols[i];

		/* A sanitizer makes it longer. */
		if (!symbol->is_task || symbol->bytes < sizeof(uint64_t) ||
		    symbol->address % sizeof(uint64_t) ||
		    !strstr(ky_tokio_elf_name(elf, symbol), "4next7NEXT_ID") ||
		    !ky_tokio_elf_is_in(elf, symbol->address, sizeof(uint64_t), PF_R | PF_W, PF_X))
			continue;
		if (found && found != symbol->address)
			return; /* of two copies: which is whose is not known */
		found = symbol->address;
	}
	if (!found)
		return;
	ky_tokio_next_ids[copy] = (const uint64_t *)found;
	if ((uintptr_t)elf->phdr == getauxval(AT_PHDR)) { /* it is never unloaded */
		root_copy = copy;
		first_id = ky_tokio_next_id(copy);
	}
}
