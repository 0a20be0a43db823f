/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/heap_text.h>

#include <base/out_text.h>
#include <report/profile_cells.h>
#include <stdio.h>
#include <string.h>

#define CELL_BYTES 256u
#define ROWS_MAX 15u

static const char *bytes_text(char *cell, double bytes)
{
	return ky_out_bytes(cell, ky_whole(bytes));
}

static void bytes_cell(struct ky_table *table, const struct ky_total *total)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, total->count ? bytes_text(cell, total->sum) : "-");
}

static void times_cell(struct ky_table *table, const struct ky_total *total)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, total->count ? ky_out_count(cell, ky_whole(total->sum)) : "-");
}

static const char *interval_text(char *text, const struct ky_total *total)
{
	char one[KY_OUT_CELL_BYTES], other[KY_OUT_CELL_BYTES];
	double low, high;

	ky_total_interval(total, &low, &high);
	(void)snprintf(text, CELL_BYTES, "%s..%s", bytes_text(one, low), bytes_text(other, high));
	return text;
}

/* "+49.2 MB +- 3.1 MB" */
static void growth_cell(struct ky_table *table, const struct ky_total *growth)
{
	char sum[KY_OUT_CELL_BYTES], margin[KY_OUT_CELL_BYTES];
	double bytes = growth->sum < 0.0 ? -growth->sum : growth->sum;
	const char *sign = growth->sum < 0.0 ? "-" : "+";

	if (!growth->count)
		ky_table_cell(table, "0");
	else if (growth->variance > 0.0)
		ky_table_format(table, "%s%s +- %s", sign, bytes_text(sum, bytes),
				bytes_text(margin, ky_total_margin(growth)));
	else
		ky_table_format(table, "%s%s", sign, bytes_text(sum, bytes));
}

static void print_text(struct ky_buf *out, const char *before, const char *text, const char *after)
{
	ky_out_text(out, before);
	ky_out_safe(out, text, strnlen(text, CELL_BYTES));
	ky_out_text(out, after);
}

/* Who is not among them, and what is missing. */
static void print_limits(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_stack_profile *profile)
{
	const char *source = ky_trace_metadata(trace, "alloc.source");
	const char *unseen = ky_trace_metadata(trace, "alloc.unseen");
	char lost[KY_OUT_CELL_BYTES];

	if (unseen)
		print_text(out, "  not seen: ", unseen, "\n");
	else if (source && strncmp(source, "refused", 7) == 0)
		print_text(out, "  ", source, "\n");
	if (profile->lost[KY_STACK_ALLOC])
		ky_out_format(
			out,
			"  %s samples of allocations and of their ends were lost: the figures "
			"may be off by more than they say\n",
			ky_out_count(lost, profile->lost[KY_STACK_ALLOC]));
}

static void print_rows(struct ky_buf *out, const struct ky_stack_profile *profile, bool is_coloured)
{
	struct ky_table table;
	char text[CELL_BYTES];

	ky_table_begin(&table, "rrrrrrll", "Live|95 %|Grew|Allocated|Times|n|Allocated by|");
	for (uint32_t i = 0; i < profile->heap_count && i < ROWS_MAX; i++) {
		const struct ky_stack_profile_heap *heap = &profile->heap[i];

		bytes_cell(&table, &heap->live_bytes);
		ky_table_cell(&table, heap->live_bytes.variance > 0.0 ?
					      interval_text(text, &heap->live_bytes) :
					      "");
		growth_cell(&table, &heap->growth);
		bytes_cell(&table, &heap->bytes);
		times_cell(&table, &heap->allocations);
		ky_table_count(&table, heap->count);
		ky_profile_where_cells(&table, profile, heap->stack);
	}
	ky_table_end(&table, out, 2, is_coloured);
	if (profile->heap_total > ROWS_MAX)
		ky_out_format(out, "  ... and %u more stacks; --json has %s\n",
			      profile->heap_total - ROWS_MAX,
			      profile->heap_total > KY_STACK_PROFILE_ROWS_MAX ? "200" : "all");
}

/* Live at the ends of ten equal parts of the trace. */
static void print_course(struct ky_buf *out, const struct ky_stack_profile *profile)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "  live over time, in tenths of the trace:");
	for (uint32_t i = 0; i <= KY_HEAP_PARTS; i++)
		ky_out_format(out, "%s %s", i ? "," : "",
			      bytes_text(cell, profile->heap_all.live_at[i]));
	ky_out_text(out, "\n");
}

void ky_heap_text(struct ky_buf *out, const struct ky_trace *trace,
		  const struct ky_stack_profile *profile, bool is_coloured)
{
	const struct ky_stack_profile_heap *all = &profile->heap_all;
	char live[KY_OUT_CELL_BYTES], bytes[KY_OUT_CELL_BYTES], interval[CELL_BYTES];
	char title[3 * CELL_BYTES];

	if (!profile->heap_total && !ky_trace_metadata(trace, "alloc.source") &&
	    !profile->lost[KY_STACK_ALLOC])
		return;
	if (!profile->heap_total)
		(void)snprintf(title, sizeof(title), "Memory: no allocation was sampled");
	else if (profile->is_heap_weighted)
		(void)snprintf(title, sizeof(title),
			       "Memory: %s live at the end (%s with 95 %%), %s allocated",
			       bytes_text(live, all->live_bytes.sum),
			       interval_text(interval, &all->live_bytes),
			       bytes_text(bytes, all->bytes.sum));
	else
		(void)snprintf(title, sizeof(title),
			       "Memory: of the sampled allocations alone; the trace does not say "
			       "what each stands for");
	ky_out_heading(out, is_coloured, title);
	print_limits(out, trace, profile);
	if (ky_stack_profile_is_withheld(profile, KY_STACK_ALLOC)) {
		ky_out_text(out, "  More were lost than kept: --json has what was kept.\n\n");
		return;
	}
	if (profile->heap_total) {
		print_rows(out, profile, is_coloured);
		print_course(out, profile);
	}
	ky_out_text(out, "\n");
}
