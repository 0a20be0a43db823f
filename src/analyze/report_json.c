/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/json_keys.h>
#include <base/json_write.h>
#include <analyze/failed_groups.h>
#include <analyze/findings/pool_runs.h>
#include <analyze/report.h>
#include <analyze/stop_json.h>
#include <analyze/stack_profile.h>
#include <analyze/poll_parts.h>
#include <analyze/resource_use.h>
#include <analyze/root_uses.h>
#include <analyze/runtime_facts.h>
#include <analyze/thread_uses.h>
#include <analyze/queue_fill.h>
#include <analyze/socket_groups.h>
#include <analyze/span_groups.h>
#include <analyze/thread_counts.h>
#include <analyze/wait_ahead.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/turns.h>
#include <read/left_out.h>
#include <read/handovers.h>
#include <base/text.h>
#include <string.h>

/* A name index; null for none. */
static void named(struct ky_buf *out, const struct ky_trace *trace, const char *name,
		  uint32_t index)
{
	if (index != KY_NONE) {
		ky_json_text(out, name, ky_trace_name(trace, index));
		return;
	}
	ky_json_key(out, name);
	ky_text(out, "null");
}

/* ---- info ---- */

static void info_files(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "files", "[");
	for (i = 0; i < trace->file_count; i++) {
		const struct ky_trace_input *file = &trace->files[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", file->name ? file->name : "");
		ky_json_text(out, "container", file->container ? file->container : "raw");
		ky_json_number(out, "stored_bytes", file->stored_bytes);
		ky_json_number(out, "raw_bytes", file->raw_bytes);
		ky_json_number(out, "events", file->event_count);
		ky_json_number(out, "streams", file->stream_count);
		ky_json_number(out, "first_ns", file->first_ns);
		ky_json_number(out, "last_ns", file->last_ns);
		ky_json_number(out, "back_steps", file->back_steps);
		ky_json_flag(out, "sealed", file->is_sealed);
		ky_json_flag(out, "torn", file->is_torn);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_types(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "types", "[");
	for (i = 0; i < trace->type_count; i++) {
		const struct ky_event_type *type = &trace->types[i];

		ky_json_open(out, NULL, "{");
		ky_json_key(out, "name");
		ky_json_string(out, type->name, type->name_bytes);
		ky_json_number(out, "count", type->count);
		ky_json_flag(out, "known", type->event != KY_EV_UNKNOWN);
		ky_json_number(out, "first_ns", type->first_ns);
		ky_json_number(out, "last_ns", type->last_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_workers(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "workers", "[");
	for (i = 0; i < trace->worker_count; i++) {
		const struct ky_worker *worker = &trace->workers[i];

		if (!worker->is_worker || worker->is_thread_lane)
			continue;
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "id", worker->id);
		ky_json_number_or_null(
			out, "runtime", worker->runtime != KY_NONE,
			worker->runtime != KY_NONE ? trace->runtimes[worker->runtime].id : 0);
		ky_json_number_or_null(out, "index", worker->index != KY_NONE, worker->index);
		ky_json_flag(out, "index_exact", worker->is_index_exact);
		ky_json_number_or_null(out, "tid", worker->tid != 0, worker->tid);
		ky_json_flag(out, "ended", worker->has_ended);
		ky_json_number(out, "polls", worker->poll_count);
		ky_json_number(out, "parks", worker->park_count);
		ky_json_number(out, "wakes", worker->wake_count);
		ky_json_number(out, "ends_unproven", worker->end_unproven_count);
		ky_json_number(out, "ends_without_start", worker->end_without_start);
		ky_json_number(out, "moves", worker->moved_count);
		ky_json_number(out, "first_ns", worker->first_ns);
		ky_json_number(out, "last_ns", worker->last_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_threads(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "threads", "[");
	for (i = 0; i < trace->thread_count; i++) {
		const struct ky_trace_thread *thread = &trace->threads[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", thread->tid);
		named(out, trace, "name", thread->name);
		ky_json_number(out, "start_ns", thread->start_ns);
		ky_json_flag(out, "exited", thread->has_exited);
		ky_json_number(out, "lost_records", thread->lost_count);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_runtimes_json(out, trace);
}

/* No records: what threads did is there. */
static void lost_samples(struct ky_buf *out, const struct ky_trace *trace)
{
	const uint64_t *lost = trace->samples.lost;

	ky_json_open(out, "lost_samples", "{");
	ky_json_number(out, "all", trace->lost_samples);
	ky_json_number(out, "cpu", lost[KY_STACK_CPU]);
	ky_json_number(out, "off_cpu", lost[KY_STACK_OFF_CPU]);
	ky_json_number(out, "await_points", lost[KY_STACK_PLACE]);
	ky_json_number(out, "allocations", lost[KY_STACK_ALLOC]);
	ky_json_number(out, "frees", lost[KY_STACK_FREE]);
	ky_text(out, "}");
	ky_json_number(out, "lost_switch_records", ky_trace_lost_switches(trace));
	ky_json_number(out, "requests_unseen", trace->requests_unseen);
}

static void losses(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_number(out, "copies", trace->copy_count);
	ky_json_number(out, "lost_records", trace->lost_records);
	lost_samples(out, trace);
	if (trace->unsent_segments) /* only where there is any */
		ky_json_number(out, "unsent_segments", trace->unsent_segments);
	if (trace->left_out_count) /* the same */
		ky_json_open(out, "left_out", "{");
	for (i = 0; i < trace->left_out_count; i++)
		ky_json_number(out, ky_left_out_key(trace->left_outs[i].kind),
			       trace->left_outs[i].count);
	if (trace->left_out_count)
		ky_json_close(out, "}");
	ky_json_open(out, "losses", "[");
	for (i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		ky_json_open(out, NULL, "{");
		ky_json_number_or_null(out, "tid", loss->tid != 0, loss->tid);
		ky_json_number(out, "records", loss->record_count);
		ky_json_flag(out, "exact", loss->is_exact);
		ky_json_number(out, "from_ns", loss->from_ns);
		ky_json_number(out, "to_ns", loss->to_ns);
		named(out, trace, "cause", loss->cause);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* What is in the trace one by one, and since when. */
static void retention(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "retention", "[");
	for (i = 0; i < trace->retention_count; i++) {
		const struct ky_trace_retention *statement = &trace->retentions[i];

		ky_json_open(out, NULL, "{");
		named(out, trace, "kind", statement->name);
		ky_json_number(out, "threshold_ns", statement->threshold_ns);
		ky_json_number(out, "throttle", statement->throttle);
		ky_json_number(out, "from_ns", statement->from_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* What was reported from outside the runtime. */
static void triggers(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "triggers", "[");
	for (i = 0; i < trace->trigger_count; i++) {
		const struct ky_trace_trigger *trigger = &trace->triggers[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "time_ns", trigger->time_ns);
		named(out, trace, "rule", trigger->rule);
		ky_json_number(out, "value", trigger->value);
		ky_json_number(out, "threshold", trigger->threshold);
		named(out, trace, "unit", trigger->unit);
		ky_json_number_or_null(out, "tid", trigger->tid != 0, trigger->tid);
		ky_json_number_or_null(out, "task_id", trigger->task_id != 0, trigger->task_id);
		ky_json_number(out, "suppressed", trigger->suppressed_count);
		ky_json_number(out, "late", trigger->late_count);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void stuck(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "stuck", "[");
	for (i = 0; i < trace->stuck_count; i++) {
		const struct ky_trace_stuck *check = &trace->stuck[i];
		const char state[2] = {(char)check->state, '\0'};

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "time_ns", check->time_ns);
		ky_json_number(out, "tid", check->tid);
		ky_json_number(out, "task_id", check->task_id);
		ky_json_number(out, "poll_start_ns", check->poll_start_ns);
		ky_json_text(out, "state", state);
		ky_json_flag(out, "running", check->is_running);
		ky_json_number_or_null(out, "syscall", check->syscall != UINT64_MAX,
				       check->syscall);
		ky_json_number_or_null(out, "pc", check->pc != 0, check->pc);
		ky_json_number_or_null(out, "cpu_ns", check->cpu_ns != UINT64_MAX, check->cpu_ns);
		ky_json_number_or_null(out, "run_delay_ns", check->run_delay_ns != UINT64_MAX,
				       check->run_delay_ns);
		named(out, trace, "wchan", check->wchan);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void crashes(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	ky_json_open(out, "crashes", "[");
	for (i = 0; i < trace->crash_count; i++) {
		const struct ky_trace_crash *crash = &trace->crashes[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "time_ns", crash->time_ns);
		ky_json_number(out, "signal", crash->signal_number);
		ky_json_key(out, "code");
		if (crash->code < 0)
			ky_text(out, "-");
		ky_text_u64(out,
			    crash->code < 0 ? 0 - (uint64_t)crash->code : (uint64_t)crash->code);
		ky_json_number(out, "tid", crash->tid);
		ky_json_number(out, "pc", crash->pc);
		ky_json_number(out, "address", crash->address);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_metadata(struct ky_buf *out, const struct ky_trace *trace)
{
	struct ky_json_keys keys;
	uint32_t i;

	ky_json_keys_init(&keys);
	for (i = 0; i < trace->metadata_count; i++) {
		const char *name = ky_trace_name(trace, trace->metadata[i].key);

		ky_json_keys_add(&keys, name, strlen(name));
	}
	if (ky_json_keys_finish(&keys) < 0)
		out->failed = -ENOMEM;
	ky_json_open(out, "metadata", "{");
	for (i = 0; i < keys.count && !out->failed; i++) {
		const char *value = ky_trace_name(trace, trace->metadata[i].value);
		size_t bytes;
		const char *name = ky_json_keys_get(&keys, i, &bytes);

		ky_json_key(out, NULL);
		ky_json_string(out, name, bytes);
		ky_text(out, ":");
		ky_json_string(out, value, strlen(value));
	}
	ky_text(out, "}");
	ky_json_keys_release(&keys);
}

static void info_rest(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	info_metadata(out, trace);
	ky_json_open(out, "clock_syncs", "[");
	for (i = 0; i < trace->clock_sync_count; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "monotonic_ns", trace->clock_syncs[i].monotonic_ns);
		ky_json_number(out, "realtime_ns", trace->clock_syncs[i].realtime_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_json_open(out, "recorder", "{");
	for (i = 0; trace->has_recorder_report && i < KY_F_RECORDER_REPORT_COUNT; i++)
		ky_json_number(out, ky_event_table[KY_EV_RECORDER_REPORT].fields[i].name,
			       trace->recorder_report[i]);
	ky_text(out, "}");
	ky_json_open(out, "notices", "[");
	for (i = 0; i < trace->notice_count; i++)
		ky_json_text(out, NULL, trace->notices[i].text);
	ky_text(out, "]");
}

/* Which process this is of, as far as the trace says. */
void ky_process_json(struct ky_buf *out, const struct ky_trace *trace)
{
	static const char *const keys[] = {"pid", "service"};

	for (uint32_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = ky_trace_metadata(trace, keys[i]);

		ky_json_key(out, keys[i]);
		if (text)
			ky_json_string(out, text, strlen(text));
		else
			ky_text(out, "null");
	}
}

void ky_info_json(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t alive = 0;
	uint32_t i, tasks = 0;

	for (i = 0; i < trace->task_count; i++) {
		if (!ky_trace_is_task(&trace->tasks[i]))
			continue;
		tasks++;
		alive += !(trace->tasks[i].flags & KY_TASK_ENDED);
	}
	ky_text(out, "{");
	ky_process_json(out, trace);
	ky_json_text(out, "source", trace->is_kymo ? "kymo" : "dial9");
	ky_json_number(out, "events", trace->event_count);
	ky_json_number(out, "raw_bytes", trace->raw_bytes);
	ky_json_number(out, "stored_bytes", trace->stored_bytes);
	ky_json_number(out, "first_ns", trace->first_ns);
	ky_json_number(out, "last_ns", trace->last_ns);
	ky_json_number(out, "duration_ns", trace->last_ns - trace->first_ns);
	ky_json_number(out, "run_first_ns", trace->run_first_ns);
	ky_json_number(out, "run_last_ns", trace->run_last_ns);
	ky_json_number_or_null(out, "unix_ns", trace->clock_sync_count > 0,
			       ky_trace_unix_ns(trace, trace->first_ns));
	ky_json_number(out, "back_steps", trace->back_steps);
	ky_json_number(out, "zero_stamps", trace->zero_stamps);
	info_files(out, trace);
	info_types(out, trace);
	info_workers(out, trace);
	info_threads(out, trace);
	ky_json_number(out, "tasks", tasks);
	ky_json_number(out, "tasks_not_ended", alive);
	ky_json_number(out, "blocking_runs", trace->blocking_count);
	ky_json_number(out, "polls", trace->polls);
	ky_json_number(out, "parks", trace->parks);
	ky_json_number(out, "wakes", trace->wakes);
	ky_json_number(out, "ends_unproven", trace->end_unproven);
	ky_json_number(out, "open_polls", trace->open_poll_count);
	ky_json_number(out, "delays_measured", trace->delays_measured);
	ky_json_number(out, "delays_recorded", trace->delays_recorded);
	ky_json_number(out, "delays_no_wake", trace->delays_no_wake);
	ky_json_number(out, "delays_withheld", trace->delays_withheld);
	ky_json_number(out, "delays_counted", trace->counted[KY_COUNTED_DELAY]);
	ky_json_number(out, "polls_counted", trace->counted[KY_COUNTED_POLL]);
	ky_json_number(out, "wakes_counted", trace->counted[KY_COUNTED_WAKE]);
	ky_json_number(out, "parks_counted", trace->counted[KY_COUNTED_PARK]);
	ky_json_number(out, "blocking_counted", trace->counted[KY_COUNTED_BLOCKING]);
	retention(out, trace);
	ky_json_number(out, "wakes_redundant", trace->wakes_redundant);
	ky_json_number(out, "wakes_in_own_poll", trace->wakes_in_own_poll);
	losses(out, trace);
	triggers(out, trace);
	stuck(out, trace);
	crashes(out, trace);
	info_rest(out, trace);
	ky_text(out, "}\n");
}

/* ---- report ---- */

static void quantiles(struct ky_buf *out, const char *name, const struct ky_quantiles *q)
{
	ky_json_open(out, name, "{");
	ky_json_number(out, "count", q->count);
	ky_json_number(out, "total_ns", q->total);
	ky_json_number(out, "min_ns", q->min);
	ky_json_number(out, "p50_ns", q->p50);
	ky_json_number(out, "p90_ns", q->p90);
	ky_json_number(out, "p99_ns", q->p99);
	ky_json_number(out, "p999_ns", q->p999);
	ky_json_number(out, "max_ns", q->max);
	ky_text(out, "}");
}

static void wake_cause(struct ky_buf *out, struct ky_wake_cause cause, uint32_t tid)
{
	ky_json_text(out, "cause", ky_wake_kind_key(cause.kind));
	if (cause.line) {
		ky_json_text(out, "function", cause.line->name);
		ky_json_text(out, "file", cause.line->file);
		ky_json_number(out, "line", cause.line->line);
	}
	ky_json_number_or_null(out, "tid", tid != 0, tid);
}

/* What woke it, and the polls that it stood behind. */
static void ahead(struct ky_buf *out, const struct ky_trace *trace, const struct ky_worst *worst,
		  const struct ky_code_stacks *code)
{
	struct ky_wait_ahead ahead;

	ky_json_open(out, "wake", "{");
	wake_cause(out, ky_wake_cause_of(code, &worst->wake), worst->wake.tid);
	if (ky_wake_origin_text(&worst->wake))
		ky_json_text(out, "from", ky_wake_origin_text(&worst->wake));
	ky_text(out, "}");
	if (!ky_wait_ahead(&ahead, trace, worst)) {
		ky_json_key(out, "ahead");
		ky_text(out, "null");
		return;
	}
	ky_json_open(out, "ahead", "{");
	ky_json_number(out, "worker", trace->workers[ahead.worker].id);
	ky_json_number(out, "polls", ahead.count);
	ky_json_number(out, "busy_ns", ahead.busy_ns);
	ky_json_number(out, "longest_ns", ahead.longest.duration_ns);
	ky_json_number(out, "longest_task", trace->tasks[ahead.longest.task].id);
	ky_text(out, "}");
}

/* All wakes, by cause. */
static void wakes(struct ky_buf *out, const struct ky_trace *trace, const struct ky_report *report,
		  const struct ky_code_stacks *code)
{
	struct ky_wake_causes causes;

	if (ky_wake_causes_make(&causes, trace, code, report->from_ns, report->to_ns) == 0 &&
	    causes.all) {
		ky_json_open(out, "wakes", "[");
		for (uint32_t i = 0; i < causes.group_count; i++) {
			ky_json_open(out, NULL, "{");
			wake_cause(out, causes.groups[i].cause, causes.groups[i].tid);
			ky_json_number(out, "count", causes.groups[i].count);
			ky_text(out, "}");
		}
		ky_text(out, "]");
	}
	ky_wake_causes_release(&causes);
}

/* Its worker went to another thread when it ended there. */
static void handed_over(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_poll *poll)
{
	const struct ky_trace_handover *handover = ky_trace_handover(trace, poll);

	ky_json_number_or_null(out, "handed_over_to", handover != NULL,
			       handover ? handover->to_tid : 0);
}

static void worst(struct ky_buf *out, const struct ky_trace *trace, const char *name,
		  const struct ky_worst *list, uint32_t count, const struct ky_code_stacks *code)
{
	uint32_t i;

	ky_json_open(out, name, "[");
	for (i = 0; i < count; i++) {
		const struct ky_poll *poll = &list[i].poll;
		const struct ky_worker *worker = &trace->workers[poll->worker];
		uint32_t tid = ky_trace_thread_at(trace, poll->worker, poll->start_ns);

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "duration_ns", poll->duration_ns);
		if (trace->stop_count) {
			ky_json_number(out, "stopped_ns", list[i].stopped_ns);
			ky_json_number(out, "delay_stopped_ns", list[i].delay_stopped_ns);
		}
		ky_json_number_or_null(out, "delay_ns", poll->delay_ns != UINT64_MAX,
				       poll->delay_ns);
		ky_json_number(out, "start_ns", poll->start_ns);
		ky_json_number_or_null(out, "unix_ns", trace->clock_sync_count > 0,
				       ky_trace_unix_ns(trace, poll->start_ns));
		ky_json_number_or_null(out, "worker", !worker->is_thread_lane, worker->id);
		ky_json_number_or_null(out, "tid", tid != 0, tid);
		ky_json_number(out, "task", trace->tasks[poll->task].id);
		named(out, trace, "name",
		      poll->name != KY_NONE ? poll->name : trace->tasks[poll->task].name);
		ky_json_number_or_null(out, "woken_by", list[i].waker != KY_NONE,
				       list[i].waker != KY_NONE ? trace->tasks[list[i].waker].id :
								  0);
		if (strcmp(name, "worst_delays") == 0)
			ahead(out, trace, &list[i], code);
		ky_json_flag(out, "open", (poll->flags & KY_POLL_OPEN) != 0);
		ky_json_flag(out, "at_exit", (poll->flags & KY_POLL_AT_EXIT) != 0);
		ky_json_flag(out, "nested", (poll->flags & KY_POLL_NESTED) != 0);
		if (trace->handover_count)
			handed_over(out, trace, poll);
		ky_json_flag(out, "ended_by_park", (poll->flags & KY_POLL_ENDED_BY_PARK) != 0);
		ky_poll_parts_json(out, trace, poll);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* Only where there are readings. */
static void report_thread_counts(struct ky_buf *out, const struct ky_trace *trace,
				 const struct ky_report *report)
{
	struct ky_thread_count *counts;
	uint32_t count;

	if (ky_thread_counts(trace, report->from_ns, report->to_ns + 1, &counts, &count) || !count)
		return;
	ky_json_open(out, "kernel_counts", "[");
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_thread_count *one = &counts[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "worker", one->worker_id);
		ky_json_number(out, "span_ns", one->span_ns);
		ky_json_number(out, "cpu_ns", one->cpu_ns);
		ky_json_number(out, "run_delay_ns", one->run_delay_ns);
		ky_json_number(out, "blocked_ns", one->blocked_ns);
		ky_json_number_or_null(out, "voluntary_switches", one->has_switches,
				       one->voluntary);
		ky_json_number_or_null(out, "involuntary_switches", one->has_switches,
				       one->involuntary);
		ky_json_number(out, "looks_apart_max_ns", one->apart_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_free(counts);
}

/* Only where there are readings. */
static void report_resources(struct ky_buf *out, const struct ky_trace *trace,
			     const struct ky_report *report)
{
	bool is_all = report->to_ns >= trace->run_last_ns;
	struct ky_resource_use *use;

	ky_thread_uses_json(out, trace, is_all ? 0 : report->from_ns, is_all ? 0 : report->to_ns);
	/* Without memory there is none, as without readings. */
	if (ky_resource_use(trace, report->from_ns, report->to_ns, &use) || !use)
		return;
	ky_json_key(out, "resources");
	ky_resource_use_json(out, trace, use);
	ky_free(use);
}

static void report_workers(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_report *report)
{
	uint32_t i;

	ky_json_open(out, "workers", "[");
	for (i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];
		const struct ky_worker *worker = &trace->workers[use->worker];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "id", worker->id);
		named(out, trace, "runtime",
		      worker->runtime != KY_NONE ? trace->runtimes[worker->runtime].name : KY_NONE);
		ky_json_number_or_null(out, "tid", worker->tid != 0, worker->tid);
		named(out, trace, "thread", ky_trace_thread_name(trace, worker->tid));
		ky_json_number(out, "span_ns", use->span_ns);
		ky_json_number(out, "busy_ns", use->busy_ns);
		ky_json_number(out, "parked_ns", use->parked_ns);
		ky_json_number(out, "other_ns", use->other_ns);
		ky_json_number(out, "unknown_ns", use->unknown_ns);
		ky_json_number_or_null(out, "active_permille", use->active_permille != UINT64_MAX,
				       use->active_permille);
		ky_json_number_or_null(out, "busy_permille", use->busy_permille != UINT64_MAX,
				       use->busy_permille);
		ky_json_number_or_null(out, "cpu_permille", use->cpu_permille != UINT64_MAX,
				       use->cpu_permille);
		ky_json_number_or_null(out, "sched_wait_ns", use->has_sched_wait,
				       use->sched_wait_ns);
		ky_json_number(out, "polls", use->poll_count);
		ky_json_number(out, "parks", use->park_count);
		ky_json_number(out, "wakes", use->wake_count);
		ky_json_number(out, "poll_max_ns", use->poll_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void report_groups(struct ky_buf *out, const struct ky_trace *trace,
			  const struct ky_report *report)
{
	uint32_t i;

	ky_json_open(out, "tasks", "[");
	for (i = 0; i < report->group_count; i++) {
		const struct ky_task_group *group = &report->groups[i];

		ky_json_open(out, NULL, "{");
		named(out, trace, "name", group->name);
		ky_json_number(out, "tasks", group->task_count);
		ky_json_number(out, "not_ended", group->alive_count);
		ky_json_number(out, "polls", group->poll_count);
		ky_json_number(out, "busy_ns", group->busy_ns);
		ky_json_number(out, "share_ppm", group->share_ppm);
		ky_json_number(out, "poll_max_ns", group->poll_max_ns);
		ky_json_number(out, "wakes", group->wake_count);
		ky_json_number(out, "delays", group->delay_count);
		ky_json_number(out, "delay_ns", group->delay_ns);
		ky_json_number(out, "delay_max_ns", group->delay_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_json_open(out, "blocking_runs", "[");
	for (i = 0; i < report->blocking_group_count; i++) {
		const struct ky_blocking_group *group = &report->blocking_groups[i];

		ky_json_open(out, NULL, "{");
		named(out, trace, "name", group->name);
		ky_json_number(out, "runs", group->run_count);
		ky_json_number(out, "busy_ns", group->busy_ns);
		ky_json_number(out, "run_max_ns", group->run_max_ns);
		ky_json_number(out, "waits", group->waits.count);
		ky_json_number(out, "wait_ns", group->waits.total_ns);
		ky_json_number(out, "wait_max_ns", group->waits.max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* Only where there are any. */
static void report_spans(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_report *report)
{
	struct ky_span_group *groups;
	uint32_t count;

	if (ky_span_groups(trace, report->spans_from_ns, report->spans_to_ns, &groups, &count)) {
		out->failed = -ENOMEM;
		return;
	}
	if (count)
		ky_json_open(out, "spans", "[");
	for (uint32_t i = 0; i < count; i++) {
		ky_json_open(out, NULL, "{");
		named(out, trace, "name", groups[i].name);
		quantiles(out, "lengths", &groups[i].lengths);
		ky_json_number(out, "open", groups[i].open_count);
		ky_json_number(out, "counted", groups[i].counted_count);
		ky_json_number(out, "cpu_ns", groups[i].split.cpu_ns);
		ky_json_number(out, "off_cpu_ns", groups[i].split.off_cpu_ns);
		ky_json_number(out, "polled_ns", groups[i].split.polled_ns);
		ky_json_number(out, "ready_ns", groups[i].split.ready_ns);
		ky_json_number(out, "waiting_ns", groups[i].split.waiting_ns);
		ky_json_number(out, "client_ns", groups[i].split.client_ns);
		ky_json_number(out, "unknown_ns", groups[i].split.unknown_ns);
		ky_text(out, "}");
	}
	if (count)
		ky_text(out, "]");
	ky_free(groups);
}

void ky_report_json(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile)
{
	const struct ky_code_stacks *code = profile ? &profile->code : NULL;
	uint32_t threads;

	ky_text(out, "{");
	ky_json_number(out, "from_ns", report->from_ns);
	ky_json_number(out, "to_ns", report->to_ns);
	ky_json_number_or_null(out, "shutdown_ns", report->shutdown_ns != 0, report->shutdown_ns);
	ky_stops_json(out, trace);
	ky_failed_groups_json(out, trace, report->from_ns, report->to_ns + 1);
	ky_socket_groups_json(out, trace, report->from_ns, report->to_ns + 1);
	report_workers(out, trace, report);
	report_thread_counts(out, trace, report);
	report_resources(out, trace, report);
	quantiles(out, "polls", &report->polls);
	ky_json_number(out, "polls_open", report->polls_open);
	ky_json_number(out, "polls_end_unproven", report->polls_end_unproven);
	if (report->handed_over.count) {
		ky_json_open(out, "polls_handed_over", "{");
		ky_json_number(out, "count", report->handed_over.count);
		ky_json_number(out, "total_ns", report->handed_over.total_ns);
		ky_json_number(out, "max_ns", report->handed_over.max_ns);
		ky_json_close(out, "}");
	}
	ky_json_number(out, "polls_with_gap", report->polls_with_gap);
	quantiles(out, "delays", &report->delays);
	ky_json_number(out, "delays_no_wake", report->delays_no_wake);
	ky_json_number(out, "delays_withheld", report->delays_withheld);
	ky_json_number(out, "polls_counted", report->polls_counted);
	ky_json_number(out, "delays_counted", report->delays_counted);
	ky_json_number(out, "blocking_counted", report->blocking_counted);
	ky_json_number(out, "wakes_counted", report->wakes_counted);
	ky_json_number(out, "parks_counted", report->parks_counted);
	ky_json_number(out, "workers_without_parks", report->workers_without_parks);
	retention(out, trace);
	quantiles(out, "blocking", &report->blocking);
	if (ky_pool_threads_in_line(&threads, trace, report->from_ns, report->to_ns))
		out->failed = -ENOMEM;
	ky_json_number_or_null(out, "pool_threads_in_line", threads != 0, threads);
	worst(out, trace, "worst_polls", report->worst_polls, report->worst_poll_count, code);
	worst(out, trace, "worst_delays", report->worst_delays, report->worst_delay_count, code);
	wakes(out, trace, report, code);
	report_groups(out, trace, report);
	ky_root_uses_json(out, trace, report->from_ns, report->to_ns);
	ky_queue_fills_json(out, trace);
	report_spans(out, trace, report);
	losses(out, trace);
	if (profile) {
		ky_json_key(out, "profile");
		ky_stack_profile_json(out, trace, profile);
	}
	ky_text(out, "}");
}
