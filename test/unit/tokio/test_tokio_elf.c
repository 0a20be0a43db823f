/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads this program's own symbols, then damaged copies of it: any answer will do but a fault, and
 * nothing may stay mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../adapters/tokio/code.h"
#include "../../../adapters/tokio/tables.h"
#include "../../../adapters/tokio/tokio_elf.h"
#include "fake_tokio.h"

static struct dl_phdr_info self;
static char path[32];
static uint8_t *image;
static size_t image_bytes;

static int keep_self(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	(void)info_bytes;
	(void)ctx;
	self = *info;
	return 1;
}

static int set_up(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	(void)state;
	dl_iterate_phdr(keep_self, NULL);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	image_bytes = (size_t)st.st_size;
	image = malloc(image_bytes);
	assert_non_null(image);
	assert_int_equal(read(fd, image, image_bytes), (ssize_t)image_bytes);
	close(fd);
	snprintf(path, sizeof(path), "/tmp/kymo-elf-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(image);
	unlink(path);
	return 0;
}

static int open_damaged(const uint8_t *bytes, size_t count)
{
	struct ky_tokio_elf elf;
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), result;

	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	close(fd);
	result = ky_tokio_elf_open(&elf, &self, path);
	if (result == KY_TOKIO_ELF_FOUND) {
		struct ky_tokio_found *found = calloc(1, sizeof(*found));

		assert_non_null(found);
		ky_tokio_tables_find(found, &elf);
		free(found);
	}
	ky_tokio_elf_close(&elf);
	return result;
}

static size_t open_descriptors(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void elf__finds_its_own_symbols(void **state)
{
	struct ky_tokio_elf elf;
	const struct ky_tokio_symbol *symbol;

	(void)state;
	assert_int_equal(ky_tokio_elf_open(&elf, &self, "/proc/self/exe"), KY_TOKIO_ELF_FOUND);
	symbol = ky_tokio_elf_find(&elf, (uintptr_t)fake_table_of(FAKE_MULTI)->poll);
	assert_non_null(symbol);
	assert_non_null(strstr(ky_tokio_elf_name(&elf, symbol), "5tokio7runtime4task3raw4poll"));
	assert_ptr_equal(ky_tokio_elf_find(&elf, symbol->address + symbol->bytes - 1), symbol);
	assert_null(ky_tokio_elf_find(&elf, 1));
	assert_true(ky_tokio_elf_is_in(&elf, symbol->address, symbol->bytes, PF_X, PF_W));
	assert_false(ky_tokio_elf_is_in(&elf, symbol->address, SIZE_MAX, PF_X, 0));
	assert_false(ky_tokio_elf_is_in(&elf, UINTPTR_MAX, 1, 0, 0));
	ky_tokio_elf_close(&elf);
}

static void elf__other_files_are_refused(void **state)
{
	struct ky_tokio_elf elf;

	(void)state;
	assert_int_equal(ky_tokio_elf_open(&elf, &self, "/bin/sh"), KY_TOKIO_ELF_UNREADABLE);
	assert_int_equal(ky_tokio_elf_open(&elf, &self, "/dev/null"), KY_TOKIO_ELF_UNREADABLE);
	assert_int_equal(ky_tokio_elf_open(&elf, &self, "/proc/self"), KY_TOKIO_ELF_UNREADABLE);
	assert_true(ky_tokio_elf_open(&elf, &self, "/proc/nonexistent") < 0);
}

static void elf__every_short_file_is_refused(void **state)
{
	size_t before = open_descriptors();

	(void)state;
	for (size_t count = 1; count < 4096; count += 37)
		assert_int_not_equal(open_damaged(image, count), KY_TOKIO_ELF_FOUND);
	for (size_t count = 4096; count < image_bytes; count += image_bytes / 64)
		assert_int_not_equal(open_damaged(image, count), KY_TOKIO_ELF_FOUND);
	assert_int_equal(open_descriptors(), before);
}

static void elf__without_sections_it_is_stripped(void **state)
{
	ElfW(Ehdr) header;

	(void)state;
	memcpy(&header, image, sizeof(header));
	header.e_shoff = 0;
	memcpy(image, &header, sizeof(header));
	assert_int_equal(open_damaged(image, image_bytes), KY_TOKIO_ELF_STRIPPED);
}

/* Walks over every field of every section header with values that overflow something. */
static void elf__hostile_section_headers_do_not_fault(void **state)
{
	static const uint64_t values[] = {0, 1, 0x7fffffffffffffff, UINT64_MAX, UINT64_MAX - 7};
	ElfW(Ehdr) header;

	(void)state;
	memcpy(&header, image, sizeof(header));
	for (uint32_t i = 0; i < header.e_shnum; i++) {
		uint8_t *section = image + header.e_shoff + i * sizeof(ElfW(Shdr));
		ElfW(Shdr) saved;

		memcpy(&saved, section, sizeof(saved));
		if (saved.sh_type != SHT_SYMTAB && saved.sh_type != SHT_STRTAB)
			continue;
		for (size_t field = 0; field < sizeof(saved); field += 8) {
			for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
				memcpy(section + field, &values[k], sizeof(values[k]));
				open_damaged(image, image_bytes);
			}
			memcpy(section, &saved, sizeof(saved));
		}
	}
}

