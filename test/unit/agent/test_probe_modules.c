/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <agent/probe_modules.h>
#include <elf.h>
#include <elf/elf_image.h>
#include <proc/proc_map.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static size_t parse(const char *text, struct ky_seen_module *out, size_t capacity)
{
	static char copy[4096];

	snprintf(copy, sizeof(copy), "%s", text);
	return ky_probe_modules_parse(copy, out, capacity);
}

static const char maps[] =
	"55d0c0000000-55d0c0001000 r--p 00000000 fe:00 131 /usr/bin/a b\n"
	"55d0c0001000-55d0c0005000 r-xp 00001000 fe:00 131 /usr/bin/a b\n"
	"55d0c0006000-55d0c0007000 rw-p 00005000 fe:00 131 /usr/bin/a b\n"
	"55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0 [heap]\n"
	"7f0000000000-7f0000100000 rw-s 00000000 00:18 77 /dev/shm/kymo-0/x.ring\n"
	"7f1000000000-7f1000001000 r-xp 00000000 fe:00 132 /lib/libx.so\n"
	"7f1000001000-7f1000002000 rw-p 00000000 00:00 0 \n"
	"7f1000002000-7f1000003000 rw-p 00002000 fe:00 132 /lib/libx.so\n"
	"7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n"
	"7ffe00000000-7ffe00001000 rw-p 00000000 fe:00 133 /data\n";

static void modules__are_files_with_code(void **state)
{
	struct ky_seen_module seen[8];

	(void)state;
	assert_int_equal(parse(maps, seen, 8), 3);
	assert_string_equal(seen[0].path, "/usr/bin/a b");
	assert_int_equal(seen[0].start, 0x55d0c0000000);
	assert_int_equal(seen[0].end, 0x55d0c0007000);
	assert_string_equal(seen[1].path, "/lib/libx.so");
	assert_int_equal(seen[1].end, 0x7f1000003000);
	assert_string_equal(seen[2].path, "[vdso]");
	assert_int_equal(seen[2].start, 0x7ffd00000000);
}

static void modules__stop_at_the_capacity(void **state)
{
	struct ky_seen_module seen[1];

	(void)state;
	assert_int_equal(parse(maps, seen, 1), 1);
	assert_int_equal(parse("", seen, 1), 0);
}

static void modules__damaged_lines_are_passed_over(void **state)
{
	struct ky_seen_module seen[4];
	char text[sizeof(maps)];

	(void)state;
	for (size_t cut = 0; cut < sizeof(maps); cut++) {
		snprintf(text, sizeof(text), "%.*s", (int)cut, maps);
		assert_true(parse(text, seen, 4) <= 3);
	}
	assert_int_equal(parse("/\n-/\n1-/\n1-2/x\n1-2 r-/\nzz r-xp 0 /a\n", seen, 4), 0);
}

static void modules__a_fixed_program_lies_where_it_is_linked_to(void **state)
{
	static const struct {
		Elf64_Ehdr header;
		Elf64_Phdr segments[3];
	} file = {{.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
		   .e_machine = EM_X86_64,
		   .e_phoff = sizeof(Elf64_Ehdr),
		   .e_phentsize = sizeof(Elf64_Phdr),
		   .e_phnum = 3},
		  {{.p_type = PT_NOTE, .p_filesz = 0x9000, .p_vaddr = 0x900000},
		   {.p_type = PT_LOAD, .p_filesz = 0x1500, .p_vaddr = 0x400000},
		   {.p_type = PT_LOAD, .p_offset = 0x2010, .p_filesz = 8, .p_vaddr = 0x602010}}};
	struct ky_elf *elf;

	(void)state;
	assert_int_equal(ky_elf_open_memory(&elf, (const uint8_t *)&file, sizeof(file)), 0);
	assert_int_equal(ky_elf_linked_at(elf, 0), 0x400000);
	assert_int_equal(ky_elf_linked_at(elf, 0x1000), 0x400000);
	assert_int_equal(ky_elf_linked_at(elf, 0x2000), 0x600000);
	assert_int_equal(ky_elf_linked_at(elf, 0x4000), 0);
	ky_elf_close(elf);
}

static void modules__the_vdso_has_the_build_id_of_this_boot(void **state)
{
	struct ky_seen_module *seen = calloc(64, sizeof(*seen));
	uint64_t at = getauxval(AT_SYSINFO_EHDR);
	const struct ky_seen_module *vdso = NULL;
	char *text;
	size_t count;
	int err;

	(void)state;
	if (!at) {
		free(seen);
		print_message("# a process without a vDSO\n");
		skip();
	}
	assert_non_null(seen);
	text = ky_proc_maps_read((uint32_t)getpid(), &err);
	assert_non_null(text);
	count = ky_probe_modules_parse(text, seen, 64);
	for (size_t i = 0; i < count; i++) {
		if (seen[i].start != at)
			continue;
		ky_probe_modules_read_file((uint32_t)getpid(), &seen[i]);
		vdso = &seen[i];
	}
	assert_non_null(vdso);
	assert_true(vdso->build_id_bytes > 0);
	assert_int_equal(vdso->linked_at, 0);
	free(text);
	free(seen);
}

static void modules__are_read_in_a_stream_alone(void **state)
{
	struct ky_probe_modules modules;
	struct ky_probe probe = ky_probe_modules_init(&modules, 1, 1000);
	const struct ky_probe_moment early = {.now_ns = 2000, .stream = (void *)&modules},
				     flight = {.now_ns = UINT64_C(5000000000)};

	(void)state;
	assert_int_equal(probe.step(probe.self, &early), 250001000);
	assert_true(probe.step(probe.self, &flight) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules__are_files_with_code),
		cmocka_unit_test(modules__are_read_in_a_stream_alone),
		cmocka_unit_test(modules__stop_at_the_capacity),
		cmocka_unit_test(modules__damaged_lines_are_passed_over),
		cmocka_unit_test(modules__a_fixed_program_lies_where_it_is_linked_to),
		cmocka_unit_test(modules__the_vdso_has_the_build_id_of_this_boot),
	};

	return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
