/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* String tables of every shape against a search for each name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../adapters/tokio/tokio_names.h"

#define TABLE_BYTES (3u << 16)

static bool is_wanted(const char *name)
{
	return strstr(name, "tokio") || strstr(name, "5panic") || strstr(name, "9panicking") ||
	       strstr(name, "rust_try") || strstr(name, "call_once") ||
	       strstr(name, "kymo_recorder_open");
}

static uint64_t random_word(void)
{
	static uint64_t state = 7;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int file_of(const char *table, size_t bytes)
{
	int fd = memfd_create("names", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, table, bytes), (ssize_t)bytes);
	return fd;
}

/* Every offset, also in the middle of a name: linkers let a name be the tail of another. */
static void check_all(const char *table, uint32_t bytes)
{
	struct ky_tokio_names names;
	bool has_proof = false, is_proof;
	int fd = file_of(table, bytes);

	assert_int_equal(ky_tokio_names_read(&names, fd, 0, bytes), 0);
	for (uint32_t at = 0; at < bytes; at++) {
		uint32_t found = ky_tokio_names_find(&names, at, &is_proof);

		if (is_wanted(table + at)) {
			assert_int_not_equal(found, UINT32_MAX);
			assert_string_equal(names.texts + found, table + at);
			if (strstr(table + at, "5tokio7runtime4task")) {
				assert_true(is_proof);
				has_proof = true;
			}
		} else {
			assert_int_equal(found, UINT32_MAX);
		}
	}
	assert_int_equal(names.has_proof, has_proof);
	ky_tokio_names_release(&names);
	close(fd);
}

static void names__are_those_that_a_search_for_each_finds(void **state)
{
	static const char *const parts[] = {
		"tokio",
		"tokio5panic",
		"5tokio7runtime4task",
		"5panic",
		"4panic",
		"9panicking",
		"rust_try",
		"rust_tr",
		"call_once",
		"kymo_recorder_open",
		"_o",
		"_t",
		"ki",
		"okio",
		"5p",
		"",
		"x",
	};
	char *table = malloc(TABLE_BYTES + 64);

	(void)state;
	assert_non_null(table);
	for (int round = 0; round < 8; round++) {
		size_t used = 1;

		table[0] = 0;
		while (used < TABLE_BYTES - 64) {
			int length = (int)(random_word() % 4096) % 24;

			while (length--)
				table[used++] = (char)('a' + (int)(random_word() % 4096) % 26);
			if ((int)(random_word() % 4096) % 4 == 0)
				used += (size_t)snprintf(
					table + used, 32, "%s",
					parts[random_word() % (sizeof(parts) / sizeof(parts[0]))]);
			if ((int)(random_word() % 4096) % 3 == 0)
				table[used++] = 0;
		}
		table[used++] = 0;
		check_all(table, (uint32_t)used);
	}
	free(table);
}

/* Longer than any window, and a table without an end: cut, never read beyond. */
static void names__without_an_end_are_survived(void **state)
{
	struct ky_tokio_names names;
	char *table = malloc(TABLE_BYTES);
	bool is_proof;
	int fd;

	(void)state;
	assert_non_null(table);
	memset(table, 'k', TABLE_BYTES);
	memcpy(table + TABLE_BYTES - 5, "tokio", 5);
	fd = file_of(table, TABLE_BYTES);
	assert_int_equal(ky_tokio_names_read(&names, fd, 0, TABLE_BYTES), 0);
	assert_int_equal(ky_tokio_names_find(&names, 0, &is_proof), UINT32_MAX);
	ky_tokio_names_release(&names);
	assert_int_equal(ky_tokio_names_read(&names, fd, TABLE_BYTES - 5, 5), 0);
	assert_int_equal(ky_tokio_names_find(&names, 0, &is_proof), 0);
	ky_tokio_names_release(&names);
	assert_int_equal(ky_tokio_names_read(&names, fd, 5, TABLE_BYTES), 1);
	close(fd);
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names__are_those_that_a_search_for_each_finds),
		cmocka_unit_test(names__without_an_end_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
