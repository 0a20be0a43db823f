/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/report_text.h>

#include <analyze/span_groups.h>
#include <analyze/thread_counts.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <report/resource_text.h>
#include <report/watched_text.h>
#include <report/worst_text.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_COLUMNS 60u
#define BAR_COLUMNS 40u
#define GROUPS_MAX 20u
#define WORKERS_MAX 256u
#define SPANS_MAX 20u
#define DECADES 20u
#define BLOCKER_STEPS 4096u /* polls looked back over, for one wait */

struct view {
	struct ky_buf *out;
	const struct ky_trace *trace;
	const struct ky_report *report;
	const struct ky_stack_profile *profile;
	bool is_coloured;
	uint32_t worst_count;
	const struct ky_code_names *names;
};

/* Names of futures are long; what tells them apart stands at both ends. */
static const char *short_name(char *cell, size_t cell_bytes, const struct ky_trace *trace,
			      uint32_t name)
{
	const char *text = ky_trace_name(trace, name);
	size_t bytes = strlen(text);

	if (!*text)
		text = "(unnamed)";
	if (bytes <= NAME_COLUMNS)
		(void)snprintf(cell, cell_bytes, "%s", text);
	else
		(void)snprintf(cell, cell_bytes, "%.*s...%s", (int)(NAME_COLUMNS / 2 - 2), text,
			       text + bytes - (NAME_COLUMNS / 2 - 1));
	return cell;
}

static void moment_cell(struct ky_table *table, const struct view *view, uint64_t time_ns)
{
	char seconds[KY_OUT_CELL_BYTES], cell[KY_OUT_CELL_BYTES + 2];
	uint64_t start = view->trace->run_first_ns;

	(void)ky_out_seconds(seconds, time_ns >= start ? time_ns - start : start - time_ns);
	(void)snprintf(cell, sizeof(cell), "%s%.*s", time_ns >= start ? "+" : "-",
		       (int)strlen(seconds) - 3, seconds);
	ky_table_cell(table, cell);
}

static void duration_cell(struct ky_table *table, uint64_t ns)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, ky_out_duration(cell, ns));
}

static void count_cell(struct ky_table *table, uint64_t count)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, ky_out_count(cell, count));
}

static void permille_cell(struct ky_table *table, uint64_t permille)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, permille == UINT64_MAX ? "-" : ky_out_permille(cell, permille));
}

static void id_cell(struct ky_table *table, uint64_t id, bool is_known)
{
	char cell[KY_OUT_CELL_BYTES];

	(void)snprintf(cell, sizeof(cell), "%" PRIu64, id);
	ky_table_cell(table, is_known ? cell : "-");
}

static void heads(struct ky_table *table, const char *const *texts)
{
	for (uint32_t i = 0; i < table->column_count; i++)
		ky_table_cell(table, texts[i]);
}

static void worker_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t worker)
{
	char cell[KY_OUT_CELL_BYTES];
	const struct ky_worker *known;

	if (worker >= trace->worker_count) {
		ky_table_cell(table, "-");
		return;
	}
	known = &trace->workers[worker];
	if (known->is_thread_lane)
		(void)snprintf(cell, sizeof(cell), "thread %u", known->tid);
	else
		(void)snprintf(cell, sizeof(cell), "%" PRIu64, known->id);
	ky_table_cell(table, cell);
}

static void task_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t task)
{
	id_cell(table, task < trace->task_count ? trace->tasks[task].id : 0,
		task < trace->task_count);
}

static uint32_t poll_name(const struct ky_trace *trace, const struct ky_poll *poll)
{
	if (poll->name != KY_NONE)
		return poll->name;
	return poll->task < trace->task_count ? trace->tasks[poll->task].name : KY_NONE;
}

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
			   uint32_t at, bool *is_told)
{
	const struct ky_poll *worst = &report->worst_polls[at].poll;
	uint32_t i, count = 0;

	if (*poll_remark(worst))
		return 0;
	for (i = at + 1; i < report->worst_poll_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (*poll_remark(poll) || poll_name(trace, poll) != poll_name(trace, worst))
			continue;
		is_told[i] = true;
		count += poll->duration_ns >= worst->duration_ns / 2;
	}
	return count;
}

