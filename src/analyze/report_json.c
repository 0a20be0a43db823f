/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/json_keys.h>
#include <analyze/report.h>
#include <analyze/stack_profile.h>
#include <analyze/thread_counts.h>
#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <read/text.h>
#include <string.h>

void ky_json_string(struct ky_buf *out, const char *text, size_t text_bytes)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *at = (const uint8_t *)text, *end = at + text_bytes;

	ky_text(out, "\"");
	while (at < end) {
		size_t count = ky_utf8_sequence(at, (size_t)(end - at));
		char escape[7] = {'\\', 'u', '0', '0', 0, 0, 0};

		if (count == 0) {
			ky_text(out, "\xef\xbf\xbd");
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\') {
			ky_text(out, "\\");
			ky_buf_append(out, at, 1);
		} else if (*at < 0x20 || *at == 0x7f) {
			escape[4] = hex[*at >> 4];
			escape[5] = hex[*at & 15];
			ky_text(out, escape);
		} else {
			ky_buf_append(out, at, count);
		}
		at += count;
	}
	ky_text(out, "\"");
}

/* ---- pieces: a key, then a value; the comma before it where something stands before it ---- */

static void key(struct ky_buf *out, const char *name)
{
	if (out->used > 0 && out->bytes && out->bytes[out->used - 1] != '{' &&
	    out->bytes[out->used - 1] != '[')
		ky_text(out, ",");
	if (name) {
		ky_text(out, "\"");
		ky_text(out, name);
		ky_text(out, "\":");
	}
}

static void open_with(struct ky_buf *out, const char *name, const char *bracket)
{
	key(out, name);
	ky_text(out, bracket);
}

static void number(struct ky_buf *out, const char *name, uint64_t value)
{
	key(out, name);
	ky_text_u64(out, value);
}

static void flag(struct ky_buf *out, const char *name, bool value)
{
	key(out, name);
	ky_text(out, value ? "true" : "false");
}

static void text(struct ky_buf *out, const char *name, const char *value)
{
	key(out, name);
	ky_json_string(out, value, strlen(value));
}

/* A name index; null for none. */
static void named(struct ky_buf *out, const struct ky_trace *trace, const char *name,
		  uint32_t index)
{
	if (index != KY_NONE) {
		text(out, name, ky_trace_name(trace, index));
		return;
	}
	key(out, name);
	ky_text(out, "null");
}

static void nothing_or(struct ky_buf *out, const char *name, bool is_known, uint64_t value)
{
	if (is_known) {
		number(out, name, value);
		return;
	}
	key(out, name);
	ky_text(out, "null");
}

/* ---- info ---- */

