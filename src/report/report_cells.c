/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/report_cells.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_COLUMNS 60u

const char *ky_report_name(char *cell, const struct ky_trace *trace, uint32_t name)
{
	const char *text = ky_trace_name(trace, name);
	size_t bytes = strlen(text);

	if (!*text)
		text = "(unnamed)";
	if (bytes <= NAME_COLUMNS)
		(void)snprintf(cell, KY_REPORT_NAME_BYTES, "%s", text);
	else
		(void)snprintf(cell, KY_REPORT_NAME_BYTES, "%.*s...%s", (int)(NAME_COLUMNS / 2 - 2),
			       text, text + bytes - (NAME_COLUMNS / 2 - 1));
	return cell;
}

void ky_report_name_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t name)
{
	char cell[KY_REPORT_NAME_BYTES];

	ky_table_cell(table, ky_report_name(cell, trace, name));
}

uint32_t ky_report_poll_name(const struct ky_trace *trace, const struct ky_poll *poll)
{
	if (poll->name != KY_NONE)
		return poll->name;
	return poll->task < trace->task_count ? trace->tasks[poll->task].name : KY_NONE;
}

void ky_report_moment_cell(struct ky_table *table, const struct ky_report_view *view,
			   uint64_t time_ns)
{
	uint64_t start = view->trace->run_first_ns;
	char seconds[KY_OUT_CELL_BYTES];

	(void)ky_out_seconds(seconds, time_ns >= start ? time_ns - start : start - time_ns);
	ky_table_format(table, "%s%.*s", time_ns >= start ? "+" : "-", (int)strlen(seconds) - 3,
			seconds);
}

void ky_report_permille_cell(struct ky_table *table, uint64_t permille)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, permille == UINT64_MAX ? "-" : ky_out_permille(cell, permille));
}

void ky_report_worker_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *known = &trace->workers[worker];

	if (worker >= trace->worker_count)
		ky_table_cell(table, "-");
	else if (known->is_thread_lane)
		ky_table_format(table, "thread %u", known->tid);
	else
		ky_table_format(table, "%" PRIu64, known->id);
}

void ky_report_task_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t task)
{
	if (task < trace->task_count)
		ky_table_format(table, "%" PRIu64, trace->tasks[task].id);
	else
		ky_table_cell(table, "-");
}
