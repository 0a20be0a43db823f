/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/first_line.h>

#include <stdio.h>
#include <stdlib.h>

/* Reads what a file of these bytes gives a buffer of so many. */
static bool read_of(const char *content, size_t bytes, char *out, size_t capacity)
{
	char path[] = "/tmp/kymo-test-XXXXXX";
	int fd = mkstemp(path);
	bool is_read;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, bytes), bytes);
	close(fd);
	is_read = ky_read_first_line(path, out, capacity);
	unlink(path);
	return is_read;
}

static void first_line__ends_at_the_line_break_or_the_file(void **state)
{
	char line[16];

	(void)state;
	assert_true(read_of("one\ntwo\n", 8, line, sizeof(line)));
	assert_string_equal(line, "one");
	assert_true(read_of("one", 3, line, sizeof(line)));
	assert_string_equal(line, "one");
	assert_true(read_of("\ntwo", 4, line, sizeof(line)));
	assert_string_equal(line, "");
}

static void first_line__is_cut_where_the_room_ends(void **state)
{
	char line[4];

	(void)state;
	assert_true(read_of("abcdef\n", 7, line, sizeof(line)));
	assert_string_equal(line, "abc");
}

static void first_line__of_nothing_is_empty_and_reported(void **state)
{
	char line[16] = "before";

	(void)state;
	assert_false(read_of("", 0, line, sizeof(line)));
	assert_string_equal(line, "");
	snprintf(line, sizeof(line), "before");
	assert_false(ky_read_first_line("/nowhere/at/all", line, sizeof(line)));
	assert_string_equal(line, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_line__ends_at_the_line_break_or_the_file),
		cmocka_unit_test(first_line__is_cut_where_the_room_ends),
		cmocka_unit_test(first_line__of_nothing_is_empty_and_reported),
	};

	return cmocka_run_group_tests_name("first_line", tests, NULL, NULL);
}
