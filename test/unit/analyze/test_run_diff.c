/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* With fixed seeds; test_diff_simulation.c has the many. */
#include "../../lib/cmocka_all.h"
#include "diff_simulation.h"
#include <errno.h>
#include <string.h>

static const struct simulation alike = {
	.runs = 8, .places = 8, .polls = 600, .run_sd = 0.05, .place_sd = 0.01};

static void diff__finds_nothing_in_groups_that_are_alike(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ky_diff *diff = simulated_diff(&alike, seed);

		assert_non_null(diff);
		assert_true(diff->is_conclusive);
		assert_int_equal(diff->deal_count, 12870);
		assert_int_equal(diff->slower_count + diff->faster_count, 0);
		ky_diff_free(diff);
	}
}

static void diff__finds_the_place_that_became_slower(void **state)
{
	struct simulation slow = alike;

	(void)state;
	slow.slow = ky_log(1.05);
	slow.slow_polls = 20000;
	slow.place_sd = 0;
	slow.polls = 1500;
	slow.places = 12;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ky_diff *diff = simulated_diff(&slow, seed);
		const struct ky_diff_value *value;

		assert_non_null(diff);
		value = &diff->places[0].values[KY_RUN_P50];
		assert_true(diff->slower_count >= 1);
		assert_int_equal(diff->faster_count, 0);
		assert_true(value->p <= KY_DIFF_P_MAX);
		assert_true(value->change > 0.02 && value->change < 0.08);
		assert_true(value->smallest > 0 && value->smallest < 0.2);
		assert_true(diff->places[1].values[KY_RUN_P50].p > KY_DIFF_P_MAX);
		ky_diff_free(diff);
	}
}

static void diff__needs_eight_interleaved_runs_a_side(void **state)
{
	struct simulation few = alike;
	struct ky_diff *diff;

	(void)state;
	few.runs = 7;
	diff = simulated_diff(&few, 1);
	assert_false(diff->is_conclusive);
	assert_int_equal(diff->deal_count, 3432);
	ky_diff_free(diff);
	few.runs = 1;
	diff = simulated_diff(&few, 1);
	assert_int_equal(diff->deal_count, 0);
	assert_true(diff->places[0].values[0].p == 1);
	ky_diff_free(diff);
	few.runs = 20; /* too many ways to deal them */
	diff = simulated_diff(&few, 1);
	assert_true(diff->is_conclusive);
	assert_int_equal(diff->deal_count, KY_DIFF_DEALS);
	ky_diff_free(diff);
}

static void diff__compares_places_that_all_runs_have(void **state)
{
	struct ky_run_place cells[4][2];
	const bool is_b[4] = {false, true, false, true};
	const struct ky_diff_input input = {
		.cells = &cells[0][0], .is_b = is_b, .run_count = 4, .place_count = 2};
	const struct ky_diff_input one_group = {
		.cells = &cells[0][0], .is_b = is_b, .run_count = 1, .place_count = 2};
	struct ky_diff *diff;

	(void)state;
	memset(cells, 0, sizeof(cells));
	for (uint32_t run = 0; run < 4; run++) {
		cells[run][0].poll_count = 600; /* enough for p90, not for p99 */
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
			cells[run][0].logs[k] = ky_log(1000.0 * (is_b[run] ? 2 : 1));
	}
	cells[0][1].poll_count = 9000; /* the others lack it */
	assert_int_equal(ky_diff_make(&diff, &input), 0);
	assert_int_equal(diff->compared_count, 1);
	assert_true(diff->places[0].values[KY_RUN_P90].is_compared);
	assert_false(diff->places[0].values[KY_RUN_P99].is_compared);
	assert_false(diff->places[1].values[KY_RUN_P50].is_compared);
	assert_int_equal(diff->places[0].values[KY_RUN_P50].a_ns, 1000);
	assert_int_equal(diff->places[0].values[KY_RUN_P50].b_ns, 2000);
	/* One place alone: there are no others to take off. */
	assert_true(diff->places[0].values[KY_RUN_P50].change > 0.69);
	assert_int_equal(diff->places[0].b_polls, 1200);
	ky_diff_free(diff);
	assert_int_equal(ky_diff_make(&diff, &one_group), -EINVAL);
	assert_null(diff);
}

static void diff__knows_runs_that_were_not_interleaved(void **state)
{
	const uint64_t begins[8] = {10, 20, 30, 40, 50, 60, 70, 80};
	const uint64_t unknown[8] = {10, 20, 30, 0, 50, 60, 70, 80};
	const bool after[8] = {0, 0, 0, 0, 1, 1, 1, 1}, turns[8] = {0, 1, 0, 1, 0, 1, 0, 1};
	const bool mixed[8] = {0, 0, 1, 1, 0, 1, 1, 0};

	(void)state;
	assert_false(ky_diff_is_interleaved(begins, after, 8));
	assert_true(ky_diff_is_interleaved(begins, turns, 8));
	assert_true(ky_diff_is_interleaved(begins, mixed, 8));
	assert_false(ky_diff_is_interleaved(unknown, turns, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(diff__finds_nothing_in_groups_that_are_alike),
		cmocka_unit_test(diff__finds_the_place_that_became_slower),
		cmocka_unit_test(diff__needs_eight_interleaved_runs_a_side),
		cmocka_unit_test(diff__compares_places_that_all_runs_have),
		cmocka_unit_test(diff__knows_runs_that_were_not_interleaved),
	};

	return cmocka_run_group_tests_name("run_diff", tests, NULL, NULL);
}
