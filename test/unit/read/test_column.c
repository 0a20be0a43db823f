/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include <errno.h>
#include <kymo/base.h>
#include <read/column.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *append(struct ky_column *column, uint64_t time_ns, uint32_t value)
{
	uint32_t *row = ky_column_append(column, time_ns);

	assert_non_null(row);
	row[1] = value;
	row[2] = ~value;
	return row;
}

static void column__returns_every_time_exactly(void **state)
{
	static const uint64_t steps[] = {
		0, 1, 999, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(40000000000)};
	struct test_prng prng = {7};
	struct ky_pages pages;
	struct ky_column column;
	struct ky_cursor cursor;
	uint64_t *times = calloc(20000, sizeof(*times)), time_ns = 5, row;

	(void)state;
	assert_non_null(times);
	ky_pages_init(&pages, UINT64_MAX);
	ky_column_init(&column, &pages, 12);
	for (row = 0; row < 20000; row++) {
		times[row] = time_ns;
		append(&column, time_ns, (uint32_t)row);
		time_ns += steps[test_below(&prng, test_below(&prng, 10) == 0 ? 6 : 3)];
	}
	assert_false(column.is_unsorted);
	assert_true(ky_cursor_begin(&cursor, &column, 0));
	for (row = 0; row < 20000; row++) {
		assert_int_equal(ky_column_time(&column, row), times[row]);
		assert_int_equal(cursor.time_ns, times[row]);
		assert_int_equal(((const uint32_t *)ky_column_row(&column, row))[1], row);
		assert_int_equal(ky_cursor_next(&cursor), row + 1 < 20000);
	}
	assert_true(ky_cursor_begin(&cursor, &column, 12345));
	assert_int_equal(cursor.time_ns, times[12345]);
	row = ky_column_find(&column, times[777]);
	assert_true(times[row] == times[777] && (row == 0 || times[row - 1] < times[777]));
	assert_int_equal(ky_column_find(&column, UINT64_MAX), 20000);
	assert_int_equal(ky_column_find(&column, 0), 0);
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t wanted_ns = times[i] - 1 + test_below(&prng, 3), found = i;

		while (found && times[found - 1] >= wanted_ns)
			found--;
		while (found < 20000 && times[found] < wanted_ns)
			found++;
		assert_int_equal(ky_column_find(&column, wanted_ns), found);
	}
	ky_column_release(&column);
	ky_pages_release(&pages);
	free(times);
}

static void column__sorts_stably_and_keeps_the_extra_word(void **state)
{
	struct test_prng prng = {11};
	struct ky_pages pages;
	struct ky_column column;
	uint64_t i, last_ns = 0, time_ns;
	uint32_t last_value = 0;

	(void)state;
	ky_pages_init(&pages, UINT64_MAX);
	ky_column_init(&column, &pages, 16);
	column.has_extra = true;
	for (i = 0; i < 9000; i++) {
		time_ns = i % 3000 + UINT64_C(9000000000) * (i % 3000 > 1500) +
			  test_below(&prng, 40);
		append(&column, time_ns, (uint32_t)i)[3] = (uint32_t)time_ns;
		*ky_column_extra(&column, i) = (uint32_t)i + 1;
	}
	assert_true(column.is_unsorted);
	assert_int_equal(ky_column_sort(&column), 0);
	assert_false(column.is_unsorted);
	assert_int_equal(column.row_count, 9000);
	for (i = 0; i < 9000; i++) {
		const uint32_t *row = ky_column_row(&column, i);

		time_ns = ky_column_time(&column, i);
		assert_true(time_ns >= last_ns);
		if (i > 0 && time_ns == last_ns)
			assert_true(row[1] > last_value);
		assert_int_equal(row[3], (uint32_t)time_ns);
		assert_int_equal(*ky_column_extra(&column, i), row[1] + 1);
		last_ns = time_ns;
		last_value = row[1];
	}
	ky_column_release(&column);
	ky_pages_release(&pages);
}

static void column__costs_little_when_it_holds_little(void **state)
{
	static struct ky_column columns[100];
	struct ky_pages pages;
	int i;

	(void)state;
	ky_pages_init(&pages, UINT64_MAX);
	for (i = 0; i < 100; i++) {
		ky_column_init(&columns[i], &pages, 16);
		append(&columns[i], 1, 1);
	}
	assert_true(pages.bytes_used < 100 * 4096);
	for (i = 0; i < 100; i++)
		ky_column_release(&columns[i]);
	assert_int_equal(pages.bytes_used, 0);
	ky_pages_release(&pages);
}

static void column__stops_at_the_limit_and_reports_it(void **state)
{
	struct ky_pages pages;
	struct ky_column column;
	uint64_t i;

	(void)state;
	ky_pages_init(&pages, 3u << 20);
	ky_column_init(&column, &pages, 16);
	for (i = 0; i < 1000000 && ky_column_append(&column, i); i++)
		;
	assert_true(i > 100000 && i < 1000000);
	assert_int_equal(pages.failed, KYMO_E_LIMIT);
	assert_true(pages.bytes_used <= 3u << 20);
	assert_int_equal(column.row_count, i);
	ky_column_release(&column);
	ky_pages_release(&pages);
}

static void column__survives_each_failing_allocation(void **state)
{
	uint64_t n, i;
	bool has_failed = true;

	(void)state;
	for (n = 0; has_failed; n++) {
		struct ky_pages pages;
		struct ky_column column;
		int result = 0;

		test_alloc_fail_at(n);
		ky_pages_init(&pages, UINT64_MAX);
		ky_column_init(&column, &pages, 16);
		column.has_extra = true;
		for (i = 0; i < 10000; i++)
			if (!ky_column_append(&column, (i * 7919) % 5000))
				break;
		if (i == 10000)
			result = ky_column_sort(&column);
		has_failed = i < 10000 || result < 0;
		if (has_failed)
			assert_int_equal(pages.failed, -ENOMEM);
		ky_column_release(&column);
		ky_pages_release(&pages);
	}
	test_alloc_normal();
	assert_true(n > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(column__returns_every_time_exactly),
		cmocka_unit_test(column__sorts_stably_and_keeps_the_extra_word),
		cmocka_unit_test(column__costs_little_when_it_holds_little),
		cmocka_unit_test(column__stops_at_the_limit_and_reports_it),
		cmocka_unit_test(column__survives_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("column", tests, NULL, NULL);
}
