/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is said of loaded objects, of which the loader here has one that the test made. */
#include "../../lib/cmocka_all.h"

#include <link.h>
#include <record/emit/module_map.h>
#include <string.h>

#define NOTE_AT 64u

typedef int (*visit_fn)(struct dl_phdr_info *info, size_t info_bytes, void *ctx);

/* A segment with a note in it: name, then an identity of 8 bytes. */
static struct {
	uint8_t front[NOTE_AT];
	ElfW(Nhdr) note;
	char name[4];
	uint8_t id[8];
} segment = {.note = {4, 8, NT_GNU_BUILD_ID}, .name = "GNU", .id = {1, 2, 3, 4, 5, 6, 7, 8}};

static ElfW(Phdr) parts[2];

/* The sanitizers' own calls, at the end, see what there is. */
static bool is_scanning;

int __real_dl_iterate_phdr(visit_fn visit, void *ctx);
int __wrap_dl_iterate_phdr(visit_fn visit, void *ctx);
int __wrap_dl_iterate_phdr(visit_fn visit, void *ctx)
{
	if (!is_scanning)
		return __real_dl_iterate_phdr(visit, ctx);
	struct dl_phdr_info info = {.dlpi_addr = (uintptr_t)&segment,
				    .dlpi_name = "/made.so",
				    .dlpi_phdr = parts,
				    .dlpi_phnum = 2,
				    .dlpi_adds = 1};

	return visit(&info, sizeof(info), ctx);
}

/* Bytes of the identity that is reported, with the note at this offset from the segment. */
static uint32_t id_bytes(uint64_t note_at, uint64_t note_bytes)
{
	const struct ky_clock clock = {.is_os = true};
	struct ky_entry_module module;
	struct ky_directory directory;
	static struct ky_module_map map;

	memset(&map, 0, sizeof(map));
	parts[0] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_R, .p_memsz = sizeof(segment)};
	parts[1] = (ElfW(Phdr)){.p_type = PT_NOTE, .p_vaddr = note_at, .p_memsz = note_bytes};
	assert_int_equal(ky_directory_init(&directory, 65536), 0);
	is_scanning = true;
	ky_module_map_scan(&map, &directory, &clock);
	is_scanning = false;
	assert_int_equal(map.count, 1);
	assert_true(directory.used >= sizeof(struct ky_entry) + sizeof(module));
	memcpy(&module, directory.bytes + sizeof(struct ky_entry), sizeof(module));
	ky_directory_release(&directory);
	return module.build_id_bytes;
}

static void module__has_the_identity_of_its_note(void **state)
{
	(void)state;
	assert_int_equal(id_bytes(NOTE_AT, sizeof(segment) - NOTE_AT), 8);
}

static void module__whose_note_is_not_loaded_has_none(void **state)
{
	(void)state;
	assert_int_equal(id_bytes(UINT64_C(1) << 46, 24), 0);
	assert_int_equal(id_bytes(NOTE_AT, UINT64_C(1) << 40), 0);
	assert_int_equal(id_bytes(UINT64_MAX - 8, 24), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(module__has_the_identity_of_its_note),
		cmocka_unit_test(module__whose_note_is_not_loaded_has_none),
	};

	return cmocka_run_group_tests_name("module_map", tests, NULL, NULL);
}
