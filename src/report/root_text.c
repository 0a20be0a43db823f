/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/root_text.h>

#include <analyze/report.h>
#include <analyze/root_uses.h>
#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define SHOWN_MAX 20u

static void bounds_cell(struct ky_table *table, const struct ky_root_bounds *bounds,
			bool is_bounded)
{
	char least[KY_OUT_CELL_BYTES], most[KY_OUT_CELL_BYTES];

	if (!is_bounded && !bounds->least)
		ky_table_cell(table, "-");
	else if (!is_bounded)
		ky_table_format(table, ">= %s", ky_out_duration(least, bounds->least));
	else if (bounds->least == bounds->most)
		ky_table_duration(table, bounds->most);
	else
		ky_table_format(table, "%s to %s", ky_out_duration(least, bounds->least),
				ky_out_duration(most, bounds->most));
}

/* Without a name nothing shows which tables are of their wakers. */
static void unseen(const struct ky_report_view *view)
{
	const char *said = ky_trace_metadata(view->trace, "tokio.roots");

	if (said && strcmp(said, "none") == 0)
		ky_out_text(view->out, "Roots: futures of block_on are not seen here: their wakers "
				       "have no names (stripped)\n\n");
}

void ky_root_text(const struct ky_report_view *view)
{
	struct ky_root_use *uses;
	struct ky_table table;
	uint32_t count;

	if (ky_root_uses(view->trace, view->report->from_ns, view->report->to_ns, &uses, &count)) {
		view->out->failed = -ENOMEM;
		return;
	}
	if (!count)
		unseen(view);
	if (count) {
		ky_out_heading(view->out, view->is_coloured,
			       "Roots: futures of block_on; their polls lie between bounds");
		ky_table_begin(&table, "rrrrrrll",
			       "Polls|Longest poll|Wake to poll|Waits|Waited|Longest wait|Thread|"
			       "Name");
	}
	for (uint32_t i = 0; i < count && i < SHOWN_MAX; i++) {
		const struct ky_root_use *use = &uses[i];

		ky_table_count(&table, use->poll_count);
		bounds_cell(&table, &use->poll_max_ns, use->unbounded_count < use->poll_count);
		bounds_cell(&table, &use->delay_max_ns, use->delay_count > 0);
		ky_table_count(&table, use->wait_count);
		ky_table_duration(&table, use->wait_ns);
		ky_table_duration(&table, use->wait_max_ns);
		ky_report_thread_cell(&table, view->trace, use->tid);
		ky_report_name_cell(&table, view, view->trace->tasks[use->task].name);
	}
	if (count) {
		ky_table_end(&table, view->out, 2, view->is_coloured);
		if (count > SHOWN_MAX)
			ky_out_format(view->out, "  ... and %u more; --json has all\n",
				      count - SHOWN_MAX);
		ky_out_text(view->out, "\n");
	}
	ky_free(uses);
}
