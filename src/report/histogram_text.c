/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/histogram_text.h>

#define BAR_COLUMNS 40u
#define DECADES 20u

/* Three bars a decade: 1, 2, 5. Enough to see two humps, few enough for one screen. */
static uint32_t step_of(uint64_t ns)
{
	uint64_t decade = 1;
	uint32_t step = 0;

	while (ns / 10 >= decade && step < 3 * (DECADES - 1)) {
		decade *= 10;
		step += 3;
	}
	return step + (ns >= 5 * decade ? 2 : ns >= 2 * decade ? 1 : 0);
}

static uint64_t step_ns(uint32_t step)
{
	static const uint64_t places[] = {1, 2, 5};
	uint64_t decade = 1;

	for (uint32_t i = 0; i < step / 3; i++)
		decade *= 10;
	return decade * places[step % 3];
}

static void print_bar(struct ky_buf *out, uint64_t count, uint64_t most)
{
	uint64_t columns = most ? (count * BAR_COLUMNS + most - 1) / most : 0;

	if (columns)
		ky_out_text(out, "  ");
	for (uint64_t i = 0; i < columns; i++)
		ky_out_text(out, "#");
}

void ky_histogram_text(const struct ky_report_view *view, const char *title,
		       const struct ky_histogram *histogram)
{
	char from[KY_OUT_CELL_BYTES], count[KY_OUT_CELL_BYTES], part[KY_OUT_CELL_BYTES];
	uint64_t steps[3 * DECADES] = {0};
	uint32_t first = UINT32_MAX, last = 0;
	uint64_t most = 0;

	if (!histogram->count)
		return;
	for (uint32_t i = 0; i < KY_HISTOGRAM_BUCKETS; i++) {
		uint64_t low, high;
		uint32_t step;

		if (!histogram->buckets[i])
			continue;
		ky_histogram_bounds(i, &low, &high);
		step = step_of(low ? low : 1);
		steps[step] += histogram->buckets[i];
		first = step < first ? step : first;
		last = step > last ? step : last;
		most = steps[step] > most ? steps[step] : most;
	}
	ky_out_heading(view->out, view->is_coloured, title);
	for (uint32_t i = first; i <= last && i < 3 * DECADES; i++) {
		ky_out_format(view->out, "  %8s  %12s  %7s", ky_out_duration(from, step_ns(i)),
			      ky_out_count(count, steps[i]),
			      ky_out_permille(part, steps[i] * 1000 / histogram->count));
		print_bar(view->out, steps[i], most);
		ky_out_text(view->out, "\n");
	}
	ky_out_text(view->out, "\n");
}
