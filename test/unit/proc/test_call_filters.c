/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Filters of system calls of this process, of a child that adds one, and of a made /proc. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <fcntl.h>
#include <proc/call_filters.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_BYTES 32u
#define PATH_BYTES 128u

static char folder[FOLDER_BYTES];

static int setup(void **state)
{
	(void)state;
	return temp_tree_make(folder, sizeof(folder));
}

static int teardown(void **state)
{
	(void)state;
	return temp_tree_remove(folder);
}

static void put(const char *name, const char *text)
{
	char path[PATH_BYTES];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	(void)fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static int count(bool all_threads)
{
	int dir = open(folder, O_PATH | O_DIRECTORY), filters;

	assert_true(dir >= 0);
	filters = ky_call_filters(dir, all_threads);
	close(dir);
	return filters;
}

static void filters__are_counted_by_the_kernel(void **state)
{
	int self = open("/proc/self", O_PATH | O_DIRECTORY);

	(void)state;
	assert_true(ky_call_filters(self, false) >= 0);
	assert_int_equal(ky_call_filters(self, true), ky_call_filters(self, false));
	close(self);
}

static void filters__are_the_most_of_any_thread(void **state)
{
	char path[PATH_BYTES];

	(void)state;
	put("status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
	for (int i = 1; i <= 3; i++) {
		(void)snprintf(path, sizeof(path), i == 1 ? "%s/task" : "%s/task/%d", folder, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	put("task/2/status", "Name:\tx\nSeccomp_filters:\t1\n");
	put("task/3/status", "Name:\tx\nSeccomp_filters:\t4\n");
	assert_int_equal(count(false), 1);
	assert_int_equal(count(true), 4);
}

static void filters__of_an_old_kernel_are_there_or_not(void **state)
{
	(void)state;
	put("status", "Name:\tx\nSeccomp:\t2\n");
	assert_int_equal(count(false), 2);
}

static void filters__that_cannot_be_read_are_not_none(void **state)
{
	(void)state;
	assert_int_equal(count(false), -1);
	assert_int_equal(count(true), -1);
	put("status", "Name:\tx\n");
	assert_int_equal(count(false), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(filters__are_counted_by_the_kernel, setup,
						teardown),
		cmocka_unit_test_setup_teardown(filters__are_the_most_of_any_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(filters__of_an_old_kernel_are_there_or_not, setup,
						teardown),
		cmocka_unit_test_setup_teardown(filters__that_cannot_be_read_are_not_none, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
