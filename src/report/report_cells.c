/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/report_cells.h>

#include <analyze/runtime_facts.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SITE_COLUMNS 60u

/* Tried one after the other; then the whole name. */
static const uint32_t name_columns[] = {60, 100, 200, UINT32_MAX};

static bool is_alike(const struct ky_report_view *view, uint32_t name, const char *text,
		     uint32_t other, uint32_t columns)
{
	char short_name[KY_SHORT_NAME_BYTES];

	return other != name && other != KY_NONE &&
	       strcmp(ky_short_name(short_name, ky_trace_name(view->trace, other), columns),
		      text) == 0;
}

static bool is_unique(const struct ky_report_view *view, uint32_t name, const char *text,
		      uint32_t columns)
{
	const struct ky_report *report = view->report;

	for (uint32_t i = 0; i < report->group_count; i++)
		if (is_alike(view, name, text, report->groups[i].name, columns))
			return false;
	for (uint32_t i = 0; i < report->blocking_group_count; i++)
		if (is_alike(view, name, text, report->blocking_groups[i].name, columns))
			return false;
	return true;
}

const char *ky_report_name(char *cell, const struct ky_report_view *view, uint32_t name)
{
	const char *text = ky_trace_name(view->trace, name);

	if (!*text)
		return "(unnamed)";
	for (size_t i = 0; i < sizeof(name_columns) / sizeof(name_columns[0]); i++) {
		ky_short_name(cell, text, name_columns[i]);
		if (is_unique(view, name, cell, name_columns[i]))
			break;
	}
	return cell;
}

void ky_report_name_cell(struct ky_table *table, const struct ky_report_view *view, uint32_t name)
{
	char cell[KY_REPORT_NAME_BYTES];

	ky_table_cell(table, ky_report_name(cell, view, name));
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

	if (view->is_wall) {
		ky_table_cell(table, ky_out_utc(seconds, ky_trace_unix_ns(view->trace, time_ns)));
		return;
	}
	(void)ky_out_seconds(seconds, time_ns >= start ? time_ns - start : start - time_ns);
	ky_table_format(table, "%s%.*s", time_ns >= start ? "+" : "-", (int)strlen(seconds) - 3,
			seconds);
}

uint64_t ky_report_permille(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((double)part * 1000.0 / (double)whole + 0.5) : 0;
}

void ky_report_permille_cell(struct ky_table *table, uint64_t permille)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, permille == UINT64_MAX ? "-" : ky_out_permille(cell, permille));
}

void ky_report_share_cell(struct ky_table *table, uint64_t part, uint64_t whole)
{
	ky_report_permille_cell(table, whole ? ky_report_permille(part, whole) : UINT64_MAX);
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

const char *ky_report_runtime(const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_trace_runtime *known;
	uint32_t runtime = trace->workers[worker].runtime;
	const char *name, *kind;

	if (runtime == KY_NONE || runtime >= trace->runtime_count)
		return "-";
	known = &trace->runtimes[runtime];
	name = ky_trace_name(trace, known->name);
	kind = ky_runtime_kind(known->flavor);
	return *name ? name : kind ? kind : "unnamed";
}

void ky_report_thread_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t tid)
{
	const char *name = ky_trace_name(trace, ky_trace_thread_name(trace, tid));

	if (!tid)
		ky_table_cell(table, "-");
	else if (*name)
		ky_table_format(table, "%u %s", tid, name);
	else
		ky_table_format(table, "%u", tid);
}

void ky_report_put_task(struct ky_buf *out, const struct ky_trace *trace, uint32_t task)
{
	char name[KY_SHORT_NAME_BYTES];

	if (task >= trace->task_count) {
		ky_out_text(out, "a task that is not known");
		return;
	}
	if (trace->tasks[task].flags & KY_TASK_ROOT)
		ky_out_format(out, "root %" PRIu64, trace->tasks[task].id & UINT32_MAX);
	else
		ky_out_format(out, "task %" PRIu64, trace->tasks[task].id);
	if (trace->tasks[task].name == KY_NONE)
		return;
	ky_out_format(out, " (%s)",
		      ky_short_name(name, ky_trace_name(trace, trace->tasks[task].name),
				    SITE_COLUMNS));
}
