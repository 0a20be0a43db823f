/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "root_tables.h"

#include <elf.h>
#include <string.h>

#include "code.h"

#define WAKER_FUNCTIONS 4u

struct ky_tokio_root_table ky_tokio_root_tables[KY_TOKIO_ROOT_TABLES_MAX];

void ky_tokio_root_clones_add(struct ky_tokio_root_clones *clones, const char *name,
			      uintptr_t address)
{
	bool is_thread = strstr(name, "5tokio7runtime4park5clone") != NULL;

	if ((!is_thread && !strstr(name, "5tokio4util4wake13clone_arc_raw")) ||
	    clones->count == KY_TOKIO_ROOT_TABLES_MAX)
		return;
	clones->list[clones->count].address = address;
	clones->list[clones->count++].kind = is_thread ? KY_TOKIO_ROOT_THREAD :
							 KY_TOKIO_ROOT_RUNTIME;
	if (clones->count == 1 || address < clones->low)
		clones->low = address;
	if (clones->count == 1 || address > clones->high)
		clones->high = address;
}

/* A task of a JoinSet wakes its set, by a table; a runtime its driver, or asks which scheduler it
 * is in. */
static int visit_wake(void *ctx, const char *name)
{
	(void)ctx;
	return strstr(name, "14current_thread") || strstr(name, "14with_scheduler") ||
	       strstr(name, "5tokio7runtime6driver") || strstr(name, "3mio") ||
	       strstr(name, "5tokio7runtime4park");
}

KY_TOKIO_READS_RAW bool ky_tokio_root_table_add(struct ky_tokio_found *found,
						const struct ky_tokio_elf *elf,
						const struct ky_tokio_root_clones *clones,
						uintptr_t *words)
{
	struct ky_tokio_root_table *table;
	uint32_t which = 0, at = 0;

	while (which < clones->count && clones->list[which].address != words[0])
		which++;
	if (which == clones->count ||
	    !ky_tokio_elf_is_in(elf, (uintptr_t)words, WAKER_FUNCTIONS * sizeof(*words), PF_R,
				PF_X))
		return false;
	for (uint32_t i = 0; i < WAKER_FUNCTIONS; i++)
		if (!ky_tokio_elf_is_in(elf, words[i], 1, PF_X, PF_W))
			return false;
	if (clones->list[which].kind == KY_TOKIO_ROOT_RUNTIME &&
	    !ky_tokio_code_walk(elf, words[2], visit_wake, NULL))
		return false;
	while (at < found->root_count && ky_tokio_root_tables[at].words != words)
		at++;
	if (at == KY_TOKIO_ROOT_TABLES_MAX)
		return false;
	if (at == found->root_count)
		found->root_count++;
	table = &ky_tokio_root_tables[at];
	table->words = words;
	table->kind = clones->list[which].kind;
	memcpy(&table->clone, &words[0], sizeof(table->clone));
	memcpy(&table->wake, &words[1], sizeof(table->wake));
	memcpy(&table->wake_by_ref, &words[2], sizeof(table->wake_by_ref));
	return true;
}
