/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/worst_list.h>

#include <inttypes.h>

#define BLOCKER_STEPS 4096u /* polls looked back over, for one wait */

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

/* Ten polls of one place are one finding: the worst stands for those of its name. Returns how many
 * of them are at least half as long. */
static uint32_t fold_polls(const struct ky_report *report, const struct ky_trace *trace,
			   uint32_t at, bool *is_reported)
{
	const struct ky_poll *worst = &report->worst_polls[at].poll;
	uint32_t i, count = 0;

	if (*poll_remark(worst))
		return 0;
	for (i = at + 1; i < report->worst_poll_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (*poll_remark(poll) ||
		    ky_report_poll_name(trace, poll) != ky_report_poll_name(trace, worst))
			continue;
		is_reported[i] = true;
		count += poll->duration_ns >= worst->duration_ns / 2;
	}
	return count;
}

void ky_worst_polls(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	char count[KY_OUT_CELL_BYTES];
	bool is_reported[KY_REPORT_WORST_MAX] = {false};
	struct ky_table table;
	uint32_t shown = 0, alike;

	if (!report->worst_poll_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Worst polls: a worker could do nothing else");
	ky_table_begin(&table, "rrlrrl", "Poll|Task|Name|Worker|At|");
	for (uint32_t i = 0; i < report->worst_poll_count && shown < view->worst_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (is_reported[i])
			continue;
		shown++;
		alike = fold_polls(report, view->trace, i, is_reported);
		ky_table_duration(&table, poll->duration_ns);
		ky_report_task_cell(&table, view->trace, poll->task);
		ky_report_name_cell(&table, view->trace, ky_report_poll_name(view->trace, poll));
		ky_report_worker_cell(&table, view->trace, poll->worker);
		ky_report_moment_cell(&table, view, poll->start_ns);
		if (alike)
			ky_table_format(&table, "and %s more of at least half that",
					ky_out_count(count, alike));
		else
			ky_table_cell(&table, poll_remark(poll));
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
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

/* The poll that kept the worker for most of the wait, if one did for half of it. */
static bool find_blocker(const struct ky_trace *trace, const struct ky_worst *worst,
			 struct ky_poll *out)
{
	uint64_t to_ns = worst->poll.start_ns, from_ns = to_ns - worst->poll.delay_ns;
	uint64_t most_ns = 0, row = worst->row;
	struct ky_poll poll;

	for (uint32_t steps = 0; row-- > 0 && steps < BLOCKER_STEPS; steps++) {
		uint64_t end_ns, start_ns;

		ky_trace_poll(trace, worst->poll.worker, row, &poll);
		end_ns = poll.start_ns + poll.duration_ns;
		start_ns = poll.start_ns > from_ns ? poll.start_ns : from_ns;
		if (end_ns <= from_ns)
			break;
		if (end_ns > to_ns)
			end_ns = to_ns;
		if (end_ns <= start_ns || end_ns - start_ns <= most_ns)
			continue;
		most_ns = end_ns - start_ns;
		*out = poll;
	}
	return most_ns && most_ns >= worst->poll.delay_ns / 2;
}

static void blocker_cell(struct ky_table *table, const struct ky_report_view *view,
			 const struct ky_worst *worst)
{
	char cell[KY_OUT_CELL_BYTES];
	struct ky_poll poll;

	if (!find_blocker(view->trace, worst, &poll) || poll.task >= view->trace->task_count)
		ky_table_cell(table, "-");
	else
		ky_table_format(table, "%s of task %" PRIu64,
				ky_out_duration(cell, poll.duration_ns),
				view->trace->tasks[poll.task].id);
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
	ky_table_begin(&table, "rrlrrrrl", "Wait|Task|Name|Worker|Polled at|Poll ahead|Waker|");
	for (uint32_t i = 0; i < report->worst_delay_count && shown < view->worst_count; i++) {
		const struct ky_worst *worst = &report->worst_delays[i];

		if (is_reported[i])
			continue;
		shown++;
		alike = fold_waits(report, i, is_reported);
		ky_table_duration(&table, worst->poll.delay_ns);
		ky_report_task_cell(&table, view->trace, worst->poll.task);
		ky_report_name_cell(&table, view->trace,
				    ky_report_poll_name(view->trace, &worst->poll));
		ky_report_worker_cell(&table, view->trace, worst->poll.worker);
		ky_report_moment_cell(&table, view, worst->poll.start_ns);
		blocker_cell(&table, view, worst);
		ky_report_task_cell(&table, view->trace, worst->waker);
		if (alike)
			ky_table_format(&table, "and %s more meanwhile",
					ky_out_count(count, alike));
		else
			ky_table_cell(&table, "");
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
}
