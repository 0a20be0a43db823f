/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "random_rows.h"

#include <base/alloc.h>
#include <errno.h>

static struct random_rows rows = {.state = 88172645463325252u};

/* What a look at every row says. */
static struct ky_forest_node oracle(uint32_t first, uint32_t end)
{
	struct ky_forest_node node = {.longest = UINT32_MAX, .last = UINT32_MAX};

	for (uint32_t i = first; i < end; i++) {
		uint64_t end_ns = rows.starts[i] + rows.lengths[i];

		if (node.longest == UINT32_MAX || rows.lengths[i] > node.longest_ns) {
			node.longest = i;
			node.longest_ns = rows.lengths[i];
		}
		if (node.last == UINT32_MAX || end_ns > node.end_ns) {
			node.last = i;
			node.end_ns = end_ns;
		}
		node.sum_ns += rows.lengths[i];
	}
	return node;
}

static void forest__finds_what_a_look_at_every_row_finds(void **state)
{
	static const uint32_t counts[] = {0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 6000};
	struct ky_forest forest;

	(void)state;
	for (uint32_t at = 0; at < sizeof(counts) / sizeof(counts[0]); at++) {
		draw_rows(&rows, counts[at], false);
		assert_int_equal(plant(&forest, &rows), 0);
		for (uint32_t i = 0; i < 2000; i++) {
			uint32_t first = (uint32_t)draw(&rows, counts[at] + 1);
			uint32_t end = first + (uint32_t)draw(&rows, counts[at] - first + 1);
			struct ky_forest_node found = ky_forest_range(&forest, first, end);
			struct ky_forest_node expected = oracle(first, end);

			assert_int_equal(found.longest, expected.longest);
			assert_int_equal(found.last, expected.last);
			assert_int_equal(found.longest_ns, expected.longest_ns);
			assert_int_equal(found.end_ns, expected.end_ns);
			assert_int_equal(found.sum_ns, expected.sum_ns);
		}
		ky_forest_release(&forest);
	}
}

static void forest__finds_rows_by_time(void **state)
{
	struct ky_forest forest;

	(void)state;
	draw_rows(&rows, 3000, false);
	assert_int_equal(plant(&forest, &rows), 0);
	for (uint32_t i = 0; i < 2000; i++) {
		uint64_t time_ns = draw(&rows, rows.starts[2999] + 100);
		uint32_t from = (uint32_t)draw(&rows, 3001), expected = 0, after;

		while (expected < 3000 && rows.starts[expected] < time_ns)
			expected++;
		assert_int_equal(ky_forest_find(&forest, time_ns), expected);
		after = expected > from ? expected : from;
		assert_int_equal(ky_forest_find_from(&forest, time_ns, from), after);
	}
	ky_forest_release(&forest);
}

/* Nothing wraps around. */
static void forest__sums_and_ends_saturate(void **state)
{
	struct ky_forest forest;
	struct ky_forest_node all;

	(void)state;
	rows.count = 3;
	for (uint32_t i = 0; i < 3; i++) {
		rows.starts[i] = i + 10;
		rows.lengths[i] = UINT64_MAX - 1;
	}
	assert_int_equal(plant(&forest, &rows), 0);
	all = ky_forest_range(&forest, 0, 3);
	assert_int_equal(all.longest, 0);
	assert_true(all.sum_ns == UINT64_MAX && all.end_ns == UINT64_MAX);
	ky_forest_release(&forest);
}

static _Bool refuse(size_t bytes)
{
	(void)bytes;
	return 0;
}

static void forest__says_when_memory_is_out(void **state)
{
	struct ky_forest forest;

	(void)state;
	draw_rows(&rows, 20, false);
	ky_alloc_hook = refuse;
	assert_int_equal(plant(&forest, &rows), -ENOMEM);
	ky_alloc_hook = NULL;
	ky_forest_release(&forest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forest__finds_what_a_look_at_every_row_finds),
		cmocka_unit_test(forest__finds_rows_by_time),
		cmocka_unit_test(forest__sums_and_ends_saturate),
		cmocka_unit_test(forest__says_when_memory_is_out),
	};

	return cmocka_run_group_tests_name("forest", tests, NULL, NULL);
}
