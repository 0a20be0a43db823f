/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* diff_simulation.h - groups of runs as made by chance: each run has a speed of its own, and polls
 * close to each other are alike. What `kymo diff` says of them is compared with what was put in.
 */
#ifndef KY_TEST_UNIT_ANALYZE_DIFF_SIMULATION_H
#define KY_TEST_UNIT_ANALYZE_DIFF_SIMULATION_H

#include <analyze/log_exp.h>
#include <analyze/run_diff.h>
#include <base/alloc.h>
#include <base/random.h>

struct simulation {
	uint32_t runs; /* of each group */
	uint32_t places, polls;
	double run_sd;   /* of the logarithm; common to all places of a run */
	double place_sd; /* ... of one place in one run */
	double slow;     /* logarithm by which place 0 is slower in B */
	uint32_t slow_polls;
};

/* Of standard deviation 1: the sum of 12 shares. */
static inline double simulated_normal(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += ky_random_share(state);
	return sum;
}

/* A place of one run: 20 us at the median, an autoregressive process of 0.9. */
static inline int simulated_place(struct ky_run_place *out, struct ky_timed_length *polls,
				  uint32_t count, double offset, uint64_t *state)
{
	const double kept = 0.9, drawn = 0.3 * 0.4358898943540674; /* 0.3 * root(1 - 0.81) */
	double x = 0.3 * simulated_normal(state);

	for (uint32_t i = 0; i < count; i++) {
		x = kept * x + drawn * simulated_normal(state);
		polls[i].at_ns = UINT64_C(1000000) * i;
		polls[i].length_ns = (uint64_t)(20000 * ky_exp(offset + x));
	}
	return ky_run_place_make(out, polls, count, 1);
}

/* Returns what is found in one pair of groups; NULL: no memory. */
static inline struct ky_diff *simulated_diff(const struct simulation *of, uint64_t seed)
{
	const uint32_t runs = 2 * of->runs;
	const uint32_t most = of->polls > of->slow_polls ? of->polls : of->slow_polls;
	struct ky_run_place *cells = ky_alloc((size_t)runs * of->places * sizeof(*cells));
	struct ky_timed_length *polls = ky_alloc((size_t)most * sizeof(*polls));
	bool *is_b = ky_alloc(runs * sizeof(*is_b));
	struct ky_diff_input input = {.cells = cells,
				      .is_b = is_b,
				      .run_count = runs,
				      .place_count = of->places,
				      .is_interleaved = true};
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct ky_diff *diff = NULL;
	int result = 0;

	for (uint32_t run = 0; run < runs && cells && polls && is_b; run++) {
		double speed = of->run_sd * simulated_normal(&state);

		is_b[run] = run % 2;
		for (uint32_t place = 0; place < of->places && !result; place++) {
			double offset = speed + of->place_sd * simulated_normal(&state);
			bool is_slow = place == 0 && of->slow_polls;

			result = simulated_place(&cells[run * of->places + place], polls,
						 is_slow ? of->slow_polls : of->polls,
						 offset + (is_slow && is_b[run] ? of->slow : 0),
						 &state);
		}
	}
	if (cells && polls && is_b && !result)
		(void)ky_diff_make(&diff, &input);
	ky_free(cells);
	ky_free(polls);
	ky_free(is_b);
	return diff;
}

#endif
