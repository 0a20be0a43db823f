/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/report_text.h>

#include <analyze/findings/pool_runs.h>
#include <analyze/queue_fill.h>
#include <analyze/span_groups.h>
#include <analyze/thread_counts.h>
#include <base/alloc.h>
#include <report/doubt_text.h>
#include <report/failed_text.h>
#include <report/histogram_text.h>
#include <report/resource_text.h>
#include <report/root_text.h>
#include <report/socket_text.h>
#include <report/stop_text.h>
#include <report/thread_text.h>
#include <report/wake_text.h>
#include <report/worst_list.h>
#include <report/worst_text.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUPS_MAX 20u
#define WORKERS_MAX 256u
#define SPANS_MAX 20u

static void unknown_cell(struct ky_table *table, const struct ky_worker_use *use)
{
	uint64_t part_ns = use->unknown_ns, whole_ns = use->span_ns;
	char cell[KY_OUT_CELL_BYTES];

	while (part_ns > UINT64_MAX / 1000) {
		part_ns >>= 1;
		whole_ns >>= 1;
	}
	if (part_ns)
		ky_table_format(table, "? %s", ky_out_permille(cell, part_ns * 1000 / whole_ns));
	else
		ky_table_cell(table, "");
}

static void print_workers(const struct ky_report_view *view)
{
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
	ky_table_begin(
		&table, is_any_unknown ? "rrrrrrrrrll" : "rrrrrrrrll",
		is_any_unknown ?
			"Worker|Active|In polls|CPU|Polls|Longest|Parks|Wakes|Unknown|Runtime|"
			"Thread" :
			"Worker|Active|In polls|CPU|Polls|Longest|Parks|Wakes|Runtime|Thread");
	for (uint32_t i = 0; i < report->worker_count && i < WORKERS_MAX; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		ky_report_worker_cell(&table, view->trace, use->worker);
		ky_report_permille_cell(&table, use->active_permille);
		ky_report_permille_cell(&table, use->busy_permille);
		ky_report_permille_cell(&table, use->cpu_permille);
		ky_table_count(&table, use->poll_count);
		ky_table_duration(&table, use->poll_max_ns);
		ky_table_count(&table, use->park_count);
		ky_table_count(&table, use->wake_count);
		if (is_any_unknown)
			unknown_cell(&table, use);
		ky_table_cell(&table, ky_report_runtime(view->trace, use->worker));
		ky_report_thread_cell(&table, view->trace, view->trace->workers[use->worker].tid);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (report->worker_count > WORKERS_MAX)
		ky_out_format(view->out, "  ... and %u more workers; --json has all\n",
			      report->worker_count - WORKERS_MAX);
	ky_out_text(view->out, "\n");
}

/* Depths are of the whole trace, as their counts have no times. */
static void print_queues(const struct ky_report_view *view)
{
	const struct ky_trace *trace = view->trace;
	struct ky_queue_fill *uses;
	struct ky_table table;

	if (!trace->queue_count)
		return;
	if (ky_queue_fills(trace, &uses)) {
		view->out->failed = -ENOMEM;
		return;
	}
	ky_out_heading(view->out, view->is_coloured,
		       "Queues: tasks that stood in them, in the whole trace");
	ky_table_begin(&table, "lrrrrrrl", "Queue|Samples|Min|p50|p99|Max|Fullest at|Runtime");
	for (uint32_t i = 0; i < trace->queue_count && i < WORKERS_MAX; i++) {
		if (uses[i].is_worker)
			ky_table_format(&table, "worker %llu",
					(unsigned long long)uses[i].worker_id);
		else
			ky_table_cell(&table, "runtime");
		ky_table_count(&table, uses[i].sample_count);
		ky_table_count(&table, uses[i].min);
		ky_table_count(&table, uses[i].p50);
		ky_table_count(&table, uses[i].p99);
		ky_table_count(&table, uses[i].max);
		if (uses[i].max_ns)
			ky_report_moment_cell(&table, view, uses[i].max_ns);
		else
			ky_table_cell(&table, "-");
		ky_table_cell(&table, ky_trace_name(trace, uses[i].runtime));
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (trace->queue_count > WORKERS_MAX)
		ky_out_format(view->out, "  ... and %u more; kymo view queues\n",
			      trace->queue_count - WORKERS_MAX);
	ky_out_text(view->out, "\n");
	ky_free(uses);
}

static void print_spans(const struct ky_report_view *view)
{
	struct ky_span_group *groups;
	struct ky_table table;
	bool has_clients = false;
	uint32_t count;

	if (ky_span_groups(view->trace, view->report->spans_from_ns, view->report->spans_to_ns,
			   &groups, &count)) {
		view->out->failed = -ENOMEM;
		return;
	}
	if (!count) {
		ky_free(groups);
		return;
	}
	ky_out_heading(
		view->out, view->is_coloured,
		"Spans by name, most time first, and what their tasks did: in polls is not split");
	for (uint32_t i = 0; i < count; i++)
		has_clients |= groups[i].split.client_ns != 0;
	ky_table_begin(&table, has_clients ? "rrrrrrrrrrrl" : "rrrrrrrrrrl",
		       has_clients ?
			       "Count|p50|p99|Max|Open|On CPU|Off CPU|In polls|Ready|Waiting|"
			       "For client|Span" :
			       "Count|p50|p99|Max|Open|On CPU|Off CPU|In polls|Ready|Waiting|Span");
	for (uint32_t i = 0; i < count && i < SPANS_MAX; i++) {
		const struct ky_quantiles *lengths = &groups[i].lengths;
		const struct ky_span_split *split = &groups[i].split;
		uint64_t all_ns = split->cpu_ns + split->off_cpu_ns + split->polled_ns +
				  split->ready_ns + split->waiting_ns + split->client_ns +
				  split->unknown_ns;

		ky_table_count(&table, lengths->count);
		ky_table_duration(&table, lengths->p50);
		ky_table_duration(&table, lengths->p99);
		ky_table_duration(&table, lengths->max);
		ky_table_count(&table, groups[i].open_count);
		ky_report_share_cell(&table, split->cpu_ns, all_ns);
		ky_report_share_cell(&table, split->off_cpu_ns, all_ns);
		ky_report_share_cell(&table, split->polled_ns, all_ns);
		ky_report_share_cell(&table, split->ready_ns, all_ns);
		ky_report_share_cell(&table, split->waiting_ns, all_ns);
		if (has_clients)
			ky_report_share_cell(&table, split->client_ns, all_ns);
		ky_report_name_cell(&table, view, groups[i].name);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (count > SPANS_MAX)
		ky_out_format(view->out, "  ... and %u more names\n", count - SPANS_MAX);
	ky_out_text(view->out, "\n");
	ky_free(groups);
}

/* What the kernel has counted, exactly, between readings of its counters. */
static void print_thread_counts(const struct ky_report_view *view)
{
	struct ky_thread_count *counts;
	struct ky_table table;
	uint32_t count;

	/* Without memory there is no table, as without readings. */
	if (ky_thread_counts(view->trace, view->report->from_ns, view->report->to_ns + 1, &counts,
			     &count) ||
	    !count) {
		return;
	}
	ky_out_heading(view->out, view->is_coloured,
		       "On CPU, as the kernel counted; blocked is parked and waiting");
	ky_table_begin(&table, "rrrrrrrr",
		       "Worker|Time|CPU|Runnable|Blocked|Switches|Preempted|Interval");
	for (uint32_t i = 0; i < count && i < WORKERS_MAX; i++) {
		const struct ky_thread_count *one = &counts[i];

		ky_table_count(&table, one->worker_id);
		ky_table_duration(&table, one->span_ns);
		ky_table_duration(&table, one->cpu_ns);
		ky_table_duration(&table, one->run_delay_ns);
		ky_table_duration(&table, one->blocked_ns);
		if (one->has_switches) {
			ky_table_count(&table, one->voluntary);
			ky_table_count(&table, one->involuntary);
		} else {
			ky_table_cell(&table, "-");
			ky_table_cell(&table, "-");
		}
		ky_table_duration(&table, one->apart_max_ns);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
	ky_free(counts);
}

static void quantile_row(struct ky_table *table, const char *what,
			 const struct ky_quantiles *values)
{
	if (!values->count)
		return;
	ky_table_cell(table, what);
	ky_table_count(table, values->count);
	ky_table_duration(table, values->p50);
	ky_table_duration(table, values->p90);
	ky_table_duration(table, values->p99);
	ky_table_duration(table, values->p999);
	ky_table_duration(table, values->max);
	ky_table_duration(table, values->total);
}

static void print_quantiles(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	struct ky_table table;

	ky_table_begin(&table, "lrrrrrrr", "|Count|p50|p90|p99|p99.9|Max|Total");
	quantile_row(&table, "poll", &report->polls);
	quantile_row(&table, "wake to poll", &report->delays);
	quantile_row(&table, "blocking run", &report->blocking);
	if (table.cell_count > table.column_count)
		ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
}

static void print_groups(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	const char *says = ky_trace_metadata(view->trace, "tokio.next_id");
	struct ky_table table;

	if (!report->group_count)
		return;
	ky_out_heading(view->out, view->is_coloured,
		       report->shutdown_ns ? "Tasks by name, most poll time first; alive just "
					     "before the shutdown" :
					     "Tasks by name, most poll time first");
	ky_table_begin(&table, "rrrrrrrl",
		       "Tasks|Alive|Polls|Poll time|Share|Longest poll|Longest wait|Name");
	for (uint32_t i = 0; i < report->group_count && i < GROUPS_MAX; i++) {
		const struct ky_task_group *group = &report->groups[i];

		ky_table_count(&table, group->task_count);
		ky_table_count(&table, group->alive_count);
		ky_table_count(&table, group->poll_count);
		ky_table_duration(&table, group->busy_ns);
		ky_report_permille_cell(&table, group->share_ppm / 1000);
		ky_table_duration(&table, group->poll_max_ns);
		if (group->delay_count)
			ky_table_duration(&table, group->delay_max_ns);
		else
			ky_table_cell(&table, "-");
		ky_report_name_cell(&table, view, group->name);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (report->group_count > GROUPS_MAX)
		ky_out_format(view->out, "  ... and %u more names; --json has all\n",
			      report->group_count - GROUPS_MAX);
	if (says && strcmp(says, "none") == 0)
		ky_out_text(view->out, "  who spawned which is not known: the counter of task ids "
				       "has no name (stripped)\n");
	ky_out_text(view->out, "\n");
}

static void put_wait(struct ky_table *table, const struct ky_blocking_group *group, uint64_t ns)
{
	if (group->waits.count && !group->is_runtimes)
		ky_table_duration(table, ns);
	else
		ky_table_cell(table, "-");
}

static void print_blocking(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	struct ky_table table;
	uint32_t threads;

	if (!report->blocking_group_count)
		return;
	ky_out_heading(view->out, view->is_coloured, "Blocking pool");
	ky_table_begin(&table, "rrrrrl", "Runs|Time|Longest|In line|Longest|Name");
	for (uint32_t i = 0; i < report->blocking_group_count && i < GROUPS_MAX; i++) {
		const struct ky_blocking_group *group = &report->blocking_groups[i];

		ky_table_count(&table, group->run_count);
		ky_table_duration(&table, group->busy_ns);
		ky_table_duration(&table, group->run_max_ns);
		put_wait(&table, group, group->waits.total_ns);
		put_wait(&table, group, group->waits.max_ns);
		ky_report_name_cell(&table, view, group->name);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (ky_pool_threads_in_line(&threads, view->trace, report->from_ns, report->to_ns) == 0 &&
	    threads)
		ky_out_format(view->out,
			      "  most threads of the pool that ran while closures stood in line: "
			      "%u\n",
			      threads);
	ky_out_text(view->out, "\n");
}

/* The first lines: what an engineer needs at night. */
static void print_answer(const struct ky_report_view *view)
{
	const struct ky_report *report = view->report;
	const struct ky_trace *trace = view->trace;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES], name[KY_REPORT_NAME_BYTES];
	const char *text;
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
	if (report->shutdown_ns)
		ky_out_format(view->out, ", shut down at +%s",
			      ky_out_duration(a, report->shutdown_ns - trace->run_first_ns));
	if (trace->lost_samples)
		ky_out_format(view->out, ", %s SAMPLES LOST", ky_out_count(b, trace->lost_samples));
	if (trace->unsent_segments)
		ky_out_format(view->out, ", %s SEGMENT%s LOST UNSENT",
			      ky_out_count(b, trace->unsent_segments),
			      trace->unsent_segments == 1 ? "" : "S");
	ky_out_text(view->out, "\n");
	ky_stop_text(view->out, trace, report);
	ky_failed_text(view);
	ky_socket_text(view);
	if (report->polls_counted && report->polls.max > 0 &&
	    (!report->worst_poll_count ||
	     ky_worst_poll_ns(report->worst_polls) < report->polls.max)) {
		ky_out_format(view->out, "Longest poll %s, in a histogram only\n",
			      ky_out_duration(a, report->polls.max));
	} else if (report->worst_poll_count) {
		const struct ky_poll *poll = &report->worst_polls[0].poll;

		ky_out_format(view->out, "Longest poll %s: ",
			      ky_out_duration(a, ky_worst_poll_ns(report->worst_polls)));
		text = ky_report_name(name, view, ky_report_poll_name(trace, poll));
		ky_out_safe(view->out, text, strlen(text));
		ky_out_text(view->out, "\n");
		ky_worst_answer(view->out, trace, view->profile);
	}
	if (report->worst_delay_count) {
		const struct ky_poll *poll = &report->worst_delays[0].poll;

		ky_out_format(view->out, "Longest wait %s from wake to poll: ",
			      ky_out_duration(a, ky_worst_delay_ns(report->worst_delays)));
		text = ky_report_name(name, view, ky_report_poll_name(trace, poll));
		ky_out_safe(view->out, text, strlen(text));
		ky_out_text(view->out, " (a late wake is not in it)\n");
	}
	ky_out_text(view->out, "\n");
}

void ky_report_text(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile,
		    uint32_t worst_count, bool is_coloured, const struct ky_code_names *names,
		    bool is_wall)
{
	struct ky_report_view view = {out,     trace,       report,
				      profile, is_coloured, worst_count,
				      names,   is_wall,     profile ? &profile->code : NULL};

	print_answer(&view);
	print_quantiles(&view);
	ky_worst_polls(&view);
	ky_worst_text(out, trace, profile, is_coloured);
	ky_worst_delays(&view);
	ky_wake_table(&view);
	print_workers(&view);
	print_thread_counts(&view);
	ky_resource_text(out, trace, report, is_coloured);
	ky_thread_text(out, trace, report, is_coloured);
	print_groups(&view);
	ky_root_text(&view);
	print_blocking(&view);
	print_queues(&view);
	print_spans(&view);
	ky_histogram_text(&view, "Polls by duration (at least, count, share)",
			  &report->poll_histogram);
	ky_histogram_text(&view, "Waits from wake to poll (at least, count, share)",
			  &report->delay_histogram);
	ky_histogram_text(&view, "Blocking runs by duration (at least, count, share)",
			  &report->blocking_histogram);
	ky_counted_text(&view);
	ky_losses_text(&view);
	ky_unsure_text(&view);
}
