/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/top_text.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <report/report_cells.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 200u
#define HEAD_ROWS 3u    /* the process, the finding, a blank line */
#define SECTION_ROWS 3u /* of a section without its rows */
#define KINDS_MIN 3u
#define NAME_COLUMNS_MIN 16u
#define NAME_COLUMNS_LEFT 62u /* what the other columns of a row take */

static const char *const sort_texts[KY_TOP_SORTS] = {
	[KY_TOP_BY_BUSY] = "time in polls",
	[KY_TOP_BY_POLLS] = "polls",
	[KY_TOP_BY_LONGEST] = "longest poll",
	[KY_TOP_BY_DELAY] = "longest delay",
};

const char *ky_top_sort_text(uint32_t sort)
{
	return sort_texts[sort % KY_TOP_SORTS];
}

/* ---- what is shown ---- */

struct top_kind {
	const struct ky_task_group *group;
	uint64_t key;
	uint32_t index;
};

static uint64_t key_of(const struct ky_task_group *group, uint32_t sort)
{
	switch (sort) {
	case KY_TOP_BY_POLLS:
		return group->poll_count;
	case KY_TOP_BY_LONGEST:
		return group->poll_max_ns;
	case KY_TOP_BY_DELAY:
		return group->delay_max_ns;
	default:
		return group->busy_ns;
	}
}

static int compare(const void *left, const void *right)
{
	const struct top_kind *a = left, *b = right;

	if (a->key != b->key)
		return a->key > b->key ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

/* Kinds of tasks that were polled, the first of them in front. */
static uint32_t sort_kinds(struct top_kind kinds[KINDS_MAX], const struct ky_top_view *view)
{
	const struct ky_report *report = view->report;
	uint32_t count = 0;

	for (uint32_t i = 0; i < report->group_count && count < KINDS_MAX; i++)
		if (report->groups[i].poll_count)
			kinds[count++] = (struct top_kind){
				&report->groups[i], key_of(&report->groups[i], view->sort), i};
	qsort(kinds, count, sizeof(*kinds), compare);
	return count;
}

static const char *name_of(const struct ky_top_view *view, uint32_t name)
{
	const char *text = name == KY_NONE ? "" : ky_trace_name(view->trace, name);

	return text[0] ? text : "-";
}

static uint32_t name_columns(const struct ky_top_view *view)
{
	if (!view->columns)
		return UINT32_MAX;
	return view->columns > NAME_COLUMNS_LEFT + NAME_COLUMNS_MIN ?
		       view->columns - NAME_COLUMNS_LEFT :
		       NAME_COLUMNS_MIN;
}

static void name_cell(struct ky_table *table, const struct ky_top_view *view, uint32_t name)
{
	char cell[KY_SHORT_NAME_BYTES];

	ky_table_cell(table, ky_short_name(cell, name_of(view, name), name_columns(view)));
}

/* Alarms come first; what only informs is none. */
static const struct ky_finding *first_finding(const struct ky_top_view *view)
{
	return view->findings->alarm_count ? &view->findings->list[0] : NULL;
}

/* ---- text ---- */

static void put_head(struct ky_buf *out, const struct ky_top_view *view)
{
	const struct ky_finding *finding;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES], c[KY_OUT_CELL_BYTES];

	ky_out_safe(out, view->service, strlen(view->service));
	ky_out_format(out, "%spid %u, last %s; recording since %s", view->service[0] ? ", " : "",
		      view->pid, ky_out_duration(a, view->window_ns),
		      ky_out_duration(b, view->age_ns));
	if (view->trace)
		ky_out_format(out, "; %s polls, longest delay %s",
			      ky_out_count(c, view->report->polls.count),
			      view->report->delays.count ?
				      ky_out_duration(a, view->report->delays.max) :
				      "-");
	if (view->lost_count)
		ky_out_format(out, "; %s lost", ky_out_count(c, view->lost_count));
	ky_out_text(out, "\n");
	if (!view->trace) {
		ky_out_text(out, "No event in this time.\n");
		return;
	}
	finding = first_finding(view);
	if (finding) {
		ky_out_format(out, "%s: ", ky_severity_name(finding->severity));
		ky_out_safe(out, (const char *)finding->statement.bytes, finding->statement.used);
		ky_out_text(out, "\n");
	} else if (!view->report->worst_poll_count) {
		ky_out_text(out, "No poll in this time.\n");
	} else {
		ky_out_text(out, "No finding: nothing in this time explains a delay.\n");
	}
}

