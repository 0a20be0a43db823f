/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tables come and go with what is mapped. */
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"
#include "../../lib/own_tables.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <proc/proc_map.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <unwind/unwind_maps.h>

static bool has_code(const struct own_tables *tables, const void *function)
{
	struct ky_unwind_code code;
	struct ky_unwind_wide wide;
	uint64_t pc = (uint64_t)(uintptr_t)function;

	return ky_unwind_code_of(&tables->view, pc, &code) &&
	       ky_unwind_rule_kind(ky_unwind_rule_at(&code, pc, &wide)) >= KY_UNWIND_BY_SP;
}

static void reading__knows_the_program_and_its_libraries(void **state)
{
	struct own_tables tables = {0};
	struct ky_unwind_stats stats;

	(void)state;
	assert_int_equal(own_tables_open(&tables), 0);
	assert_true(has_code(&tables, (const void *)(uintptr_t)own_tables_open));
	assert_true(has_code(&tables, dlsym(RTLD_DEFAULT, "qsort")));
	ky_unwind_keeper_stats(tables.keeper, &stats);
	assert_true(stats.module_count >= 3 && stats.function_count > 1000);
	assert_int_equal(stats.unknown_count, 0);
	assert_int_equal(ky_unwind_keeper_scan(tables.keeper), 0); /* nothing has changed */
	own_tables_close(&tables);
}

static void reading__makes_first_what_the_process_may_wait_for(void **state)
{
	struct own_tables tables = {.early = "libc.so.6"};
	const void *own = (const void *)(uintptr_t)own_tables_open;
	struct ky_unwind_stats stats;

	(void)state;
	assert_int_equal(own_tables_open(&tables), 0);
	assert_true(has_code(&tables, own));
	assert_true(has_code(&tables, dlsym(RTLD_DEFAULT, "qsort")));
	ky_unwind_keeper_stats(tables.keeper, &stats);
	assert_int_equal(stats.file_count, 2);
	assert_true(ky_unwind_keeper_is_behind(tables.keeper));
	assert_true(ky_unwind_keeper_scan(tables.keeper) > 0);
	assert_false(ky_unwind_keeper_is_behind(tables.keeper));
	ky_unwind_keeper_stats(tables.keeper, &stats);
	assert_true(stats.file_count > 2);
	assert_true(has_code(&tables, own));
	assert_int_equal(ky_unwind_keeper_scan(tables.keeper), 0);
	own_tables_close(&tables);
}

static void reading__knows_the_vdso(void **state)
{
	struct own_tables tables = {0};
	struct ky_unwind_code code;
	uint64_t vdso = (uint64_t)getauxval(AT_SYSINFO_EHDR);

	(void)state;
	if (!vdso) {
		print_message("# the kernel gives this process no vDSO\n");
		skip();
	}
	assert_int_equal(own_tables_open(&tables), 0);
	assert_true(ky_unwind_code_of(&tables.view, vdso, &code));
	own_tables_close(&tables);
}

/* A library that comes back, elsewhere perhaps, has the tables it had. */
static void reading__follows_libraries_that_come_and_go(void **state)
{
	struct own_tables tables = {0};
	struct ky_unwind_stats before, after;
	const void *function;
	void *library;

	(void)state;
	library = dlopen("libm.so.6", RTLD_NOW);
	assert_non_null(library);
	dlclose(library);
	if (dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD)) {
		print_message("# something else holds the library, a sanitizer say\n");
		skip();
	}
	assert_int_equal(own_tables_open(&tables), 0);
	for (uint32_t i = 0; i < 3; i++) {
		library = dlopen("libm.so.6", RTLD_NOW);
		function = dlsym(library, "cos");
		assert_false(i == 0 && has_code(&tables, function));
		assert_true(ky_unwind_keeper_scan(tables.keeper) > 0);
		assert_true(has_code(&tables, dlsym(library, "pow")) ||
			    has_code(&tables, function));
		ky_unwind_keeper_stats(tables.keeper, i ? &after : &before);
		dlclose(library);
		assert_true(ky_unwind_keeper_scan(tables.keeper) > 0);
		assert_false(has_code(&tables, function));
	}
	assert_int_equal(after.file_count, before.file_count);
	assert_int_equal(after.used_bytes, before.used_bytes);
	own_tables_close(&tables);
}

static void reading__counts_what_finds_no_room(void **state)
{
	struct own_tables tables = {.room_bytes = sizeof(struct ky_unwind_head) + 4096};
	struct ky_unwind_stats stats;

	(void)state;
	assert_int_equal(own_tables_open(&tables), 0);
	ky_unwind_keeper_stats(tables.keeper, &stats);
	assert_true(stats.refused_count > 0);
	assert_int_equal(stats.last_error, -ENOSPC);
	assert_false(has_code(&tables, dlsym(RTLD_DEFAULT, "qsort")));
	own_tables_close(&tables);
	tables = (struct own_tables){.room_bytes = 100};
	assert_int_equal(own_tables_open(&tables), -ENOSPC);
}

static void reading__a_process_that_is_gone_changes_nothing(void **state)
{
	int err;

	(void)state;
	assert_null(ky_proc_maps_read(0x7fffffff, &err));
	assert_int_equal(err, -ENOENT);
}

static void maps__are_read_line_by_line(void **state)
{
	static const char text[] =
		"00400000-00401000 r--p 00000000 fe:01 77   /bin/a b\n"
		"00401000-00409000 r-xp 00001000 fe:01 77   /bin/a b\n"
		"nonsense\n"
		"0050a000-0050b000 r-xp 00000000 00:00 0 \n"
		"00600000-00601000 rw-p 00002000 fe:01 77   /bin/a b\n"
		"7f0000000000-7f0000002000 r-xp 00003000 fe:01 78 /lib/x.so (deleted)\n"
		"7fff00000000-7fff00002000 r-xp 00000000 00:00 0  [vdso]\n"
		"7fff00002000-7fff00003000 r-xp";
	struct ky_unwind_maps maps = {.at = text};
	struct ky_unwind_mapping mapping;

	(void)state;
	assert_true(ky_unwind_maps_next(&maps, &mapping));
	assert_int_equal(mapping.start, 0x401000);
	assert_int_equal(mapping.end, 0x409000);
	assert_int_equal(mapping.offset, 0x1000);
	assert_int_equal(mapping.inode, 77);
	assert_int_equal(mapping.image, 0x400000);
	assert_int_equal(mapping.path_bytes, 8);
	assert_true(ky_unwind_maps_next(&maps, &mapping));
	assert_int_equal(mapping.inode, 78);
	assert_int_equal(mapping.image, 0); /* its beginning is not mapped */
	assert_true(ky_unwind_maps_next(&maps, &mapping));
	assert_int_equal(mapping.inode, 0);
	assert_int_equal(mapping.image, 0x7fff00000000);
	assert_false(ky_unwind_maps_next(&maps, &mapping));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reading__knows_the_program_and_its_libraries),
		cmocka_unit_test(reading__makes_first_what_the_process_may_wait_for),
		cmocka_unit_test(reading__knows_the_vdso),
		cmocka_unit_test(reading__follows_libraries_that_come_and_go),
		cmocka_unit_test(reading__counts_what_finds_no_room),
		cmocka_unit_test(reading__a_process_that_is_gone_changes_nothing),
		cmocka_unit_test(maps__are_read_line_by_line),
	};

	if (test_is_under_valgrind()) {
		print_message("1..0 # SKIP under Valgrind code is not where its file says\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
