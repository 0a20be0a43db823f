/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is read of a file before a library may have it, and names in text: an ELF file's account of
 * itself, the kernel's list, a perf map. The same input gives the same answer. */
#include "fuzz_target.h"

#include <symbol/object_file.h>
#include <symbol/symbol_list.h>
#include <string.h>

static uint64_t digest_list(const struct ky_symbol_list *list)
{
	uint64_t digest = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct ky_listed_symbol *symbol = &list->symbols[i], *found;
		const char *name = NULL;

		FUZZ_CHECK(i == 0 || list->symbols[i - 1].address <= symbol->address);
		FUZZ_CHECK(symbol->name_bytes <= list->names.used - symbol->name);
		found = ky_symbol_list_find(list, symbol->address, &name);
		FUZZ_CHECK(!found || (found->address == symbol->address && name));
		if (found)
			digest = fuzz_digest(digest, name, found->name_bytes);
		(void)ky_symbol_list_find(list, symbol->address + symbol->byte_count, &name);
	}
	return digest;
}

static uint64_t read_lists(const char *text, size_t byte_count)
{
	struct ky_symbol_list kernel, map;
	uint64_t digest;

	ky_symbol_list_init(&kernel);
	ky_symbol_list_init(&map);
	FUZZ_CHECK(ky_symbol_list_kallsyms(&kernel, text, byte_count) == 0);
	FUZZ_CHECK(ky_symbol_list_perf_map(&map, text, byte_count) == 0);
	ky_symbol_list_finish(&kernel);
	ky_symbol_list_finish(&map);
	FUZZ_CHECK(!kernel.is_hidden || kernel.count == 0);
	digest = digest_list(&kernel) ^ digest_list(&map) * 3;
	ky_symbol_list_release(&kernel);
	ky_symbol_list_release(&map);
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
	struct ky_object first, second;
	int result = ky_object_read_memory(&first, bytes, byte_count);

	FUZZ_CHECK(ky_object_read_memory(&second, bytes, byte_count) == result);
	FUZZ_CHECK(memcmp(&first, &second, sizeof(first)) == 0);
	FUZZ_CHECK(first.build_id_bytes <= KY_BUILD_ID_BYTES_MAX);
	FUZZ_CHECK(first.unpacked_bytes <= KY_OBJECT_UNPACKED_MAX);
	FUZZ_CHECK(memchr(first.link, 0, sizeof(first.link)) && !strchr(first.link, '/'));
	FUZZ_CHECK(read_lists((const char *)bytes, byte_count) ==
		   read_lists((const char *)bytes, byte_count));
	return 0;
}