static void put_workers(struct ky_buf *out, const struct ky_top_view *view, uint32_t rows)
{
	const struct ky_report *report = view->report;
	struct ky_table table;

	ky_out_text(out, "\n");
	ky_table_begin(&table, "rrrrrll", "Worker|Active|In polls|Polls|Longest|Runtime|Thread");
	for (uint32_t i = 0; i < report->worker_count && i < rows; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		ky_report_worker_cell(&table, view->trace, use->worker);
		ky_report_permille_cell(&table, use->active_permille);
		ky_report_permille_cell(&table, use->busy_permille);
		ky_table_count(&table, use->poll_count);
		ky_table_duration(&table, use->poll_max_ns);
		ky_table_cell(&table, ky_report_runtime(view->trace, use->worker));
		ky_report_thread_cell(&table, view->trace, view->trace->workers[use->worker].tid);
	}
	ky_table_end(&table, out, 0, view->is_coloured);
	if (report->worker_count > rows)
		ky_out_format(out, "... and %u more workers\n", report->worker_count - rows);
}

static void put_kinds(struct ky_buf *out, const struct ky_top_view *view, uint32_t rows,
		      const struct top_kind *kinds, uint32_t count)
{
	struct ky_table table;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "\n");
	ky_table_begin(&table, "rrrrrrl",
		       "In polls|Share|Polls|Longest|Longest delay|Tasks|Kind of task");
	for (uint32_t i = 0; i < count && i < rows; i++) {
		const struct ky_task_group *group = kinds[i].group;

		ky_table_duration(&table, group->busy_ns);
		ky_table_cell(&table, ky_out_permille(cell, group->share_ppm / 1000));
		ky_table_count(&table, group->poll_count);
		ky_table_duration(&table, group->poll_max_ns);
		if (group->delay_count)
			ky_table_duration(&table, group->delay_max_ns);
		else
			ky_table_cell(&table, "-");
		ky_table_count(&table, group->alive_count);
		name_cell(&table, view, group->name);
	}
	ky_table_end(&table, out, 0, view->is_coloured);
	if (count > rows)
		ky_out_format(out, "... and %u more kinds, by %s\n", count - rows,
			      ky_top_sort_text(view->sort));
}

static void put_polls(struct ky_buf *out, const struct ky_top_view *view)
{
	const struct ky_report *report = view->report;
	struct ky_table table;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "\n");
	ky_table_begin(&table, "rrlrrl", "Slowest poll|Ago||Worker|Task|Name");
	for (uint32_t i = 0; i < report->worst_poll_count && i < KY_TOP_POLLS; i++) {
		const struct ky_worst *worst = &report->worst_polls[i];
		uint64_t end_ns = worst->poll.start_ns + worst->poll.duration_ns;
		uint64_t ago_ns = view->trace->last_ns > end_ns ? view->trace->last_ns - end_ns : 0;

		ky_table_duration(&table, ky_worst_poll_ns(worst));
		ky_table_cell(&table, worst->poll.flags & KY_POLL_OPEN ?
					      "now" :
					      ky_out_duration(cell, ago_ns));
		ky_table_cell(&table, worst->poll.flags & KY_POLL_OPEN ? "open" : "");
		ky_report_worker_cell(&table, view->trace, worst->poll.worker);
		ky_report_task_cell(&table, view->trace, worst->poll.task);
		name_cell(&table, view, ky_report_poll_name(view->trace, &worst->poll));
	}
	ky_table_end(&table, out, 0, view->is_coloured);
}

void ky_top_text(struct ky_buf *out, const struct ky_top_view *view)
{
	struct top_kind *kinds;
	uint32_t count, workers, rows, fixed;

	put_head(out, view);
	if (!view->trace)
		return;
	kinds = ky_alloc(KINDS_MAX * sizeof(*kinds));
	if (!kinds) {
		out->failed = -ENOMEM;
		return;
	}
	count = sort_kinds(kinds, view);
	workers = view->report->worker_count;
	rows = count;
	if (view->rows) {
		/* The polls whole; a half of the rest to the workers at most. */
		fixed = HEAD_ROWS + 3 * SECTION_ROWS + KY_TOP_POLLS;
		rows = view->rows > fixed + 2 * KINDS_MIN ? view->rows - fixed : 2 * KINDS_MIN;
		workers = workers < rows / 2 ? workers : rows / 2;
		rows = rows - workers;
	}
	put_workers(out, view, workers);
	put_kinds(out, view, rows, kinds, count);
	put_polls(out, view);
	ky_free(kinds);
}