/* Symbols with any address and name: what does not lie in a segment must not be touched. */
static void elf__hostile_symbols_do_not_fault(void **state)
{
	ElfW(Ehdr) header;
	uint64_t random = 88172645463325252u;

	(void)state;
	memcpy(&header, image, sizeof(header));
	for (uint32_t i = 0; i < header.e_shnum; i++) {
		ElfW(Shdr) section;

		memcpy(&section, image + header.e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_type != SHT_SYMTAB)
			continue;
		for (uint64_t at = 0; at < section.sh_size; at += sizeof(ElfW(Sym))) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			if (random % 3 == 0)
				memcpy(image + section.sh_offset + at + 8, &random, 8);
			else if (random % 3 == 1)
				memcpy(image + section.sh_offset + at + 16, &random, 8);
		}
	}
	open_damaged(image, image_bytes);
}

/* The string table moves after the file and grows by 8 MiB of other programs' names. */
static void elf__large_string_table_is_not_kept(void **state)
{
	const size_t more = 8u << 20;
	ElfW(Shdr) symbols = {0}, names;
	struct ky_tokio_elf elf;
	ElfW(Ehdr) header;
	uint8_t *large = calloc(1, 2 * image_bytes + more);
	FILE *file;

	(void)state;
	assert_non_null(large);
	memcpy(large, image, image_bytes);
	memcpy(&header, image, sizeof(header));
	for (uint32_t i = 0; i < header.e_shnum && symbols.sh_type != SHT_SYMTAB; i++)
		memcpy(&symbols, image + header.e_shoff + i * sizeof(symbols), sizeof(symbols));
	memcpy(&names, image + header.e_shoff + symbols.sh_link * sizeof(names), sizeof(names));
	memcpy(large + image_bytes, image + names.sh_offset, names.sh_size);
	memset(large + image_bytes + names.sh_size, 'x', more);
	names.sh_offset = image_bytes;
	names.sh_size += more;
	memcpy(large + header.e_shoff + symbols.sh_link * sizeof(names), &names, sizeof(names));
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(large, image_bytes + names.sh_size, 1, file), 1);
	fclose(file);
	free(large);
	assert_int_equal(ky_tokio_elf_open(&elf, &self, path), KY_TOKIO_ELF_FOUND);
	assert_true(elf.names.texts_bytes <= 1u << 20);
	assert_non_null(ky_tokio_elf_find(&elf, (uintptr_t)fake_table_of(FAKE_MULTI)->poll));
	ky_tokio_elf_close(&elf);
}

static int stop_at_run(void *ctx, const char *name)
{
	++*(uint32_t *)ctx;
	return strstr(name, "worker3run") ? 7 : 0;
}

static void code__walk_reaches_what_is_called_and_nothing_else(void **state)
{
	struct ky_tokio_elf elf;
	uint32_t visited = 0;

	(void)state;
	assert_int_equal(ky_tokio_elf_open(&elf, &self, "/proc/self/exe"), KY_TOKIO_ELF_FOUND);
	assert_int_equal(ky_tokio_code_walk(&elf, (uintptr_t)fake_table_of(FAKE_LAUNCH)->poll,
					    stop_at_run, &visited),
			 7);
	assert_int_equal(ky_tokio_code_walk(&elf, (uintptr_t)fake_table_of(FAKE_BLOCKING)->poll,
					    stop_at_run, &visited),
			 0);
	assert_true(visited >= 3);
	assert_int_equal(ky_tokio_code_walk(&elf, 1, stop_at_run, &visited), 0);
	ky_tokio_elf_close(&elf);
}

/* As lld before 18 writes it: the sealed part ends with the page, beyond what is loaded of it. */
static void sealed__ends_where_the_loaded_segment_does(void **state)
{
	ElfW(Phdr) phdrs[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x1000, .p_memsz = 0x1000},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = 0x2840, .p_memsz = 0x14a8},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = 0x4ce8, .p_memsz = 0x39},
		{.p_type = PT_GNU_RELRO, .p_flags = PF_R, .p_vaddr = 0x2840, .p_memsz = 0x17c0},
	};
	const struct ky_tokio_elf elf = {.bias = 0x10000, .phdr = phdrs, .phdr_count = 4};
	ElfW(Phdr) *relro = &phdrs[3];
	uintptr_t start, end;

	(void)state;
	assert_true(ky_tokio_elf_sealed(&elf, relro, &start, &end));
	assert_int_equal(start, 0x12840);
	assert_int_equal(end, 0x13ce8);
	relro->p_memsz = 0x1400; /* as GNU ld writes it */
	assert_true(ky_tokio_elf_sealed(&elf, relro, &start, &end));
	assert_int_equal(end, 0x13c40);
	relro->p_memsz = 0x17c1;
	assert_false(ky_tokio_elf_sealed(&elf, relro, &start, &end));
	relro->p_memsz = UINT64_MAX;
	assert_false(ky_tokio_elf_sealed(&elf, relro, &start, &end));
	relro->p_vaddr = 0x1800;
	relro->p_memsz = 0x100;
	assert_false(ky_tokio_elf_sealed(&elf, relro, &start, &end));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(elf__finds_its_own_symbols),
		/* Before the hostile ones: they leave other tables in the process. */
		CASE(code__walk_reaches_what_is_called_and_nothing_else),
		CASE(elf__other_files_are_refused),
		CASE(elf__every_short_file_is_refused),
		CASE(elf__without_sections_it_is_stripped),
		CASE(elf__hostile_section_headers_do_not_fault),
		CASE(elf__large_string_table_is_not_kept),
		CASE(elf__hostile_symbols_do_not_fault),
		CASE(sealed__ends_where_the_loaded_segment_does),
	};

	return cmocka_run_group_tests_name("tokio_elf", tests, NULL, NULL);
}
