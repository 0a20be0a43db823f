/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/debug_symbols.h>

#include <base/alloc.h>
#include <symbol/debug_search.h>
#include <unistd.h>

/* Paths are long: not on a stack. */
struct found {
	struct ky_debug_file stripped, debug;
};

static void search_in(struct found *found, struct ky_task_names *file,
		      const struct ky_code_place *place, struct ky_debug_search *search)
{
	uint32_t why;

	if (ky_debug_search_module(search, place, &found->stripped, &why) != 0)
		return;
	if (!found->stripped.object.has_symtab &&
	    ky_debug_search_debug(search, place, &found->stripped, &found->debug) == 0) {
		(void)ky_task_names_add_symbols(file, dup(found->debug.fd));
		ky_debug_file_close(&found->debug);
	}
	ky_debug_file_close(&found->stripped);
}

void ky_debug_symbols_add(struct ky_task_names *file, const struct ky_code_place *place,
			  uint32_t pid)
{
	struct ky_debug_search search = {.pid = pid};
	struct found *found = ky_alloc(sizeof(*found));

	if (found && ky_debug_search_add_system(&search) == 0)
		search_in(found, file, place, &search);
	ky_debug_search_release(&search);
	ky_free(found);
}
