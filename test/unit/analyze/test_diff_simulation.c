/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* How often `kymo diff` is wrong: 300 pairs of groups that are alike, 60 in which one place is 5 %
 * slower. KYMO_DIFF_GROUPS=500 tries 1,000 and 500 of them. */
#include "../../lib/cmocka_all.h"
#include "diff_simulation.h"
#include <stdio.h>
#include <stdlib.h>

static uint32_t groups(uint32_t usual)
{
	const char *text = getenv("KYMO_DIFF_GROUPS");

	return text ? (uint32_t)strtoul(text, NULL, 10) : usual;
}

static uint32_t alarms(const struct simulation *of, uint32_t count, uint64_t seed)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct ky_diff *diff = simulated_diff(of, seed + i);

		assert_non_null(diff);
		found += diff->slower_count + diff->faster_count > 0;
		ky_diff_free(diff);
	}
	return found;
}

static void diff__gives_at_most_one_false_alarm_in_a_hundred(void **state)
{
	const struct simulation common = {
		.runs = 8, .places = 20, .polls = 1500, .run_sd = 0.05, .place_sd = 0};
	const struct simulation single = {
		.runs = 8, .places = 20, .polls = 1500, .run_sd = 0.05, .place_sd = 0.05};
	uint32_t count = groups(150), found, own;

	(void)state;
	found = alarms(&common, count, 1000);
	own = alarms(&single, count, 5000);
	(void)printf("# %u and %u false alarms in %u and %u groups\n", found, own, count, count);
	assert_true((found + own) * 100 <= 2 * count);
}

static void diff__sees_five_percent_in_nine_of_ten_cases(void **state)
{
	const struct simulation slow = {.runs = 8,
					.places = 20,
					.polls = 1500,
					.run_sd = 0.05,
					.slow = 0.04879016416943205,
					.slow_polls = 20000};
	uint32_t count = groups(60), found = 0, others = 0;

	(void)state;
	for (uint32_t i = 0; i < count; i++) {
		struct ky_diff *diff = simulated_diff(&slow, 9000 + i);
		bool is_found = false;

		assert_non_null(diff);
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
			is_found |= diff->places[0].values[k].p <= KY_DIFF_P_MAX;
		found += is_found;
		others += diff->slower_count + diff->faster_count > KY_RUN_QUANTILES;
		ky_diff_free(diff);
	}
	(void)printf("# found in %u of %u groups\n", found, count);
	assert_true(found * 10 >= 9 * count);
	assert_int_equal(others, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(diff__gives_at_most_one_false_alarm_in_a_hundred),
		cmocka_unit_test(diff__sees_five_percent_in_nine_of_ten_cases),
	};

	return cmocka_run_group_tests_name("diff_simulation", tests, NULL, NULL);
}
