/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/file_name.h>

#include <stdio.h>
#include <string.h>

static void check(const char *text, const char *want)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", text);
	ky_file_name_clean(name);
	assert_string_equal(name, want);
}

static void file_name__plain_bytes_are_these_and_no_others(void **state)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789.-_";

	(void)state;
	for (int byte = -128; byte < 128; byte++)
		assert_int_equal(ky_is_file_name_byte((char)byte),
				 byte != 0 && strchr(plain, byte) != NULL);
}

static void file_name__clean_replaces_whatever_else_there_is(void **state)
{
	(void)state;
	check("", "");
	check("my-web_1.2", "my-web_1.2");
	check("a b/c\\d\ne", "a_b_c_d_e");
	check("caf\xc3\xa9", "caf__");
}

static void file_name__clean_leaves_no_dot_in_front(void **state)
{
	(void)state;
	check(".", "_");
	check("..", "_.");
	check(".hidden", "_hidden");
	check("../../etc", "_._.._etc");
	check("/.x", "_.x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_name__plain_bytes_are_these_and_no_others),
		cmocka_unit_test(file_name__clean_replaces_whatever_else_there_is),
		cmocka_unit_test(file_name__clean_leaves_no_dot_in_front),
	};

	return cmocka_run_group_tests_name("file_name", tests, NULL, NULL);
}
