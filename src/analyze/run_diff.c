/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/run_diff.h>

#include <analyze/log_exp.h>
#include <base/alloc.h>
#include <base/random.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define SEED UINT64_C(0x6b796d6f64696666)
#define POWER_90 1.2816 /* of the normal distribution */

/* One tested place and quantile: y of each run, centred. */
struct tested {
	uint32_t place, quantile;
	double *y;
	double square_sum;
	double floor;         /* variance of the difference, by the polls of the runs */
	double t2;            /* T squared, as the runs are grouped */
	uint64_t above_count; /* deals with a largest T as large */
};

struct comparing {
	const struct ky_diff_input *input;
	struct ky_diff *diff;
	struct tested *tested;
	uint32_t tested_count;
	double *y;       /* of all */
	double *largest; /* T squared, by deal */
};

static const struct ky_run_place *cell(const struct ky_diff_input *input, uint32_t run,
				       uint32_t place)
{
	return &input->cells[(size_t)run * input->place_count + place];
}

static bool is_smaller(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const double *)a < *(const double *)b;
}

/* ---- y: what a run has more than the mean, less what all other places have ---- */

static bool is_compared(const struct ky_diff_input *input, uint32_t place, uint32_t quantile)
{
	for (uint32_t run = 0; run < input->run_count; run++)
		if (cell(input, run, place)->poll_count < ky_run_polls_min[quantile])
			return false;
	return true;
}

/* Of sorted values the median without the one at `left_out`. */
static double median_without(const double *sorted, uint32_t count, uint32_t left_out)
{
	const uint32_t rest = count - 1, low = (rest - 1) / 2, high = rest / 2;
	const double one = sorted[low < left_out ? low : low + 1];
	const double other = sorted[high < left_out ? high : high + 1];

	return (one + other) / 2;
}

/* Takes off what the other places have, in one run. values: of `count` places, changed; scratch:
 * of count. */
static void take_off(double *values, double *scratch, uint32_t count)
{
	if (count < KY_DIFF_PLACES_MIN)
		return;
	memcpy(scratch, values, count * sizeof(*scratch));
	ky_sort(scratch, count, sizeof(*scratch), is_smaller, NULL);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = 0;

		while (at + 1 < count && scratch[at] < values[i])
			at++;
		values[i] -= median_without(scratch, count, at);
	}
}

/* The tested values of one quantile: tested[first .. first + count). */
static void fill_quantile(struct comparing *of, uint32_t first, uint32_t count, double *scratch)
{
	const struct ky_diff_input *input = of->input;
	double *values = scratch, *sorted = scratch + input->place_count;

	for (uint32_t i = 0; i < count; i++) {
		struct tested *one = &of->tested[first + i];
		double mean = 0;

		for (uint32_t run = 0; run < input->run_count; run++)
			mean += cell(input, run, one->place)->logs[one->quantile];
		mean /= input->run_count;
		for (uint32_t run = 0; run < input->run_count; run++)
			one->y[run] = cell(input, run, one->place)->logs[one->quantile] - mean;
	}
	for (uint32_t run = 0; run < input->run_count; run++) {
		for (uint32_t i = 0; i < count; i++)
			values[i] = of->tested[first + i].y[run];
		take_off(values, sorted, count);
		for (uint32_t i = 0; i < count; i++)
			of->tested[first + i].y[run] = values[i];
	}
}

static void centre(struct comparing *of, struct tested *one)
{
	const struct ky_diff_input *input = of->input;
	const struct ky_diff *diff = of->diff;
	double mean = 0, inside = 0;

	for (uint32_t run = 0; run < input->run_count; run++) {
		mean += one->y[run];
		inside += cell(input, run, one->place)->variances[one->quantile];
	}
	mean /= input->run_count;
	for (uint32_t run = 0; run < input->run_count; run++) {
		one->y[run] -= mean;
		one->square_sum += one->y[run] * one->y[run];
	}
	one->floor = inside / input->run_count * (1.0 / diff->a_runs + 1.0 / diff->b_runs);
}

static int fill(struct comparing *of)
{
	const struct ky_diff_input *input = of->input;
	const size_t all = (size_t)input->place_count * KY_RUN_QUANTILES;
	double *scratch = ky_alloc(2 * (size_t)input->place_count * sizeof(*scratch) + 1);

	of->tested = ky_alloc(all * sizeof(*of->tested) + 1);
	of->y = ky_alloc(all * input->run_count * sizeof(*of->y) + 1);
	if (!scratch || !of->tested || !of->y) {
		ky_free(scratch);
		return -ENOMEM;
	}
	for (uint32_t quantile = 0; quantile < KY_RUN_QUANTILES; quantile++) {
		const uint32_t first = of->tested_count;

		for (uint32_t place = 0; place < input->place_count; place++) {
			struct tested *one = &of->tested[of->tested_count];

			if (!is_compared(input, place, quantile))
				continue;
			one->place = place;
			one->quantile = quantile;
			one->y = of->y + (size_t)of->tested_count * input->run_count;
			of->tested_count++;
		}
		fill_quantile(of, first, of->tested_count - first, scratch);
	}
	for (uint32_t i = 0; i < of->tested_count; i++)
		centre(of, &of->tested[i]);
	ky_free(scratch);
	return 0;
}

