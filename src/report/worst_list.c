/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/worst_list.h>

#include <analyze/poll_parts.h>
#include <analyze/wait_ahead.h>
#include <inttypes.h>
#include <read/handovers.h>
#include <report/wake_text.h>
#include <stdio.h>

static const char *poll_remark(const struct ky_poll *poll)
{
	if (poll->flags & KY_POLL_AT_EXIT)
		return "still open when the process ended";
	if (poll->flags & KY_POLL_OPEN)
		return "still open at the end of the trace";
	if (poll->flags & KY_POLL_GAP)
		return "records were lost inside";
	if (poll->flags & KY_POLL_END_UNPROVEN)
		return "end not recorded";
	return poll->flags & KY_POLL_NESTED ? "nested" : "";
}

/* Nothing stands behind it that other polls have, too. */
static bool is_plain(const struct ky_trace *trace, const struct ky_worst *worst)
{
	return !*poll_remark(&worst->poll) && !worst->stopped_ns &&
	       !ky_trace_handover(trace, &worst->poll);
}

/* A list that is full may have left some out, unless it ends below what is asked for. */
static const char *at_least(uint32_t listed, uint64_t least_ns, uint64_t asked_ns)
{
	return listed >= KY_REPORT_WORST_MAX && least_ns >= asked_ns ? "at least " : "";
}

/* Ten polls of one place are one finding: the worst stands for those of its name. Returns how many
 * of them are at least half as long. */
static uint32_t fold_polls(const struct ky_report *report, const struct ky_trace *trace,
			   uint32_t at, bool *is_reported)
{
	const struct ky_poll *worst = &report->worst_polls[at].poll;
	uint32_t i, count = 0;

	if (!is_plain(trace, &report->worst_polls[at]))
		return 0;
	for (i = at + 1; i < report->worst_poll_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (!is_plain(trace, &report->worst_polls[i]) ||
		    ky_report_poll_name(trace, poll) != ky_report_poll_name(trace, worst))
			continue;
		is_reported[i] = true;
		count += poll->duration_ns >= worst->duration_ns / 2;
	}
	return count;
}

static uint64_t worst_polls_least(const struct ky_report *report)
{
	return ky_worst_poll_ns(&report->worst_polls[report->worst_poll_count - 1]);
}

/* Of the worst polls at least one has its parts. */
static bool has_parts(const struct ky_report_view *view)
{
	struct ky_poll_parts parts;

	for (uint32_t i = 0; i < view->report->worst_poll_count; i++)
		if (ky_poll_parts(view->trace, &view->report->worst_polls[i].poll, &parts))
			return true;
	return false;
}

static void part_cell(struct ky_table *table, uint64_t ns)
{
	if (ns == UINT64_MAX)
		ky_table_cell(table, "-");
	else
		ky_table_duration(table, ns);
}

/* On CPU, waiting for one, blocked. */
static void part_cells(struct ky_table *table, const struct ky_trace *trace,
		       const struct ky_poll *poll)
{
	struct ky_poll_parts parts = {
		.cpu_ns = UINT64_MAX, .delay_ns = UINT64_MAX, .blocked_ns = UINT64_MAX};

	(void)ky_poll_parts(trace, poll, &parts);
	part_cell(table, parts.cpu_ns);
	part_cell(table, parts.delay_ns);
	part_cell(table, parts.blocked_ns);
}

/* "702 ms more stopped" */
static void stopped_cell(struct ky_table *table, uint64_t stopped_ns, const char *more)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_format(table, "the process was stopped %s more%s%s",
			ky_out_duration(cell, stopped_ns), *more ? "; " : "", more);
}

/* "its times to 1.2 ms; and 3 more of at least half that" */
static void remark_cell(struct ky_table *table, const struct ky_report_view *view,
			const struct ky_worst *worst, uint32_t alike)
{
	const struct ky_report *report = view->report;
	const struct ky_poll *poll = &worst->poll;
	const char *more = at_least(report->worst_poll_count, worst_polls_least(report),
				    ky_worst_poll_ns(worst) / 2);
	char count[KY_OUT_CELL_BYTES], unsure[KY_OUT_CELL_BYTES];
	const struct ky_trace_handover *handover = ky_trace_handover(view->trace, poll);
	const char *remark = poll_remark(poll);
	char moved[128], after[KY_OUT_CELL_BYTES];
	struct ky_poll_parts parts;
	bool is_unsure = ky_poll_parts(view->trace, poll, &parts) && parts.unsure_ns;

	if (is_unsure)
		(void)ky_out_duration(unsure, parts.unsure_ns);
	if (handover) {
		(void)snprintf(moved, sizeof(moved), "its worker went to tid %u at +%s",
			       handover->to_tid, ky_out_duration(after, poll->duration_ns));
		remark = moved;
	}
	if (worst->stopped_ns)
		stopped_cell(table, worst->stopped_ns, remark);
	else if (is_unsure && alike)
		ky_table_format(table, "parts +-%s; and %s%s more of at least half that", unsure,
				more, ky_out_count(count, alike));
	else if (alike)
		ky_table_format(table, "and %s%s more of at least half that", more,
				ky_out_count(count, alike));
	else if (is_unsure)
		ky_table_format(table, "parts +-%s%s%s", unsure, *remark ? "; " : "", remark);
	else
		ky_table_cell(table, remark);
}

