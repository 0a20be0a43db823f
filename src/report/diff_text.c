/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/diff_text.h>

#include <analyze/log_exp.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <errno.h>
#include <read/sort.h>
#include <analyze/short_name.h>
#include <stdio.h>

#define NAME_COLUMNS 60u

/* "+5.1 %", of a logarithm. */
static const char *percent(char cell[KY_OUT_CELL_BYTES], double logarithm)
{
	(void)snprintf(cell, KY_OUT_CELL_BYTES, "%+.1f %%", 100 * (ky_exp(logarithm) - 1));
	return cell;
}

struct ranking {
	const struct ky_diff *diff;
};

/* The least p of a place; of equal ones the larger change comes first. */
static double rank(const struct ky_diff_place *place, double *change)
{
	double least = 2;

	*change = 0;
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
		const struct ky_diff_value *value = &place->values[k];
		double size = value->change < 0 ? -value->change : value->change;

		if (!value->is_compared)
			continue;
		if (value->p < least)
			least = value->p;
		if (size > *change)
			*change = size;
	}
	return least;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ranking *of = ctx;
	const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	double one_change, other_change;
	double one_p = rank(&of->diff->places[one], &one_change);
	double other_p = rank(&of->diff->places[other], &other_change);

	if (one_p < other_p || one_p > other_p)
		return one_p < other_p;
	if (one_change < other_change || one_change > other_change)
		return one_change > other_change;
	return one < other;
}

static void value_cells(struct ky_table *table, const struct ky_diff *diff,
			const struct ky_diff_value *value)
{
	char change[KY_OUT_CELL_BYTES], least[KY_OUT_CELL_BYTES];

	if (!value->is_compared) {
		ky_table_cell(table, "-");
		ky_table_cell(table, "-");
		return;
	}
	ky_table_format(table, "%s%s", value->p <= KY_DIFF_P_MAX ? "* " : "",
			percent(change, value->change));
	ky_table_cell(table, diff->deal_count ? percent(least, value->smallest) + 1 : "-");
}

static void put_places(struct ky_buf *out, const struct ky_diff *diff, const char *const *names,
		       uint64_t limit, bool is_coloured)
{
	const struct ranking ranking = {.diff = diff};
	uint32_t *order = ky_alloc((size_t)diff->place_count * sizeof(*order) + 1);
	char name[KY_SHORT_NAME_BYTES];
	struct ky_table table;
	uint64_t shown = 0;

	if (!order) {
		out->failed = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < diff->place_count; i++)
		order[i] = i;
	ky_sort(order, diff->place_count, sizeof(*order), is_before, &ranking);
	ky_table_begin(&table, "rrrrrrrl", "p50|seen from|p90|seen from|p99|seen from|Polls|Place");
	for (uint32_t i = 0; i < diff->place_count; i++) {
		const struct ky_diff_place *place = &diff->places[order[i]];

		if (!place->values[0].is_compared || (limit && shown == limit))
			continue;
		shown++;
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
			value_cells(&table, diff, &place->values[k]);
		ky_table_count(&table, place->a_polls + place->b_polls);
		ky_table_cell(&table, ky_short_name(name, names[order[i]], NAME_COLUMNS));
	}
	ky_table_end(&table, out, 0, is_coloured);
	if (shown < diff->compared_count)
		ky_out_format(out, "... and %u more places; --limit 0 shows all\n",
			      diff->compared_count - (uint32_t)shown);
	ky_free(order);
}

/* The smallest change of any place that would have been seen. */
static double smallest(const struct ky_diff *diff)
{
	double least = 0;

	for (uint32_t i = 0; i < diff->place_count; i++)
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
			const struct ky_diff_value *value = &diff->places[i].values[k];

			if (value->is_compared && value->smallest > 0 &&
			    (!(least > 0) || value->smallest < least))
				least = value->smallest;
		}
	return least;
}

static void put_change(struct ky_buf *out, const struct ky_diff *diff, const char *const *names,
		       bool is_slower)
{
	char cell[KY_OUT_CELL_BYTES], name[KY_SHORT_NAME_BYTES];

	for (uint32_t i = 0; i < diff->place_count; i++)
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
			const struct ky_diff_value *value = &diff->places[i].values[k];

			if (value->p > KY_DIFF_P_MAX || (value->change > 0) != is_slower)
				continue;
			ky_out_format(out, "  %s %s of ", percent(cell, value->change),
				      ky_run_quantile_keys[k]);
			(void)ky_short_name(name, names[i], NAME_COLUMNS);
			for (const char *at = name; *at; at++)
				ky_out_safe(out, at, 1);
			ky_out_format(out, " (p = %.4f)\n", value->p);
		}
}

static void put_verdict(struct ky_buf *out, const struct ky_diff *diff, const char *const *names,
			bool is_coloured)
{
	char least[KY_OUT_CELL_BYTES];

	if (!diff->is_conclusive) {
		ky_out_heading(out, is_coloured, "Indicative: no verdict");
		if (!diff->is_interleaved)
			ky_out_text(out,
				    "The runs of A and B were not interleaved, as far as their "
				    "begins are known; a machine that drifts has the same "
				    "effect.\n");
		if (diff->a_runs < KY_DIFF_RUNS_MIN || diff->b_runs < KY_DIFF_RUNS_MIN)
			ky_out_format(out,
				      "A verdict needs %u runs of each; record A and B in "
				      "turns.\n",
				      KY_DIFF_RUNS_MIN);
	} else if (diff->slower_count) {
		ky_out_heading(out, is_coloured, "Slower");
	} else if (diff->faster_count) {
		ky_out_heading(out, is_coloured, "Faster");
	} else {
		ky_out_heading(out, is_coloured, "No change was found");
	}
	if (diff->slower_count + diff->faster_count) {
		put_change(out, diff, names, true);
		put_change(out, diff, names, false);
	}
	if (diff->deal_count)
		ky_out_format(out,
			      "A change of less than %s would not have been seen in any "
			      "place; by place it stands beside it.\n",
			      percent(least, smallest(diff)) + 1);
}

void ky_diff_text(struct ky_buf *out, const struct ky_diff *diff, const char *const *names,
		  uint64_t limit, bool is_coloured)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%u runs of A and %u of B%s; %u places in all of them\n", diff->a_runs,
		      diff->b_runs, diff->is_interleaved ? ", interleaved" : "",
		      diff->compared_count);
	if (!diff->compared_count) {
		ky_out_format(out, "\nNothing to compare: no place has %u polls in every run.\n",
			      KY_RUN_POLLS_MIN);
		return;
	}
	ky_out_text(out, "All places together, B to A: ");
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
		ky_out_format(out, "%s%s %s", k ? ", " : "", ky_run_quantile_keys[k],
			      percent(cell, diff->common[k]));
	ky_out_text(out,
		    diff->compared_count < KY_DIFF_PLACES_MIN ?
			    ". Of so few places it cannot be taken off, so a slower machine "
			    "counts as a slower program.\n\n" :
			    "; not judged, as it may be the machine's speed. Below, each place "
			    "without it (* is significant).\n\n");
	put_places(out, diff, names, limit, is_coloured);
	ky_out_text(out, "\n");
	put_verdict(out, diff, names, is_coloured);
}
