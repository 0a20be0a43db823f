/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of live tasks against an array: random adds and ends, all of it compared each time. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <drain/task_table.h>
#include <string.h>

#define TASKS 4000u

static void tasks__table_agrees_with_an_array(void **state)
{
	static bool is_live[TASKS];
	struct test_prng prng = {7};
	struct ky_task_table table;
	uint32_t count = 0;

	(void)state;
	assert_int_equal(ky_task_table_init(&table, 1u << 20), 0);
	for (uint32_t step = 0; step < 60000; step++) {
		uint32_t task = test_below(&prng, TASKS);

		if (is_live[task]) {
			struct ky_drain_task *found = ky_task_table_find(&table, task);

			assert_non_null(found);
			assert_int_equal(found->name, task * 3);
			ky_task_table_end(&table, task);
			is_live[task] = false;
			count--;
		} else if (ky_task_table_add(&table, task, task * 3)) {
			is_live[task] = true;
			count++;
		} else {
			/* It ended lately: forget that, as 16,384 later ends would. */
			memset(table.ended, 0, 16384 * sizeof(*table.ended));
		}
		assert_int_equal(table.count, count);
	}
	for (uint32_t task = 0; task < TASKS; task++)
		assert_int_equal(ky_task_table_find(&table, task) != NULL, is_live[task]);
	ky_task_table_release(&table);
}

static void tasks__beyond_the_limit_are_counted_once(void **state)
{
	struct ky_task_table table;

	(void)state;
	assert_int_equal(ky_task_table_init(&table, 100), 0);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t task = 1; task <= 150; task++) {
			if (!ky_task_table_find(&table, task))
				ky_task_table_add(&table, task, 0);
		}
	}
	assert_int_equal(table.count, 100);
	assert_int_equal(table.untracked_count, 50);
	ky_task_table_release(&table);
}

static void tasks__an_ended_task_does_not_come_back(void **state)
{
	struct ky_task_table table;

	(void)state;
	assert_int_equal(ky_task_table_init(&table, 100), 0);
	assert_non_null(ky_task_table_add(&table, 5, 0));
	ky_task_table_end(&table, 5);
	assert_null(ky_task_table_find(&table, 5));
	assert_null(ky_task_table_add(&table, 5, 0));
	assert_int_equal(table.untracked_count, 0);
	ky_task_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks__table_agrees_with_an_array),
		cmocka_unit_test(tasks__beyond_the_limit_are_counted_once),
		cmocka_unit_test(tasks__an_ended_task_does_not_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