/* ---- T ---- */

/* Difference B - A of the means, and its variance. b: runs of B. */
static double difference(const struct comparing *of, const struct tested *one, const uint32_t *b,
			 double *variance)
{
	const double a_runs = of->diff->a_runs, b_runs = of->diff->b_runs;
	double b_sum = 0, within;

	for (uint32_t i = 0; i < of->diff->b_runs; i++)
		b_sum += one->y[b[i]];
	within = one->square_sum - b_sum * b_sum * (1 / a_runs + 1 / b_runs);
	*variance = within / (a_runs + b_runs - 2) * (1 / a_runs + 1 / b_runs);
	if (*variance < one->floor)
		*variance = one->floor;
	return b_sum * (1 / a_runs + 1 / b_runs);
}

static double t_squared(const struct comparing *of, const struct tested *one, const uint32_t *b)
{
	double variance, change = difference(of, one, b, &variance);

	return variance > 0 ? change * change / variance : 0;
}

static void take_deal(struct comparing *of, const uint32_t *b)
{
	double largest = 0;

	for (uint32_t i = 0; i < of->tested_count; i++) {
		double t2 = t_squared(of, &of->tested[i], b);

		largest = t2 > largest ? t2 : largest;
	}
	/* A hair of rounding must not make the deal that was played differ from itself. */
	for (uint32_t i = 0; i < of->tested_count; i++)
		of->tested[i].above_count += largest >= of->tested[i].t2 * (1 - 1e-9);
	of->largest[of->diff->deal_count++] = largest;
}

/* ---- deals ---- */

/* Ways to choose b of n, up to one more than KY_DIFF_DEALS_ALL. */
static uint64_t ways(uint32_t n, uint32_t b)
{
	uint64_t count = 1;

	for (uint32_t i = 1; i <= b; i++) {
		count = count * (n - b + i) / i;
		if (count > KY_DIFF_DEALS_ALL)
			return KY_DIFF_DEALS_ALL + 1;
	}
	return count;
}

static void deal_all(struct comparing *of)
{
	const uint32_t n = of->input->run_count, b = of->diff->b_runs;
	uint32_t chosen[KY_DIFF_RUNS_MAX] = {0};
	uint32_t at;

	for (uint32_t i = 0; i < b; i++)
		chosen[i] = i;
	for (;;) {
		take_deal(of, chosen);
		for (at = b; at > 0 && chosen[at - 1] == n - b + at - 1; at--)
			;
		if (at == 0)
			return;
		chosen[at - 1]++;
		for (; at < b; at++)
			chosen[at] = chosen[at - 1] + 1;
	}
}

static void deal_some(struct comparing *of, const uint32_t *played)
{
	uint32_t runs[KY_DIFF_RUNS_MAX] = {0};
	uint64_t state = SEED;

	take_deal(of, played);
	for (uint32_t i = 0; i < of->input->run_count; i++)
		runs[i] = i;
	while (of->diff->deal_count < KY_DIFF_DEALS) {
		for (uint32_t i = 0; i < of->diff->b_runs; i++) {
			uint32_t rest = of->input->run_count - i;
			uint32_t other = i + (uint32_t)(ky_random_share(&state) * rest);
			uint32_t swap = runs[i];

			runs[i] = runs[other];
			runs[other] = swap;
		}
		take_deal(of, runs);
	}
}

/* ---- results ---- */

static void set_value(struct comparing *of, const struct tested *one, const uint32_t *b,
		      double largest)
{
	struct ky_diff_value *value = &of->diff->places[one->place].values[one->quantile];
	double variance;

	value->change = difference(of, one, b, &variance);
	if (!of->diff->deal_count)
		return;
	value->error = ky_root(variance);
	value->p = (double)one->above_count / (double)of->diff->deal_count;
	value->smallest = (ky_root(largest) + POWER_90) * value->error;
	if (value->p <= KY_DIFF_P_MAX) {
		of->diff->slower_count += value->change > 0;
		of->diff->faster_count += value->change < 0;
	}
}

static int test(struct comparing *of, const uint32_t *b)
{
	struct ky_diff *diff = of->diff;
	const uint64_t count = ways(of->input->run_count, diff->b_runs);
	double largest = 0;

	if (of->input->run_count >= 4 && diff->a_runs >= 2 && diff->b_runs >= 2 &&
	    of->tested_count) {
		of->largest = ky_alloc((KY_DIFF_DEALS_ALL + 1) * sizeof(*of->largest));
		if (!of->largest)
			return -ENOMEM;
		for (uint32_t i = 0; i < of->tested_count; i++)
			of->tested[i].t2 = t_squared(of, &of->tested[i], b);
		if (count <= KY_DIFF_DEALS_ALL)
			deal_all(of);
		else
			deal_some(of, b);
		ky_sort(of->largest, diff->deal_count, sizeof(*of->largest), is_smaller, NULL);
		largest = of->largest[(uint64_t)((double)diff->deal_count * (1 - KY_DIFF_P_MAX))];
	}
	for (uint32_t i = 0; i < of->tested_count; i++)
		set_value(of, &of->tested[i], b, largest);
	return 0;
}