/* ---- JSON ---- */

static void json_workers(struct ky_buf *out, const struct ky_top_view *view)
{
	ky_json_open(out, "workers", "[");
	for (uint32_t i = 0; i < view->report->worker_count; i++) {
		const struct ky_worker_use *use = &view->report->workers[i];
		const struct ky_worker *worker = &view->trace->workers[use->worker];

		ky_json_open(out, NULL, "{");
		ky_json_number_or_null(out, "worker", !worker->is_thread_lane, worker->id);
		ky_json_number(out, "tid", worker->tid);
		ky_json_number_or_null(out, "active_permille", use->active_permille != UINT64_MAX,
				       use->active_permille);
		ky_json_number_or_null(out, "busy_permille", use->busy_permille != UINT64_MAX,
				       use->busy_permille);
		ky_json_number(out, "polls", use->poll_count);
		ky_json_number(out, "poll_max_ns", use->poll_max_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void json_kinds(struct ky_buf *out, const struct ky_top_view *view)
{
	struct top_kind *kinds = ky_alloc(KINDS_MAX * sizeof(*kinds));
	uint32_t count;

	if (!kinds) {
		out->failed = -ENOMEM;
		return;
	}
	count = sort_kinds(kinds, view);
	ky_json_open(out, "kinds", "[");
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_task_group *group = kinds[i].group;

		ky_json_open(out, NULL, "{");
		ky_json_text_or_null(
			out, "name",
			group->name == KY_NONE ? NULL : ky_trace_name(view->trace, group->name));
		ky_json_number(out, "tasks_alive", group->alive_count);
		ky_json_number(out, "polls", group->poll_count);
		ky_json_number(out, "busy_ns", group->busy_ns);
		ky_json_number(out, "poll_max_ns", group->poll_max_ns);
		ky_json_number_or_null(out, "delay_max_ns", group->delay_count != 0,
				       group->delay_max_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_free(kinds);
}

static void json_polls(struct ky_buf *out, const struct ky_top_view *view)
{
	ky_json_open(out, "worst_polls", "[");
	for (uint32_t i = 0; i < view->report->worst_poll_count && i < KY_TOP_POLLS; i++) {
		const struct ky_worst *worst = &view->report->worst_polls[i];
		const struct ky_task *task = &view->trace->tasks[worst->poll.task];
		uint32_t name = ky_report_poll_name(view->trace, &worst->poll);

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "start_ns", worst->poll.start_ns);
		ky_json_number(out, "duration_ns", ky_worst_poll_ns(worst));
		ky_json_flag(out, "is_open", (worst->poll.flags & KY_POLL_OPEN) != 0);
		ky_json_number(out, "task", task->id);
		ky_json_text_or_null(out, "name",
				     name == KY_NONE ? NULL : ky_trace_name(view->trace, name));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void json_finding(struct ky_buf *out, const struct ky_top_view *view)
{
	const struct ky_finding *finding = first_finding(view);

	if (!finding) {
		ky_json_null(out, "finding");
		return;
	}
	ky_json_open(out, "finding", "{");
	ky_json_text(out, "id", ky_finding_name(finding));
	ky_json_text(out, "severity", ky_severity_name(finding->severity));
	ky_json_key(out, "statement");
	ky_json_string(out, (const char *)finding->statement.bytes, finding->statement.used);
	ky_json_key(out, "action");
	ky_json_string(out, (const char *)finding->action.bytes, finding->action.used);
	ky_json_close(out, "}");
}

void ky_top_json(struct ky_buf *out, const struct ky_top_view *view)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "pid", view->pid);
	ky_json_text(out, "service", view->service);
	ky_json_number(out, "window_ns", view->window_ns);
	ky_json_number(out, "age_ns", view->age_ns);
	ky_json_number(out, "lost", view->lost_count);
	ky_json_number(out, "events", view->trace ? view->trace->event_count : 0);
	if (view->trace) {
		ky_json_number(out, "polls", view->report->polls.count);
		ky_json_number_or_null(out, "delay_max_ns", view->report->delays.count != 0,
				       view->report->delays.max);
		json_workers(out, view);
		json_kinds(out, view);
		json_polls(out, view);
		json_finding(out, view);
	}
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}