static void print_worst_polls(const struct view *view)
{
	static const char *const titles[] = {"Poll", "Task", "Name", "Worker", "At", ""};
	const struct ky_report *report = view->report;
	char name[2 * NAME_COLUMNS], more[64], count[KY_OUT_CELL_BYTES];
	bool is_told[KY_REPORT_WORST_MAX] = {false};
	struct ky_table table;
	uint32_t shown = 0, alike;

	if (!report->worst_poll_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Worst polls: a worker could do nothing else");
	ky_table_init(&table, "rrlrrl");
	heads(&table, titles);
	for (uint32_t i = 0; i < report->worst_poll_count && shown < view->worst_count; i++) {
		const struct ky_poll *poll = &report->worst_polls[i].poll;

		if (is_told[i])
			continue;
		shown++;
		alike = fold_polls(report, view->trace, i, is_told);
		(void)snprintf(more, sizeof(more), "and %s more of at least half that",
			       ky_out_count(count, alike));
		duration_cell(&table, poll->duration_ns);
		task_cell(&table, view->trace, poll->task);
		ky_table_cell(&table, short_name(name, sizeof(name), view->trace,
						 poll_name(view->trace, poll)));
		worker_cell(&table, view->trace, poll->worker);
		moment_cell(&table, view, poll->start_ns);
		ky_table_cell(&table, alike ? more : poll_remark(poll));
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	ky_out_text(view->out, "\n");
}

/* Waits that overlap have one cause: the longest stands for them. Returns how many there are. */
static uint32_t fold_waits(const struct ky_report *report, uint32_t at, bool *is_told)
{
	const struct ky_poll *worst = &report->worst_delays[at].poll;
	uint32_t i, count = 0;

	for (i = at + 1; i < report->worst_delay_count; i++) {
		const struct ky_poll *poll = &report->worst_delays[i].poll;

		if (is_told[i] || poll->start_ns - poll->delay_ns >= worst->start_ns ||
		    worst->start_ns - worst->delay_ns >= poll->start_ns)
			continue;
		is_told[i] = true;
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

static void blocker_cell(struct ky_table *table, const struct view *view,
			 const struct ky_worst *worst)
{
	char cell[KY_OUT_CELL_BYTES], text[KY_OUT_CELL_BYTES + 64];
	struct ky_poll poll;

	if (!find_blocker(view->trace, worst, &poll) || poll.task >= view->trace->task_count) {
		ky_table_cell(table, "-");
		return;
	}
	(void)snprintf(text, sizeof(text), "%s of task %" PRIu64,
		       ky_out_duration(cell, poll.duration_ns), view->trace->tasks[poll.task].id);
	ky_table_cell(table, text);
}

static void print_worst_delays(const struct view *view)
{
	static const char *const titles[] = {"Wait",      "Task",       "Name",  "Worker",
					     "Polled at", "Poll ahead", "Waker", ""};
	const struct ky_report *report = view->report;
	char name[2 * NAME_COLUMNS], more[64], count[KY_OUT_CELL_BYTES];
	bool is_told[KY_REPORT_WORST_MAX] = {false};
	struct ky_table table;
	uint32_t shown = 0, alike;

	if (!report->worst_delay_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Worst waits: ready, but not polled");
	ky_table_init(&table, "rrlrrrrl");
	heads(&table, titles);
	for (uint32_t i = 0; i < report->worst_delay_count && shown < view->worst_count; i++) {
		const struct ky_worst *worst = &report->worst_delays[i];

		if (is_told[i])
			continue;
		shown++;
		alike = fold_waits(report, i, is_told);
		(void)snprintf(more, sizeof(more), "and %s more meanwhile",
			       ky_out_count(count, alike));
		duration_cell(&table, worst->poll.delay_ns);
		task_cell(&table, view->trace, worst->poll.task);
		ky_table_cell(&table, short_name(name, sizeof(name), view->trace,
						 poll_name(view->trace, &worst->poll)));
		worker_cell(&table, view->trace, worst->poll.worker);
		moment_cell(&table, view, worst->poll.start_ns);
		blocker_cell(&table, view, worst);
		task_cell(&table, view->trace, worst->waker);
		ky_table_cell(&table, alike ? more : "");
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	ky_out_text(view->out, "\n");
}

static void unknown_cell(struct ky_table *table, const struct ky_worker_use *use)
{
	char cell[KY_OUT_CELL_BYTES], text[KY_OUT_CELL_BYTES + 2];
	uint64_t part_ns = use->unknown_ns, whole_ns = use->span_ns;

	if (part_ns == 0) {
		ky_table_cell(table, "");
		return;
	}
	while (part_ns > UINT64_MAX / 1000) {
		part_ns >>= 1;
		whole_ns >>= 1;
	}
	(void)snprintf(text, sizeof(text), "? %s",
		       ky_out_permille(cell, part_ns * 1000 / whole_ns));
	ky_table_cell(table, text);
}

static void print_workers(const struct view *view)
{
	static const char *const titles[] = {"Worker",  "Active", "In polls", "CPU",    "Polls",
					     "Longest", "Parks",  "Wakes",    "Unknown"};
	const struct ky_report *report = view->report;
	bool is_any_unknown = false;
	struct ky_table table;

	if (!report->worker_count)
		return;
	for (uint32_t i = 0; i < report->worker_count; i++)
		is_any_unknown |= report->workers[i].unknown_ns > 0;
	ky_out_heading(view->out, view->is_coloured,
		       is_any_unknown ? "Workers: active is not parked, in polls is running tasks; "
					"shares are of the time that is known" :
					"Workers: active is not parked, in polls is running tasks");
	ky_table_init(&table, is_any_unknown ? "rrrrrrrrr" : "rrrrrrrr");
	heads(&table, titles);
	for (uint32_t i = 0; i < report->worker_count && i < WORKERS_MAX; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		worker_cell(&table, view->trace, use->worker);
		permille_cell(&table, use->active_permille);
		permille_cell(&table, use->busy_permille);
		permille_cell(&table, use->cpu_permille);
		count_cell(&table, use->poll_count);
		duration_cell(&table, use->poll_max_ns);
		count_cell(&table, use->park_count);
		count_cell(&table, use->wake_count);
		if (is_any_unknown)
			unknown_cell(&table, use);
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	if (report->worker_count > WORKERS_MAX)
		ky_out_format(view->out, "  ... and %u more workers; --json has all\n",
			      report->worker_count - WORKERS_MAX);
	ky_out_text(view->out, "\n");
}

static void print_spans(const struct view *view)
{
	static const char *const titles[] = {"Span", "Count", "p50", "p99", "Max", "Open"};
	char cell[NAME_COLUMNS * 4];
	struct ky_span_group *groups;
	struct ky_table table;
	uint32_t count;

	if (ky_span_groups(view->trace, view->report->spans_from_ns, view->report->spans_to_ns,
			   &groups, &count)) {
		view->out->failed = -ENOMEM;
		return;
	}
	if (count)
		ky_out_heading(view->out, view->is_coloured,
			       "Spans by name, most time first; open ones have no end here");
	ky_table_init(&table, "lrrrrr");
	if (count)
		heads(&table, titles);
	for (uint32_t i = 0; i < count && i < SPANS_MAX; i++) {
		const struct ky_quantiles *lengths = &groups[i].lengths;

		ky_table_cell(&table, short_name(cell, sizeof(cell), view->trace, groups[i].name));
		count_cell(&table, lengths->count);
		duration_cell(&table, lengths->p50);
		duration_cell(&table, lengths->p99);
		duration_cell(&table, lengths->max);
		count_cell(&table, groups[i].open_count);
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	if (count > SPANS_MAX)
		ky_out_format(view->out, "  ... and %u more names\n", count - SPANS_MAX);
	if (count)
		ky_out_text(view->out, "\n");
	ky_free(groups);
}

/* What the kernel has counted, exactly, between looks at its counters. */
static void print_thread_counts(const struct view *view)
{
	static const char *const titles[] = {"Worker",  "Time",     "CPU",       "Runnable",
					     "Blocked", "Switches", "Preempted", "Interval"};
	struct ky_thread_count *counts;
	struct ky_table table;
	uint32_t count;

	/* Without memory there is no table, as where nobody looked. */
	if (ky_thread_counts(view->trace, view->report->from_ns, view->report->to_ns + 1, &counts,
			     &count) ||
	    !count) {
		return;
	}
	ky_out_heading(view->out, view->is_coloured,
		       "On CPU, as the kernel counted; blocked is parked and waiting");
	ky_table_init(&table, "rrrrrrrr");
	heads(&table, titles);
	for (uint32_t i = 0; i < count && i < WORKERS_MAX; i++) {
		const struct ky_thread_count *one = &counts[i];

		count_cell(&table, one->worker_id);
		duration_cell(&table, one->span_ns);
		duration_cell(&table, one->cpu_ns);
		duration_cell(&table, one->run_delay_ns);
		duration_cell(&table, one->blocked_ns);
		if (one->has_switches) {
			count_cell(&table, one->voluntary);
			count_cell(&table, one->involuntary);
		} else {
			ky_table_cell(&table, "-");
			ky_table_cell(&table, "-");
		}
		duration_cell(&table, one->apart_max_ns);
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	ky_out_text(view->out, "\n");
	ky_free(counts);
}

static void quantile_row(struct ky_table *table, const char *what,
			 const struct ky_quantiles *values)
{
	if (!values->count)
		return;
	ky_table_cell(table, what);
	count_cell(table, values->count);
	duration_cell(table, values->p50);
	duration_cell(table, values->p90);
	duration_cell(table, values->p99);
	duration_cell(table, values->p999);
	duration_cell(table, values->max);
	duration_cell(table, values->total);
}

static void print_quantiles(const struct view *view)
{
	static const char *const titles[] = {"",    "Count", "p50", "p90",
					     "p99", "p99.9", "Max", "Total"};
	const struct ky_report *report = view->report;
	struct ky_table table;

	ky_table_init(&table, "lrrrrrrr");
	heads(&table, titles);
	quantile_row(&table, "poll", &report->polls);
	quantile_row(&table, "wake to poll", &report->delays);
	quantile_row(&table, "blocking run", &report->blocking);
	if (table.cell_count > table.column_count)
		ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	ky_out_text(view->out, "\n");
}

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

static void print_histogram(const struct view *view, const char *title,
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

static void print_groups(const struct view *view)
{
	static const char *const titles[] = {"Tasks", "Alive",        "Polls",        "Poll time",
					     "Share", "Longest poll", "Longest wait", "Name"};
	const struct ky_report *report = view->report;
	char name[2 * NAME_COLUMNS];
	struct ky_table table;

	if (!report->group_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Tasks by name, most poll time first");
	ky_table_init(&table, "rrrrrrrl");
	heads(&table, titles);
	for (uint32_t i = 0; i < report->group_count && i < GROUPS_MAX; i++) {
		const struct ky_task_group *group = &report->groups[i];

		count_cell(&table, group->task_count);
		count_cell(&table, group->alive_count);
		count_cell(&table, group->poll_count);
		duration_cell(&table, group->busy_ns);
		permille_cell(&table, group->share_ppm / 1000);
		duration_cell(&table, group->poll_max_ns);
		if (group->delay_count)
			duration_cell(&table, group->delay_max_ns);
		else
			ky_table_cell(&table, "-");
		ky_table_cell(&table, short_name(name, sizeof(name), view->trace, group->name));
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	if (report->group_count > GROUPS_MAX)
		ky_out_format(view->out, "  ... and %u more names; --json has all\n",
			      report->group_count - GROUPS_MAX);
	ky_out_text(view->out, "\n");
}

static void print_blocking(const struct view *view)
{
	static const char *const titles[] = {"Runs", "Time", "Longest", "Name"};
	const struct ky_report *report = view->report;
	char name[2 * NAME_COLUMNS];
	struct ky_table table;

	if (!report->blocking_group_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Blocking pool");
	ky_table_init(&table, "rrrl");
	heads(&table, titles);
	for (uint32_t i = 0; i < report->blocking_group_count && i < GROUPS_MAX; i++) {
		const struct ky_blocking_group *group = &report->blocking_groups[i];

		count_cell(&table, group->run_count);
		duration_cell(&table, group->busy_ns);
		duration_cell(&table, group->run_max_ns);
		ky_table_cell(&table, short_name(name, sizeof(name), view->trace, group->name));
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
	ky_out_text(view->out, "\n");
}

static void withheld(const struct view *view, uint64_t count, const char *text)
{
	char cell[KY_OUT_CELL_BYTES];

	if (count)
		ky_out_format(view->out, "  %s %s\n", ky_out_count(cell, count), text);
}

static void print_losses(const struct view *view)
{
	static const char *const titles[] = {"Records", "Thread", "From", "To", "Cause"};
	const struct ky_trace *trace = view->trace;
	struct ky_table table;
	char cell[KY_OUT_CELL_BYTES], text[KY_OUT_CELL_BYTES + 16];

	if (!trace->loss_count)
		return;
	ky_out_heading(view->out, view->is_coloured,
		       "Lost records: nothing is concluded across these gaps");
	ky_table_init(&table, "rrrrl");
	heads(&table, titles);
	for (uint32_t i = 0; i < trace->loss_count && i < 10; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		(void)snprintf(text, sizeof(text), "%s%s", loss->is_exact ? "" : "at least ",
			       ky_out_count(cell, loss->record_count));
		ky_table_cell(&table, text);
		id_cell(&table, loss->tid, loss->tid != 0);
		moment_cell(&table, view, loss->from_ns);
		moment_cell(&table, view, loss->to_ns);
		ky_table_cell(&table, ky_trace_name(trace, loss->cause));
	}
	ky_table_print(&table, view->out, 2, view->is_coloured);
	ky_table_release(&table);
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

static void counted_only(const struct view *view, uint64_t count, const char *what, uint32_t kind)
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

/* What the worst lists cannot show, because the recorder was told to write only what is long. */
static void print_counted(const struct view *view)
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

static void print_unsure(const struct view *view)
{
	const struct ky_report *report = view->report;
	const struct ky_trace *trace = view->trace;

	if (!report->polls_open && !report->polls_end_unproven && !report->polls_with_gap &&
	    !report->delays_no_wake && !report->delays_withheld && !trace->notice_count)
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
	for (uint32_t i = 0; i < trace->notice_count && i < 10; i++) {
		ky_out_text(view->out, "  ");
		ky_out_safe(view->out, trace->notices[i].text, strlen(trace->notices[i].text));
		ky_out_text(view->out, "\n");
	}
	ky_out_text(view->out, "\n");
}

/* The first lines: what somebody woken at night needs. */
static void print_answer(const struct view *view)
{
	const struct ky_report *report = view->report;
	const struct ky_trace *trace = view->trace;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES], name[2 * NAME_COLUMNS];
	const char *service = ky_trace_metadata(trace, "service");
	uint64_t unix_ns = ky_trace_unix_ns(trace, report->from_ns);

	ky_out_safe(view->out, service ? service : "trace", strlen(service ? service : "trace"));
	ky_out_format(view->out, ": %s",
		      ky_out_duration(a, report->to_ns > report->from_ns ?
						 report->to_ns - report->from_ns :
						 0));
	if (unix_ns)
		ky_out_format(view->out, " from %s UTC", ky_out_utc(a, unix_ns));
	ky_out_format(view->out, ", %s polls", ky_out_count(a, report->polls.count));
	if (trace->lost_records)
		ky_out_format(view->out, ", %s RECORDS LOST", ky_out_count(b, trace->lost_records));
	ky_out_text(view->out, "\n");
	if (report->polls_counted && report->polls.max > 0 &&
	    (!report->worst_poll_count ||
	     report->worst_polls[0].poll.duration_ns < report->polls.max)) {
		ky_out_format(view->out, "Longest poll %s, in a histogram only\n",
			      ky_out_duration(a, report->polls.max));
	} else if (report->worst_poll_count) {
		const struct ky_poll *poll = &report->worst_polls[0].poll;

		ky_out_format(view->out,
			      "Longest poll %s: ", ky_out_duration(a, poll->duration_ns));
		(void)short_name(name, sizeof(name), trace, poll_name(trace, poll));
		ky_out_safe(view->out, name, strlen(name));
		ky_out_text(view->out, "\n");
		ky_worst_answer(view->out, trace, view->profile);
	}
	if (report->worst_delay_count) {
		const struct ky_poll *poll = &report->worst_delays[0].poll;

		ky_out_format(view->out, "Longest wait %s: ", ky_out_duration(a, poll->delay_ns));
		(void)short_name(name, sizeof(name), trace, poll_name(trace, poll));
		ky_out_safe(view->out, name, strlen(name));
		ky_out_text(view->out, "\n");
	}
	ky_out_text(view->out, "\n");
}

static void print_watched(const struct view *view)
{
	size_t before = view->out->used;

	ky_watched_text(view->out, view->trace, view->names);
	if (view->out->used > before)
		ky_out_text(view->out, "\n");
}

void ky_report_text(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile,
		    uint32_t worst_count, bool is_coloured, const struct ky_code_names *names)
{
	struct view view = {out, trace, report, profile, is_coloured, worst_count, names};

	print_answer(&view);
	print_watched(&view);
	print_quantiles(&view);
	print_worst_polls(&view);
	ky_worst_text(out, trace, profile, is_coloured);
	print_worst_delays(&view);
	print_workers(&view);
	print_thread_counts(&view);
	ky_resource_text(out, trace, report, is_coloured);
	print_groups(&view);
	print_blocking(&view);
	print_spans(&view);
	print_histogram(&view, "Polls by duration (at least, count, share)",
			&report->poll_histogram);
	print_histogram(&view, "Waits from wake to poll (at least, count, share)",
			&report->delay_histogram);
	print_histogram(&view, "Blocking runs by duration (at least, count, share)",
			&report->blocking_histogram);
	print_counted(&view);
	print_losses(&view);
	print_unsure(&view);
}