static void describe_place(const struct comparing *of, uint32_t place)
{
	const struct ky_diff_input *input = of->input;
	struct ky_diff_place *out = &of->diff->places[place];
	bool is_any = false;

	for (uint32_t run = 0; run < input->run_count; run++)
		*(input->is_b[run] ? &out->b_polls :
				     &out->a_polls) += cell(input, run, place)->poll_count;
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
		struct ky_diff_value *value = &out->values[k];
		double sums[2] = {0};

		value->p = 1;
		value->is_compared = is_compared(input, place, k);
		if (!value->is_compared)
			continue;
		is_any = true;
		for (uint32_t run = 0; run < input->run_count; run++)
			sums[input->is_b[run]] += cell(input, run, place)->logs[k];
		value->a_ns = (uint64_t)(ky_exp(sums[0] / of->diff->a_runs) + 0.5);
		value->b_ns = (uint64_t)(ky_exp(sums[1] / of->diff->b_runs) + 0.5);
	}
	of->diff->compared_count += is_any;
}

static int find_common(const struct comparing *of)
{
	struct ky_diff *diff = of->diff;
	double *ratios = ky_alloc((size_t)diff->place_count * sizeof(*ratios) + 1);

	if (!ratios)
		return -ENOMEM;
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
		uint32_t count = 0;

		for (uint32_t place = 0; place < diff->place_count; place++) {
			const struct ky_diff_value *value = &diff->places[place].values[k];

			if (value->is_compared && value->a_ns && value->b_ns)
				ratios[count++] = ky_log((double)value->b_ns) -
						  ky_log((double)value->a_ns);
		}
		ky_sort(ratios, count, sizeof(*ratios), is_smaller, NULL);
		if (count)
			diff->common[k] = (ratios[(count - 1) / 2] + ratios[count / 2]) / 2;
	}
	ky_free(ratios);
	return 0;
}

static int compare(struct comparing *of)
{
	uint32_t b[KY_DIFF_RUNS_MAX] = {0};
	uint32_t count = 0;
	int result;

	for (uint32_t run = 0; run < of->input->run_count; run++)
		if (of->input->is_b[run])
			b[count++] = run;
	for (uint32_t place = 0; place < of->diff->place_count; place++)
		describe_place(of, place);
	result = find_common(of);
	if (!result)
		result = fill(of);
	if (!result)
		result = test(of, b);
	return result;
}

int ky_diff_make(struct ky_diff **out, const struct ky_diff_input *input)
{
	struct comparing of = {.input = input};
	struct ky_diff *diff;
	int result;

	*out = NULL;
	diff = of.diff = ky_alloc(sizeof(*diff));
	if (!diff)
		return -ENOMEM;
	for (uint32_t run = 0; run < input->run_count; run++)
		diff->b_runs += input->is_b[run];
	diff->a_runs = input->run_count - diff->b_runs;
	diff->is_interleaved = input->is_interleaved;
	diff->place_count = input->place_count;
	diff->places = ky_alloc((size_t)input->place_count * sizeof(*diff->places) + 1);
	result = !diff->places ? -ENOMEM :
		 !diff->a_runs || !diff->b_runs || input->run_count > KY_DIFF_RUNS_MAX ?
				 -EINVAL :
				 compare(&of);
	ky_free(of.tested);
	ky_free(of.y);
	ky_free(of.largest);
	if (result) {
		ky_diff_free(diff);
		return result;
	}
	diff->is_conclusive = diff->is_interleaved && diff->a_runs >= KY_DIFF_RUNS_MIN &&
			      diff->b_runs >= KY_DIFF_RUNS_MIN;
	*out = diff;
	return 0;
}

void ky_diff_free(struct ky_diff *diff)
{
	if (!diff)
		return;
	ky_free(diff->places);
	ky_free(diff);
}

bool ky_diff_is_interleaved(const uint64_t *begins_ns, const bool *is_b, uint32_t run_count)
{
	uint32_t order[KY_DIFF_RUNS_MAX], switches = 0, b_runs = 0, least;

	if (run_count > KY_DIFF_RUNS_MAX)
		return false;
	for (uint32_t i = 0; i < run_count; i++) {
		uint32_t at = i;

		if (!begins_ns[i])
			return false;
		for (; at > 0 && begins_ns[order[at - 1]] > begins_ns[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
		b_runs += is_b[i];
	}
	for (uint32_t i = 1; i < run_count; i++)
		switches += is_b[order[i]] != is_b[order[i - 1]];
	least = b_runs < run_count - b_runs ? b_runs : run_count - b_runs;
	/* Dealt by chance, or one by one, they change often; one group and then the other does so
	 * once, and a machine that drifts seems a difference. */
	return switches >= least / 2 + 1;
}
