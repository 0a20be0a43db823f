/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "diff_simulation.h"

static void run_place__has_the_quantiles_of_its_polls(void **state)
{
	static struct ky_timed_length polls[1000];
	struct ky_run_place place;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		polls[i] = (struct ky_timed_length){i, (uint64_t)(i * 7919 % 1000 + 1) << 33};
	assert_int_equal(ky_run_place_make(&place, polls, 1000, 1), 0);
	assert_int_equal(place.quantiles_ns[KY_RUN_P50], UINT64_C(500) << 33);
	assert_int_equal(place.quantiles_ns[KY_RUN_P90], UINT64_C(900) << 33);
	assert_int_equal(place.quantiles_ns[KY_RUN_P99], UINT64_C(990) << 33);
	for (uint32_t i = 1; i < 1000; i++)
		assert_true(polls[i - 1].length_ns < polls[i].length_ns);
}

static void run_place__of_equal_polls_does_not_scatter(void **state)
{
	struct ky_timed_length polls[200];
	struct ky_run_place place;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		polls[i] = (struct ky_timed_length){7, 0};
	assert_int_equal(ky_run_place_make(&place, polls, 200, 1), 0);
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
		assert_true(place.logs[k] == 0 && place.variances[k] == 0);
	assert_int_equal(ky_run_place_make(&place, polls, 1, 1), 0);
}

/* The bootstrap of one run says how far many runs scatter. */
static void run_place__scatters_as_many_runs_do(void **state)
{
	enum {
		RUNS = 200,
		POLLS = 2000
	};
	static struct ky_timed_length polls[POLLS];
	double sum = 0, squares = 0, inside = 0, variance;
	uint64_t random = 42;

	(void)state;
	for (uint32_t run = 0; run < RUNS; run++) {
		struct ky_run_place place;

		assert_int_equal(simulated_place(&place, polls, POLLS, 0, &random), 0);
		sum += place.logs[KY_RUN_P50];
		squares += place.logs[KY_RUN_P50] * place.logs[KY_RUN_P50];
		inside += place.variances[KY_RUN_P50] / RUNS;
	}
	variance = (squares - sum * sum / RUNS) / (RUNS - 1);
	/* Blocks of 50 polls lose what reaches beyond them; single polls would say a tenth. */
	assert_true(inside > 0.55 * variance && inside < 1.3 * variance);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_place__has_the_quantiles_of_its_polls),
		cmocka_unit_test(run_place__of_equal_polls_does_not_scatter),
		cmocka_unit_test(run_place__scatters_as_many_runs_do),
	};

	return cmocka_run_group_tests_name("run_places", tests, NULL, NULL);
}