void ky_worst_polls(const struct ky_report_view *view)
{
	bool with_parts = has_parts(view);
	const struct ky_report *report = view->report;
	bool is_reported[KY_REPORT_WORST_MAX] = {false};
	struct ky_table table;
	char length[KY_OUT_CELL_BYTES], count[KY_OUT_CELL_BYTES];
	uint32_t shown = 0, alike;

	if (!report->worst_poll_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Worst polls: a worker could do nothing else");
	if (with_parts)
		ky_table_begin(&table, "rrrrrlrrl",
			       "Poll|On CPU|Waited for CPU|Blocked|Task|Name|Worker|At|");
	else
		ky_table_begin(&table, "rrlrrl", "Poll|Task|Name|Worker|At|");
	for (uint32_t i = 0; i < report->worst_poll_count && shown < view->worst_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (is_reported[i])
			continue;
		shown++;
		alike = fold_polls(report, view->trace, i, is_reported);
		if (poll->flags & KY_POLL_OPEN && !poll->duration_ns)
			ky_table_cell(&table, "-"); /* nothing was recorded after its begin */
		else
			ky_table_duration(&table, ky_worst_poll_ns(&report->worst_polls[i]));
		if (with_parts)
			part_cells(&table, view->trace, poll);
		ky_report_task_cell(&table, view->trace, poll->task);
		ky_report_name_cell(&table, view, ky_report_poll_name(view->trace, poll));
		ky_report_worker_cell(&table, view->trace, poll->worker);
		ky_report_moment_cell(&table, view, poll->start_ns);
		remark_cell(&table, view, &report->worst_polls[i], alike);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (report->handed_over.count)
		ky_out_format(view->out,
			      "  not among them: %s in %s polls after another thread took the "
			      "worker (block_in_place)\n",
			      ky_out_duration(length, report->handed_over.total_ns),
			      ky_out_count(count, report->handed_over.count));
	ky_out_text(view->out, "\n");
}

/* Waits that overlap have one cause: the longest stands for them. Returns how many there are. */
static uint32_t fold_waits(const struct ky_report *report, uint32_t at, bool *is_reported)
{
	const struct ky_poll *worst = &report->worst_delays[at].poll;
	uint32_t i, count = 0;

	for (i = at + 1; i < report->worst_delay_count; i++) {
		const struct ky_poll *poll = &report->worst_delays[i].poll;

		if (is_reported[i] || poll->start_ns - poll->delay_ns >= worst->start_ns ||
		    worst->start_ns - worst->delay_ns >= poll->start_ns)
			continue;
		is_reported[i] = true;
		count++;
	}
	return count;
}

/* "4.20 ms of task 12"; "31 polls, the longest 4.20 ms of task 12, on worker 1". */
static void ahead_cell(struct ky_table *table, const struct ky_report_view *view,
		       const struct ky_worst *worst)
{
	char length[KY_OUT_CELL_BYTES], count[KY_OUT_CELL_BYTES], polls[64] = "", other[40] = "";
	const struct ky_trace *trace = view->trace;
	struct ky_wait_ahead ahead;

	if (!ky_wait_ahead(&ahead, trace, worst)) {
		ky_table_cell(table, "-");
		return;
	}
	if (ahead.count > 1)
		(void)snprintf(polls, sizeof(polls), "%s polls, the longest ",
			       ky_out_count(count, ahead.count));
	if (ahead.worker != worst->poll.worker)
		(void)snprintf(other, sizeof(other), ", on worker %" PRIu64,
			       trace->workers[ahead.worker].id);
	ky_table_format(table, "%s%s of task %" PRIu64 "%s", polls,
			ky_out_duration(length, ahead.longest.duration_ns),
			trace->tasks[ahead.longest.task].id, other);
}

/* A task and the line of it, or what else woke. */
static void waker_cell(struct ky_table *table, const struct ky_report_view *view,
		       const struct ky_worst *worst)
{
	char cell[KY_WAKE_TEXT_BYTES];

	(void)ky_wake_text(cell, view, &worst->wake);
	if (worst->waker < view->trace->task_count)
		ky_table_format(table, "task %" PRIu64 "%s%s", view->trace->tasks[worst->waker].id,
				*cell ? ", " : "", cell);
	else
		ky_table_cell(table, *cell ? cell : "-");
}

void ky_worst_delays(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	char count[KY_OUT_CELL_BYTES];
	bool is_reported[KY_REPORT_WORST_MAX] = {false};
	struct ky_table table;
	uint32_t shown = 0, alike;

	if (!report->worst_delay_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Worst waits: ready, but not polled");
	ky_table_begin(&table, "rrlrrlrl", "Wait|Task|Name|Worker|Polled at|Polls ahead|Waker|");
	for (uint32_t i = 0; i < report->worst_delay_count && shown < view->worst_count; i++) {
		const struct ky_worst *worst = &report->worst_delays[i];

		if (is_reported[i])
			continue;
		shown++;
		alike = fold_waits(report, i, is_reported);
		ky_table_duration(&table, ky_worst_delay_ns(worst));
		ky_report_task_cell(&table, view->trace, worst->poll.task);
		ky_report_name_cell(&table, view, ky_report_poll_name(view->trace, &worst->poll));
		ky_report_worker_cell(&table, view->trace, worst->poll.worker);
		ky_report_moment_cell(&table, view, worst->poll.start_ns);
		ahead_cell(&table, view, worst);
		waker_cell(&table, view, worst);
		if (worst->delay_stopped_ns)
			stopped_cell(&table, worst->delay_stopped_ns, "");
		else if (alike)
			ky_table_format(&table, "and %s%s more meanwhile",
					at_least(report->worst_delay_count, 0, 0),
					ky_out_count(count, alike));
		else
			ky_table_cell(&table, "");
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
}
