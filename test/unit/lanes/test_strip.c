/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "random_rows.h"

#include <lanes/strip.h>

#define PIXELS_MAX 300u

static struct random_rows rows = {.state = 88172645463325252u};
static struct ky_strip_pixel strip[PIXELS_MAX];

static uint64_t end_of(uint32_t row)
{
	return rows.starts[row] + rows.lengths[row];
}

/* The rule of strip.h by a look at every row. */
static uint32_t oracle(uint64_t from_ns, uint64_t to_ns)
{
	uint32_t carried = UINT32_MAX, longest = UINT32_MAX;

	for (uint32_t i = 0; i < rows.count; i++) {
		if (rows.starts[i] < from_ns) {
			if (end_of(i) > from_ns &&
			    (carried == UINT32_MAX || end_of(i) > end_of(carried)))
				carried = i;
		} else if (rows.starts[i] < to_ns &&
			   (longest == UINT32_MAX || rows.lengths[i] > rows.lengths[longest])) {
			longest = i;
		}
	}
	if (carried == UINT32_MAX)
		return longest;
	if (longest == UINT32_MAX || rows.lengths[longest] <= rows.lengths[carried])
		return carried;
	return longest;
}

static uint64_t longest_in(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t longest_ns = 0;

	for (uint32_t i = 0; i < rows.count; i++)
		if (rows.starts[i] < to_ns && (end_of(i) > from_ns || rows.starts[i] >= from_ns) &&
		    rows.lengths[i] > longest_ns)
			longest_ns = rows.lengths[i];
	return longest_ns;
}

static struct ky_view draw_view(uint64_t last_ns)
{
	struct ky_view view = {.pixels = 1 + (uint32_t)draw(&rows, PIXELS_MAX)};

	view.from_ns = draw(&rows, last_ns);
	view.to_ns = view.from_ns + view.pixels +
		     draw(&rows, draw(&rows, 2) ? last_ns : last_ns / 100);
	return view;
}

static void check_views(bool is_nested)
{
	struct ky_forest forest;

	draw_rows(&rows, 5000, is_nested);
	assert_int_equal(plant(&forest, &rows), 0);
	for (uint32_t i = 0; i < 100; i++) {
		struct ky_view view = draw_view(rows.starts[4999] + 2000);

		ky_strip_make(strip, &forest, &view);
		for (uint32_t pixel = 0; pixel < view.pixels; pixel++) {
			uint64_t from_ns = ky_view_edge(&view, pixel);
			uint64_t to_ns = ky_view_edge(&view, pixel + 1);
			uint32_t row = strip[pixel].row;

			assert_true(to_ns > from_ns);
			assert_int_equal(row, oracle(from_ns, to_ns));
			assert_int_equal(strip[pixel].share == 0, row == UINT32_MAX);
			if (row == UINT32_MAX)
				continue;
			assert_int_equal(strip[pixel].start_ns, rows.starts[row]);
			assert_int_equal(strip[pixel].length_ns, rows.lengths[row]);
			if (is_nested)
				assert_int_equal(rows.lengths[row], longest_in(from_ns, to_ns));
		}
	}
	ky_forest_release(&forest);
}

static void strip__shows_the_longest_row_of_each_pixel(void **state)
{
	(void)state;
	check_views(true);
}

static void strip__keeps_its_rule_where_rows_overlap(void **state)
{
	(void)state;
	check_views(false);
}

/* The worst row of all is in a pixel of every view that it lies in. */
static void strip__never_hides_the_worst(void **state)
{
	struct ky_forest forest;
	uint32_t worst;

	(void)state;
	draw_rows(&rows, 5000, false);
	rows.lengths[2345] = 100000;
	assert_int_equal(plant(&forest, &rows), 0);
	worst = ky_forest_range(&forest, 0, 5000).longest;
	assert_int_equal(worst, 2345);
	for (uint32_t i = 0; i < 1000; i++) {
		struct ky_view view = draw_view(rows.starts[4999]);
		bool is_seen = false;

		if (view.from_ns > rows.starts[worst] || view.to_ns <= rows.starts[worst])
			continue;
		ky_strip_make(strip, &forest, &view);
		for (uint32_t pixel = 0; pixel < view.pixels; pixel++)
			is_seen |= strip[pixel].row == worst;
		assert_true(is_seen);
	}
	ky_forest_release(&forest);
}

static void share__is_how_much_of_the_pixel_is_covered(void **state)
{
	struct ky_view view = {.from_ns = 1000, .to_ns = 1400, .pixels = 4};
	static const uint32_t expected[] = {KY_STRIP_SHARE_MAX * 40 / 100, 0, KY_STRIP_SHARE_MAX,
					    KY_STRIP_SHARE_MAX * 50 / 100};
	struct ky_forest forest;

	(void)state;
	rows.count = 3;
	rows.starts[0] = 1020;
	rows.lengths[0] = 10;
	rows.starts[1] = 1050;
	rows.lengths[1] = 30;
	rows.starts[2] = 1200;
	rows.lengths[2] = 150;
	assert_int_equal(plant(&forest, &rows), 0);
	ky_strip_make(strip, &forest, &view);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(strip[i].share, expected[i]);
	assert_int_equal(strip[0].row, 1);
	assert_int_equal(strip[3].row, 2);
	ky_forest_release(&forest);
}

static void edges__are_exact_over_the_whole_clock(void **state)
{
	struct ky_view view = {.from_ns = 1, .to_ns = UINT64_MAX, .pixels = 16384};

	(void)state;
	assert_int_equal(ky_view_edge(&view, 0), 1);
	assert_true(ky_view_edge(&view, 16384) == UINT64_MAX);
	for (uint32_t i = 0; i < 16384; i++)
		assert_true(ky_view_edge(&view, i) < ky_view_edge(&view, i + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strip__shows_the_longest_row_of_each_pixel),
		cmocka_unit_test(strip__keeps_its_rule_where_rows_overlap),
		cmocka_unit_test(strip__never_hides_the_worst),
		cmocka_unit_test(share__is_how_much_of_the_pixel_is_covered),
		cmocka_unit_test(edges__are_exact_over_the_whole_clock),
	};

	return cmocka_run_group_tests_name("strip", tests, NULL, NULL);
}
