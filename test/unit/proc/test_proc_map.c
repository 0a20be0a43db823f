/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <proc/proc_map.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool parse(struct ky_proc_map *out, const char *text)
{
	static char line[512];

	snprintf(line, sizeof(line), "%s", text);
	return ky_proc_map_parse(out, line);
}

static void proc_map__says_what_a_line_says(void **state)
{
	struct ky_proc_map map;

	(void)state;
	assert_true(parse(&map, "55d0c0001000-55d0c0005000 r-xp 00001000 fe:00 131   /usr/a b"));
	assert_int_equal(map.start, 0x55d0c0001000);
	assert_int_equal(map.end, 0x55d0c0005000);
	assert_int_equal(map.offset, 0x1000);
	assert_int_equal(map.inode, 131);
	assert_true(map.is_code && !map.is_writable && !map.is_shared);
	assert_string_equal(map.path, "/usr/a b");
	assert_true(parse(&map, "00400000-00401000 rw-s 00000000 00:18 77 /x.ring (deleted)"));
	assert_true(!map.is_code && map.is_writable && map.is_shared);
	assert_string_equal(map.path, "/x.ring (deleted)");
	assert_true(parse(&map, "7f1000001000-7f1000002000 rw-p 00000000 00:00 0 "));
	assert_string_equal(map.path, "");
	/* One of several lines. */
	assert_true(
		parse(&map, "00400000-00401000 r-xp 00000000 00:18 77 /a\n00401000-00402000 rw"));
	assert_int_equal(map.path_bytes, 2);
}

static void proc_map__damaged_lines_are_none(void **state)
{
	static const char whole[] = "7f00-7f10 r-xp 00001000 fe:00 131 /a";
	struct ky_proc_map map;
	char text[sizeof(whole)];

	(void)state;
	for (size_t bytes = 0; bytes < strlen("7f00-7f10 r-xp 00001000 fe:00 "); bytes++) {
		snprintf(text, sizeof(text), "%.*s", (int)bytes, whole);
		assert_false(parse(&map, text));
	}
	assert_true(parse(&map, whole));
	assert_false(parse(&map, "7f00-7f10 r-x 00001000 fe:00 131 /a"));
	assert_false(parse(&map, "7f00 7f10 r-xp 00001000 fe:00 131 /a"));
}

/* Device and inode lead to the file, as its name does. */
static void proc_map__of_this_program(void **state)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct ky_proc_map map;
	struct stat program;
	static char line[4096];
	int found = 0;

	(void)state;
	assert_non_null(maps);
	assert_int_equal(stat("/proc/self/exe", &program), 0);
	while (fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = 0;
		assert_true(ky_proc_map_parse(&map, line));
		assert_true(map.start < map.end);
		found += map.inode == program.st_ino && map.device == program.st_dev && map.is_code;
	}
	fclose(maps);
	assert_true(found > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proc_map__says_what_a_line_says),
		cmocka_unit_test(proc_map__damaged_lines_are_none),
		cmocka_unit_test(proc_map__of_this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
