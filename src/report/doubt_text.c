/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/doubt_text.h>

#include <report/loss_text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void withheld(const struct ky_report_view *view, uint64_t count, const char *text)
{
	char cell[KY_OUT_CELL_BYTES];

	if (count)
		ky_out_format(view->out, "  %s %s\n", ky_out_count(cell, count), text);
}

void ky_losses_text(const struct ky_report_view *view)
{
	const struct ky_trace *trace = view->trace;
	struct ky_table table;
	char cell[KY_OUT_CELL_BYTES];

	if (trace->left_out_count) {
		ky_out_heading(view->out, view->is_coloured,
			       "Left out: in the trace, and not in these tables");
		ky_left_out_text(view->out, trace, "  ");
		ky_out_text(view->out, "\n");
	}
	if (trace->lost_samples) {
		ky_out_heading(view->out, view->is_coloured, "Lost samples: no gap in the records");
		ky_out_text(view->out, "  ");
		ky_loss_samples_text(view->out, trace);
		ky_out_text(view->out, "\n\n");
	}
	if (trace->unsent_segments) {
		ky_out_heading(view->out, view->is_coloured,
			       "Lost segments: of this run, not of this trace");
		ky_out_text(view->out, "  ");
		ky_unsent_text(view->out, trace);
		ky_out_text(view->out, "\n\n");
	}
	if (!trace->loss_count)
		return;
	ky_out_heading(view->out, view->is_coloured,
		       "Lost records: nothing is concluded across these gaps");
	ky_table_begin(&table, "rrrrl", "Records|Thread|From|To|Cause");
	for (uint32_t i = 0; i < trace->loss_count && i < 10; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		ky_table_format(&table, "%s%s", loss->is_exact ? "" : "at least ",
				ky_out_count(cell, loss->record_count));
		if (loss->tid)
			ky_table_format(&table, "%u", loss->tid);
		else
			ky_table_cell(&table, "-");
		ky_report_moment_cell(&table, view, loss->from_ns);
		ky_report_moment_cell(&table, view, loss->to_ns);
		ky_table_cell(&table, ky_trace_name(trace, loss->cause));
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (trace->loss_count > 10)
		ky_out_format(view->out, "  ... and %u more gaps; %s records in all\n",
			      trace->loss_count - 10, ky_out_count(cell, trace->lost_records));
	ky_out_text(view->out, "\n");
}

/* "1 ms" of the highest threshold that was in force; 0: only throttles were. */
static uint64_t threshold_of(const struct ky_trace *trace, uint32_t kind)
{
	uint64_t threshold_ns = 0;

	for (uint32_t i = 0; i < trace->retention_count; i++)
		if (trace->retentions[i].kind == kind &&
		    trace->retentions[i].threshold_ns > threshold_ns)
			threshold_ns = trace->retentions[i].threshold_ns;
	return threshold_ns;
}

static void counted_only(const struct ky_report_view *view, uint64_t count, const char *what,
			 uint32_t kind)
{
	char number[KY_OUT_CELL_BYTES], length[KY_OUT_CELL_BYTES];
	uint64_t threshold_ns = threshold_of(view->trace, kind);

	if (!count)
		return;
	ky_out_format(view->out, "  %s %s are in histograms only", ky_out_count(number, count),
		      what);
	if (threshold_ns)
		ky_out_format(view->out, " (below %s, or throttled)",
			      ky_out_duration(length, threshold_ns));
	ky_out_text(view->out, "\n");
}

/* What the worst lists cannot show, because the recorder was set to write only what is long. */
void ky_counted_text(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	char cell[KY_OUT_CELL_BYTES];

	if (!view->trace->retention_count)
		return;
	ky_out_heading(view->out, view->is_coloured,
		       "Counted, not listed: the figures hold them, the lists of the worst do not");
	counted_only(view, report->polls_counted, "polls", KY_COUNTED_POLL);
	counted_only(view, report->delays_counted, "waits", KY_COUNTED_WAKE);
	counted_only(view, report->blocking_counted, "blocking runs", KY_COUNTED_BLOCKING);
	if (report->wakes_counted)
		ky_out_format(view->out, "  %s wakes are counted only\n",
			      ky_out_count(cell, report->wakes_counted));
	if (report->parks_counted)
		ky_out_format(view->out, "  %s parks are counted only\n",
			      ky_out_count(cell, report->parks_counted));
	ky_out_text(view->out, "\n");
}

void ky_unsure_text(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	const struct ky_trace *trace = view->trace;

	if (!report->polls_open && !report->polls_end_unproven && !report->polls_with_gap &&
	    !report->delays_no_wake && !report->delays_withheld && !report->workers_without_parks &&
	    !trace->notice_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Not concluded");
	withheld(view, report->polls_open,
		 "polls were still open at the end: listed, not in the figures");
	withheld(view, report->polls_end_unproven,
		 "polls have no recorded end: their length is unknown, not in the figures");
	withheld(view, report->polls_with_gap,
		 "polls have lost records inside: not in the figures");
	withheld(view, report->delays_no_wake,
		 "polls have no recorded wake: their wait is unknown");
	withheld(view, report->delays_withheld,
		 view->trace->has_processes ?
			 "waits span lost records, the end of a time in which wakes were held "
			 "back, or two processes: not in the figures" :
			 "waits span lost records, or the end of a time in which "
			 "wakes were held back: not in the figures");
	withheld(view, report->workers_without_parks,
		 "workers have no recorded park, though the kernel saw them blocked most of the "
		 "time: how active they were is not known");
	for (uint32_t i = 0; i < trace->notice_count && i < 10; i++) {
		ky_out_text(view->out, "  ");
		ky_out_safe(view->out, trace->notices[i].text, strlen(trace->notices[i].text));
		ky_out_text(view->out, "\n");
	}
	ky_out_text(view->out, "\n");
}
