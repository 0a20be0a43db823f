/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_diff.h - do the places of one group of runs differ from those of another? The unit is the
 * run: polls of one run are alike, and a test over polls finds a difference of any two runs.
 *
 * Change:      of a place, in the logarithm of a quantile, and of each run: what it has more than
 *              its mean, less the median of what all other places of that run have more than
 *              theirs. So what all have in common, such as a faster machine, does not count. Of
 *              fewer than KY_DIFF_PLACES_MIN places nothing is taken off.
 * Test:        of all places and quantiles together. T is the difference of the groups' means by
 *              its standard error: of the runs, and at least of the polls inside them (block
 *              bootstrap). The runs are dealt anew to the groups, all ways or KY_DIFF_DEALS of
 *              them; the largest |T| of each deal says how large one gets by chance (max-T).
 * Verdict:     a change with p <= KY_DIFF_P_MAX, where both groups have KY_DIFF_RUNS_MIN runs that
 *              were interleaved; else the figures are indicative.
 * Invariants:  deterministic, of any size of input; no clock, no library.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_RUN_DIFF_H
#define KY_ANALYZE_RUN_DIFF_H

#include <analyze/run_places.h>
#include <base/buf.h>

#define KY_DIFF_RUNS_MIN 8u
#define KY_DIFF_RUNS_MAX 200u /* of both groups */
#define KY_DIFF_PLACES_MIN 4u
#define KY_DIFF_DEALS 10000u
#define KY_DIFF_DEALS_ALL 20000u /* up to so many, all ways to deal are taken */
#define KY_DIFF_P_MAX 0.005

struct ky_diff_value {
	bool is_compared;    /* all runs have enough polls */
	uint64_t a_ns, b_ns; /* geometric means over the runs */
	double change;       /* logarithm of B to A, less what all places have in common */
	double error;        /* its standard error; 0: not known */
	double p;            /* of the whole family; 1 where it was not tested */
	double smallest;     /* logarithm that these runs would have shown in 9 of 10 cases; 0 */
};

struct ky_diff_place {
	uint64_t a_polls, b_polls; /* over all runs */
	struct ky_diff_value values[KY_RUN_QUANTILES];
};

/* One row a run, one column a place. */
struct ky_diff_input {
	const struct ky_run_place *cells; /* runs * places; poll_count 0: none */
	const bool *is_b;                 /* by run */
	uint32_t run_count, place_count;
	bool is_interleaved;
};

struct ky_diff {
	struct ky_diff_place *places;
	uint32_t place_count;
	uint32_t a_runs, b_runs;
	bool is_interleaved, is_conclusive;
	uint32_t compared_count; /* places with a quantile that was compared */
	uint64_t deal_count;     /* 0: nothing was tested */
	/* Logarithm of B to A of the median place. */
	double common[KY_RUN_QUANTILES];
	uint32_t slower_count, faster_count; /* changes with p <= KY_DIFF_P_MAX */
};

/* Returns 0, -ENOMEM, -EINVAL: a group without a run, or too many. */
int ky_diff_make(struct ky_diff **out, const struct ky_diff_input *input);
void ky_diff_free(struct ky_diff *diff);

/* "slower", "faster", "no change", or "indicative". */
const char *ky_diff_verdict(const struct ky_diff *diff);
/* One object. names: of the places. */
void ky_diff_json(struct ky_buf *out, const struct ky_diff *diff, const char *const *names);

/* Runs by their begin: does neither group go before the other as a whole? begins_ns: 0: not known,
 * then they are not. */
bool ky_diff_is_interleaved(const uint64_t *begins_ns, const bool *is_b, uint32_t run_count);

#endif