static void info_files(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "files", "[");
	for (i = 0; i < trace->file_count; i++) {
		const struct ky_trace_file *file = &trace->files[i];

		open_with(out, NULL, "{");
		text(out, "name", file->name ? file->name : "");
		text(out, "container", file->container ? file->container : "raw");
		number(out, "stored_bytes", file->stored_bytes);
		number(out, "raw_bytes", file->raw_bytes);
		number(out, "events", file->event_count);
		number(out, "streams", file->stream_count);
		number(out, "first_ns", file->first_ns);
		number(out, "last_ns", file->last_ns);
		number(out, "back_steps", file->back_steps);
		flag(out, "sealed", file->is_sealed);
		flag(out, "torn", file->is_torn);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_types(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "types", "[");
	for (i = 0; i < trace->type_count; i++) {
		const struct ky_event_type *type = &trace->types[i];

		open_with(out, NULL, "{");
		key(out, "name");
		ky_json_string(out, type->name, type->name_bytes);
		number(out, "count", type->count);
		flag(out, "known", type->event != KY_EV_UNKNOWN);
		number(out, "first_ns", type->first_ns);
		number(out, "last_ns", type->last_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_workers(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "workers", "[");
	for (i = 0; i < trace->worker_count; i++) {
		const struct ky_worker *worker = &trace->workers[i];

		if (!worker->is_worker || worker->is_thread_lane)
			continue;
		open_with(out, NULL, "{");
		number(out, "id", worker->id);
		nothing_or(out, "runtime", worker->runtime != KY_NONE,
			   worker->runtime != KY_NONE ? trace->runtimes[worker->runtime].id : 0);
		nothing_or(out, "index", worker->index != KY_NONE, worker->index);
		flag(out, "index_exact", worker->is_index_exact);
		nothing_or(out, "tid", worker->tid != 0, worker->tid);
		flag(out, "ended", worker->has_ended);
		number(out, "polls", worker->poll_count);
		number(out, "parks", worker->park_count);
		number(out, "wakes", worker->wake_count);
		number(out, "ends_unproven", worker->end_unproven_count);
		number(out, "ends_without_start", worker->end_without_start);
		number(out, "moves", worker->moved_count);
		number(out, "first_ns", worker->first_ns);
		number(out, "last_ns", worker->last_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void info_threads(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "threads", "[");
	for (i = 0; i < trace->thread_count; i++) {
		const struct ky_trace_thread *thread = &trace->threads[i];

		open_with(out, NULL, "{");
		number(out, "tid", thread->tid);
		named(out, trace, "name", thread->name);
		number(out, "start_ns", thread->start_ns);
		flag(out, "exited", thread->has_exited);
		number(out, "lost_records", thread->lost_count);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	open_with(out, "runtimes", "[");
	for (i = 0; i < trace->runtime_count; i++) {
		open_with(out, NULL, "{");
		number(out, "id", trace->runtimes[i].id);
		named(out, trace, "name", trace->runtimes[i].name);
		number(out, "kind", trace->runtimes[i].flavor);
		number(out, "copy", trace->runtimes[i].copy_index);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void losses(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	number(out, "lost_records", trace->lost_records);
	open_with(out, "losses", "[");
	for (i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		open_with(out, NULL, "{");
		nothing_or(out, "tid", loss->tid != 0, loss->tid);
		number(out, "records", loss->record_count);
		flag(out, "exact", loss->is_exact);
		number(out, "from_ns", loss->from_ns);
		number(out, "to_ns", loss->to_ns);
		named(out, trace, "cause", loss->cause);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* What is in the trace one by one, and since when. */
static void retention(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "retention", "[");
	for (i = 0; i < trace->retention_count; i++) {
		const struct ky_trace_retention *statement = &trace->retentions[i];

		open_with(out, NULL, "{");
		named(out, trace, "kind", statement->name);
		number(out, "threshold_ns", statement->threshold_ns);
		number(out, "throttle", statement->throttle);
		number(out, "from_ns", statement->from_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* What was told from outside the runtime. */
static void triggers(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "triggers", "[");
	for (i = 0; i < trace->trigger_count; i++) {
		const struct ky_trace_trigger *trigger = &trace->triggers[i];

		open_with(out, NULL, "{");
		number(out, "time_ns", trigger->time_ns);
		named(out, trace, "rule", trigger->rule);
		number(out, "value", trigger->value);
		number(out, "threshold", trigger->threshold);
		named(out, trace, "unit", trigger->unit);
		nothing_or(out, "tid", trigger->tid != 0, trigger->tid);
		nothing_or(out, "task_id", trigger->task_id != 0, trigger->task_id);
		number(out, "suppressed", trigger->suppressed_count);
		number(out, "late", trigger->late_count);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void stuck(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "stuck", "[");
	for (i = 0; i < trace->stuck_count; i++) {
		const struct ky_trace_stuck *look = &trace->stuck[i];
		const char state[2] = {(char)look->state, '\0'};

		open_with(out, NULL, "{");
		number(out, "time_ns", look->time_ns);
		number(out, "tid", look->tid);
		number(out, "task_id", look->task_id);
		number(out, "poll_start_ns", look->poll_start_ns);
		text(out, "state", state);
		flag(out, "running", look->is_running);
		nothing_or(out, "syscall", look->syscall != UINT64_MAX, look->syscall);
		nothing_or(out, "pc", look->pc != 0, look->pc);
		named(out, trace, "wchan", look->wchan);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void crashes(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t i;

	open_with(out, "crashes", "[");
	for (i = 0; i < trace->crash_count; i++) {
		const struct ky_trace_crash *crash = &trace->crashes[i];

		open_with(out, NULL, "{");
		number(out, "time_ns", crash->time_ns);
		number(out, "signal", crash->signal_number);
		key(out, "code");
		if (crash->code < 0)
			ky_text(out, "-");
		ky_text_u64(out,
			    crash->code < 0 ? 0 - (uint64_t)crash->code : (uint64_t)crash->code);
		number(out, "tid", crash->tid);
		number(out, "pc", crash->pc);
		number(out, "address", crash->address);
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
	open_with(out, "metadata", "{");
	for (i = 0; i < keys.count && !out->failed; i++) {
		const char *value = ky_trace_name(trace, trace->metadata[i].value);
		size_t bytes;
		const char *name = ky_json_keys_get(&keys, i, &bytes);

		key(out, NULL);
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
	open_with(out, "clock_syncs", "[");
	for (i = 0; i < trace->clock_sync_count; i++) {
		open_with(out, NULL, "{");
		number(out, "monotonic_ns", trace->clock_syncs[i].monotonic_ns);
		number(out, "realtime_ns", trace->clock_syncs[i].realtime_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	open_with(out, "recorder", "{");
	for (i = 0; trace->has_recorder_report && i < KY_F_RECORDER_REPORT_COUNT; i++)
		number(out, ky_event_table[KY_EV_RECORDER_REPORT].fields[i].name,
		       trace->recorder_report[i]);
	ky_text(out, "}");
	open_with(out, "notices", "[");
	for (i = 0; i < trace->notice_count; i++)
		text(out, NULL, trace->notices[i].text);
	ky_text(out, "]");
}

void ky_info_json(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t alive = 0;
	uint32_t i;

	for (i = 0; i < trace->task_count; i++)
		alive += !(trace->tasks[i].flags & KY_TASK_ENDED);
	ky_text(out, "{");
	text(out, "source", trace->is_kymo ? "kymo" : "dial9");
	number(out, "events", trace->event_count);
	number(out, "raw_bytes", trace->raw_bytes);
	number(out, "stored_bytes", trace->stored_bytes);
	number(out, "first_ns", trace->first_ns);
	number(out, "last_ns", trace->last_ns);
	number(out, "duration_ns", trace->last_ns - trace->first_ns);
	number(out, "run_first_ns", trace->run_first_ns);
	number(out, "run_last_ns", trace->run_last_ns);
	nothing_or(out, "unix_ns", trace->clock_sync_count > 0,
		   ky_trace_unix_ns(trace, trace->first_ns));
	number(out, "back_steps", trace->back_steps);
	number(out, "zero_stamps", trace->zero_stamps);
	info_files(out, trace);
	info_types(out, trace);
	info_workers(out, trace);
	info_threads(out, trace);
	number(out, "tasks", trace->task_count);
	number(out, "tasks_not_ended", alive);
	number(out, "polls", trace->polls);
	number(out, "parks", trace->parks);
	number(out, "wakes", trace->wakes);
	number(out, "ends_unproven", trace->end_unproven);
	number(out, "open_polls", trace->open_poll_count);
	number(out, "delays_measured", trace->delays_measured);
	number(out, "delays_recorded", trace->delays_recorded);
	number(out, "delays_no_wake", trace->delays_no_wake);
	number(out, "delays_withheld", trace->delays_withheld);
	number(out, "delays_counted", trace->counted[KY_COUNTED_DELAY]);
	number(out, "polls_counted", trace->counted[KY_COUNTED_POLL]);
	number(out, "wakes_counted", trace->counted[KY_COUNTED_WAKE]);
	number(out, "parks_counted", trace->counted[KY_COUNTED_PARK]);
	number(out, "blocking_counted", trace->counted[KY_COUNTED_BLOCKING]);
	retention(out, trace);
	number(out, "wakes_redundant", trace->wakes_redundant);
	number(out, "wakes_in_own_poll", trace->wakes_in_own_poll);
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
	open_with(out, name, "{");
	number(out, "count", q->count);
	number(out, "total_ns", q->total);
	number(out, "min_ns", q->min);
	number(out, "p50_ns", q->p50);
	number(out, "p90_ns", q->p90);
	number(out, "p99_ns", q->p99);
	number(out, "p999_ns", q->p999);
	number(out, "max_ns", q->max);
	ky_text(out, "}");
}

static void worst(struct ky_buf *out, const struct ky_trace *trace, const char *name,
		  const struct ky_worst *list, uint32_t count)
{
	uint32_t i;

	open_with(out, name, "[");
	for (i = 0; i < count; i++) {
		const struct ky_poll *poll = &list[i].poll;
		const struct ky_worker *worker = &trace->workers[poll->worker];

		open_with(out, NULL, "{");
		number(out, "duration_ns", poll->duration_ns);
		nothing_or(out, "delay_ns", poll->delay_ns != UINT64_MAX, poll->delay_ns);
		number(out, "start_ns", poll->start_ns);
		nothing_or(out, "unix_ns", trace->clock_sync_count > 0,
			   ky_trace_unix_ns(trace, poll->start_ns));
		nothing_or(out, "worker", !worker->is_thread_lane, worker->id);
		nothing_or(out, "tid", worker->tid != 0, worker->tid);
		number(out, "task", trace->tasks[poll->task].id);
		named(out, trace, "name",
		      poll->name != KY_NONE ? poll->name : trace->tasks[poll->task].name);
		nothing_or(out, "woken_by", list[i].waker != KY_NONE,
			   list[i].waker != KY_NONE ? trace->tasks[list[i].waker].id : 0);
		flag(out, "open", (poll->flags & KY_POLL_OPEN) != 0);
		flag(out, "at_exit", (poll->flags & KY_POLL_AT_EXIT) != 0);
		flag(out, "nested", (poll->flags & KY_POLL_NESTED) != 0);
		flag(out, "ended_by_park", (poll->flags & KY_POLL_ENDED_BY_PARK) != 0);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

/* Only where somebody looked. */
static void report_thread_counts(struct ky_buf *out, const struct ky_trace *trace,
				 const struct ky_report *report)
{
	struct ky_thread_count *counts;
	uint32_t count;

	if (ky_thread_counts(trace, report->from_ns, report->to_ns + 1, &counts, &count) || !count)
		return;
	open_with(out, "kernel_counts", "[");
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_thread_count *one = &counts[i];

		open_with(out, NULL, "{");
		number(out, "worker", one->worker_id);
		number(out, "span_ns", one->span_ns);
		number(out, "cpu_ns", one->cpu_ns);
		number(out, "run_delay_ns", one->run_delay_ns);
		number(out, "blocked_ns", one->blocked_ns);
		nothing_or(out, "voluntary_switches", one->has_switches, one->voluntary);
		nothing_or(out, "involuntary_switches", one->has_switches, one->involuntary);
		number(out, "looks_apart_max_ns", one->apart_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_free(counts);
}

static void report_workers(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_report *report)
{
	uint32_t i;

	open_with(out, "workers", "[");
	for (i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		open_with(out, NULL, "{");
		number(out, "id", trace->workers[use->worker].id);
		number(out, "span_ns", use->span_ns);
		number(out, "busy_ns", use->busy_ns);
		number(out, "parked_ns", use->parked_ns);
		number(out, "other_ns", use->other_ns);
		number(out, "unknown_ns", use->unknown_ns);
		nothing_or(out, "active_permille", use->active_permille != UINT64_MAX,
			   use->active_permille);
		nothing_or(out, "busy_permille", use->busy_permille != UINT64_MAX,
			   use->busy_permille);
		nothing_or(out, "cpu_permille", use->cpu_permille != UINT64_MAX, use->cpu_permille);
		number(out, "sched_wait_ns", use->sched_wait_ns);
		number(out, "polls", use->poll_count);
		number(out, "parks", use->park_count);
		number(out, "wakes", use->wake_count);
		number(out, "poll_max_ns", use->poll_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void report_groups(struct ky_buf *out, const struct ky_trace *trace,
			  const struct ky_report *report)
{
	uint32_t i;

	open_with(out, "tasks", "[");
	for (i = 0; i < report->group_count; i++) {
		const struct ky_task_group *group = &report->groups[i];

		open_with(out, NULL, "{");
		named(out, trace, "name", group->name);
		number(out, "tasks", group->task_count);
		number(out, "not_ended", group->alive_count);
		number(out, "polls", group->poll_count);
		number(out, "busy_ns", group->busy_ns);
		number(out, "share_ppm", group->share_ppm);
		number(out, "poll_max_ns", group->poll_max_ns);
		number(out, "wakes", group->wake_count);
		number(out, "delays", group->delay_count);
		number(out, "delay_ns", group->delay_ns);
		number(out, "delay_max_ns", group->delay_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	open_with(out, "blocking_runs", "[");
	for (i = 0; i < report->blocking_group_count; i++) {
		const struct ky_blocking_group *group = &report->blocking_groups[i];

		open_with(out, NULL, "{");
		named(out, trace, "name", group->name);
		number(out, "runs", group->run_count);
		number(out, "busy_ns", group->busy_ns);
		number(out, "run_max_ns", group->run_max_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

void ky_report_json(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile)
{
	ky_text(out, "{");
	number(out, "from_ns", report->from_ns);
	number(out, "to_ns", report->to_ns);
	report_workers(out, trace, report);
	report_thread_counts(out, trace, report);
	quantiles(out, "polls", &report->polls);
	number(out, "polls_open", report->polls_open);
	number(out, "polls_end_unproven", report->polls_end_unproven);
	number(out, "polls_with_gap", report->polls_with_gap);
	quantiles(out, "delays", &report->delays);
	number(out, "delays_no_wake", report->delays_no_wake);
	number(out, "delays_withheld", report->delays_withheld);
	number(out, "polls_counted", report->polls_counted);
	number(out, "delays_counted", report->delays_counted);
	number(out, "blocking_counted", report->blocking_counted);
	number(out, "wakes_counted", report->wakes_counted);
	number(out, "parks_counted", report->parks_counted);
	retention(out, trace);
	quantiles(out, "blocking", &report->blocking);
	worst(out, trace, "worst_polls", report->worst_polls, report->worst_poll_count);
	worst(out, trace, "worst_delays", report->worst_delays, report->worst_delay_count);
	report_groups(out, trace, report);
	losses(out, trace);
	if (profile) {
		key(out, "profile");
		ky_stack_profile_json(out, trace, profile);
	}
	ky_text(out, "}\n");
}
