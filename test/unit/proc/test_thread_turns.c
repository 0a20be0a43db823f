/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Turns of threads, out of a /proc of the test's own. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <proc/thread_turns.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree[64];

static int setup(void **state)
{
	char path[128];

	(void)state;
	assert_int_equal(temp_tree_make(tree, sizeof(tree)), 0);
	(void)snprintf(path, sizeof(path), "%s/7", tree);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/7/task", tree);
	return mkdir(path, 0700);
}

static int teardown(void **state)
{
	(void)state;
	return temp_tree_remove(tree);
}

/* NULL: a thread without the file. */
static void add(uint32_t tid, const char *schedstat)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/7/task/%u", tree, tid);
	assert_int_equal(mkdir(path, 0700), 0);
	if (!schedstat)
		return;
	(void)snprintf(path, sizeof(path), "%s/7/task/%u/schedstat", tree, tid);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(schedstat, file);
	fclose(file);
}

static void turns__of_all_threads_are_added_up(void **state)
{
	uint64_t turns = 0;

	(void)state;
	add(7, "100 20 30\n");
	add(8, "1 2 12\n");
	assert_true(ky_thread_turns(tree, 7, &turns));
	assert_int_equal(turns, 42);
}

/* It ends just now, or the kernel does not count. */
static void turns__of_a_thread_that_has_none_are_those_of_the_others(void **state)
{
	uint64_t turns = 0;

	(void)state;
	add(7, "100 20 30\n");
	add(8, NULL);
	add(9, "");
	add(10, "0\n");
	assert_true(ky_thread_turns(tree, 7, &turns));
	assert_int_equal(turns, 30 * 4);
	assert_false(ky_thread_turns(tree, 8, &turns));
}

static void turns__of_many_threads_are_those_of_some(void **state)
{
	uint64_t turns = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * KY_THREAD_TURNS_MAX; i++)
		add(100 + i, "1 1 5\n");
	assert_true(ky_thread_turns(tree, 7, &turns));
	assert_int_equal(turns, 2 * KY_THREAD_TURNS_MAX * 5);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(turns__of_all_threads_are_added_up),
		CASE(turns__of_a_thread_that_has_none_are_those_of_the_others),
		CASE(turns__of_many_threads_are_those_of_some),
	};

	return cmocka_run_group_tests_name("thread_turns", tests, NULL, NULL);
}
