/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/what_if_text.h>

#include <stdio.h>
#include <string.h>

static void put_name(const struct ky_report_view *view, uint32_t name)
{
	char cell[KY_REPORT_NAME_BYTES];
	const char *text = ky_report_name(cell, view, name);

	ky_out_safe(view->out, text, strlen(text));
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* "if no poll of A took more than 1 ms, and none of B more than 2 ms". */
static void put_question(const struct ky_report_view *view, const struct ky_what_if *what_if)
{
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < what_if->place_count; i++) {
		const struct ky_what_if_cap *cap = &what_if->places[i].cap;

		ky_out_text(view->out, i ? ", and none of " : "if no poll of ");
		put_name(view, cap->name);
		ky_out_format(view->out, "%s more than %s", i ? "" : " took",
			      ky_out_duration(cell, cap->cap_ns));
	}
}

static void put_place(const struct ky_report_view *view, const struct ky_what_if_place *place)
{
	struct ky_buf *out = view->out;
	char count[KY_OUT_CELL_BYTES], all[KY_OUT_CELL_BYTES], sum[KY_OUT_CELL_BYTES];

	if (!place->shortened_count) {
		ky_out_text(out, "No poll of ");
		put_name(view, place->cap.name);
		ky_out_format(out, " that could be shortened is longer than %s",
			      ky_out_duration(sum, place->cap.cap_ns));
		ky_out_format(out, " (the longest took %s): this changes nothing.\n",
			      ky_out_duration(sum, place->longest_ns));
	} else {
		ky_out_format(out, "%s of %s poll%s of ",
			      ky_out_count(count, place->shortened_count),
			      ky_out_count(all, place->poll_count), plural(place->poll_count));
		put_name(view, place->cap.name);
		ky_out_format(out, " %s longer (up to %s): %s less in all.\n",
			      place->shortened_count == 1 ? "is" : "are",
			      ky_out_duration(count, place->longest_ns),
			      ky_out_duration(sum, place->shortened_ns));
	}
	if (place->kept_count)
		ky_out_format(out,
			      "%s longer poll%s of it stay%s: inside another poll, on a thread "
			      "that is no worker, or of unknown length.\n",
			      ky_out_count(count, place->kept_count), plural(place->kept_count),
			      place->kept_count == 1 ? "s" : "");
}

static void put_delays(struct ky_table *table, const struct ky_what_if_delays *delays)
{
	ky_table_count(table, delays->ns.count);
	ky_table_duration(table, delays->ns.p50);
	ky_table_duration(table, delays->ns.p90);
	ky_table_duration(table, delays->ns.p99);
	ky_table_duration(table, delays->ns.max);
	ky_table_count(table, delays->over_count);
}

static void put_change(struct ky_table *table, const char *name,
		       const struct ky_what_if_change *change)
{
	ky_table_cell(table, name);
	ky_table_cell(table, "before");
	put_delays(table, &change->before);
	ky_table_cell(table, "");
	ky_table_cell(table, "after");
	put_delays(table, &change->after);
}

static void put_table(const struct ky_report_view *view, const struct ky_what_if *what_if)
{
	char heads[128], over[KY_OUT_CELL_BYTES], name[KY_REPORT_NAME_BYTES];
	struct ky_table table;

	(void)snprintf(heads, sizeof(heads), "From wake to poll||delays|p50|p90|p99|max|over %s",
		       ky_out_duration(over, what_if->over_ns));
	ky_table_begin(&table, "llrrrrrr", heads);
	put_change(&table, "all of them", &what_if->all);
	for (uint32_t i = 0; i < what_if->place_count; i++)
		put_change(&table, ky_report_name(name, view, what_if->places[i].cap.name),
			   &what_if->places[i].change);
	ky_table_end(&table, view->out, 2, view->is_coloured);
}

static void put_assumptions(const struct ky_report_view *view, const struct ky_what_if *what_if)
{
	const struct ky_queue_replay *replay = &what_if->replay;
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(
		out,
		"Assumed:\n"
		"  What is cut from these polls is gone, not done elsewhere, and the others take "
		"as long as they took.\n"
		"  A shortened poll wakes the same tasks, each at the same share of its length.\n"
		"  Wakes by I/O, timers and other threads come when they came: who waits for an "
		"answer asks no sooner.\n"
		"  Each task is polled by the worker that polled it, or by the one from which that "
		"one stole it, where this is\n"
		"  free first; no worker steals more than it did, so a real run may be better.\n");
	if (replay->reaction_ns)
		ky_out_format(out,
			      "  A worker that is idle where it was busy begins %s after the wake: "
			      "the median after parks here.\n",
			      ky_out_duration(cell, replay->reaction_ns));
	if (replay->unplaced_count)
		ky_out_format(out,
			      "  %s poll%s without a known wake begin%s when %s did, at the "
			      "earliest.\n",
			      ky_out_count(cell, replay->unplaced_count),
			      plural(replay->unplaced_count),
			      replay->unplaced_count == 1 ? "s" : "",
			      replay->unplaced_count == 1 ? "it" : "they");
	if (replay->kept_home_count)
		ky_out_format(out, "  %s poll%s that %s stolen %s not, then.\n",
			      ky_out_count(cell, replay->kept_home_count),
			      plural(replay->kept_home_count),
			      replay->kept_home_count == 1 ? "was" : "were",
			      replay->kept_home_count == 1 ? "is" : "are");
}

void ky_what_if_text(const struct ky_report_view *view, const struct ky_what_if *what_if)
{
	const struct ky_what_if_change *all = &what_if->all;
	struct ky_buf *out = view->out;
	char before[KY_OUT_CELL_BYTES], after[KY_OUT_CELL_BYTES];
	uint64_t shortened = 0;

	for (uint32_t i = 0; i < what_if->place_count; i++)
		shortened += what_if->places[i].shortened_count;
	ky_out_heading(out, view->is_coloured, "What if");
	if (shortened) {
		ky_out_format(out, "The p99 from wake to poll would be %s instead of %s, ",
			      ky_out_duration(after, all->after.ns.p99),
			      ky_out_duration(before, all->before.ns.p99));
		put_question(view, what_if);
		ky_out_text(out, ".\n");
	}
	for (uint32_t i = 0; i < what_if->place_count; i++)
		put_place(view, &what_if->places[i]);
	if (shortened) {
		ky_out_text(out, "\n");
		put_table(view, what_if);
		ky_out_text(out, "\n");
		put_assumptions(view, what_if);
	}
	ky_out_text(out, "\n");
}
