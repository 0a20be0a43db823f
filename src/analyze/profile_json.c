/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <analyze/stack_profile.h>
#include <base/text.h>
#include <string.h>

/* A trace of long names and deep stacks must not become a text without end. */
#define STACK_LINES_MAX 64u
#define CODE_TEXT_MAX 1024u

static const char *const kind_names[KY_STACK_KINDS] = {"cpu",         "off_cpu",  "await_places",
						       "allocations", "switches", "frees"};

static void code_text(struct ky_buf *out, const char *name, const char *value)
{
	size_t count = strlen(value);

	ky_json_key(out, name);
	ky_json_string(out, value, count < CODE_TEXT_MAX ? count : CODE_TEXT_MAX);
}

static void task(struct ky_buf *out, const struct ky_trace *trace, const char *name, uint32_t index)
{
	ky_json_number_or_null(out, name, index != KY_NONE,
			       index != KY_NONE ? trace->tasks[index].id : 0);
}

static void kind(struct ky_buf *out, const struct ky_trace *trace, uint32_t name)
{
	if (name == KY_NONE)
		ky_json_number_or_null(out, "name", false, 0);
	else
		ky_json_text(out, "name", ky_trace_name(trace, name));
}

static void line(struct ky_buf *out, const struct ky_code_line *code)
{
	ky_json_open(out, NULL, "{");
	code_text(out, "function", code->name);
	if (*code->file) {
		code_text(out, "file", code->file);
		ky_json_number(out, "line", code->line);
	}
	ky_text(out, "}");
}

static void stack_lines(struct ky_buf *out, const struct ky_stack_profile *profile, uint32_t stack)
{
	const struct ky_code_line *code = ky_code_own_line(&profile->code, stack);
	struct ky_code_walk walk;
	uint32_t count = 0;

	if (code)
		code_text(out, "where", code->name);
	ky_json_open(out, "stack", "[");
	ky_code_walk_begin(&walk, &profile->code, stack);
	while (count++ < STACK_LINES_MAX && (code = ky_code_walk_next(&walk)))
		line(out, code);
	ky_text(out, "]");
}

static void share(struct ky_buf *out, const char *name, const struct ky_share *value)
{
	ky_json_open(out, name, "{");
	ky_json_number(out, "ppm", value->ppm);
	ky_json_number(out, "low_ppm", value->low_ppm);
	ky_json_number(out, "high_ppm", value->high_ppm);
	ky_text(out, "}");
}

static void cpu(struct ky_buf *out, const struct ky_trace *trace,
		const struct ky_stack_profile *profile, const char *name,
		const struct ky_stack_profile_cpu *part, bool is_kind)
{
	uint32_t i;

	ky_json_open(out, name, "{");
	if (is_kind)
		kind(out, trace, part->name);
	ky_json_number(out, "samples", part->all.count);
	ky_json_number_or_null(out, "cpu_ns", profile->is_by_time, ky_whole(part->all.sum));
	if (part != &profile->cpu)
		share(out, "share", &part->share);
	ky_json_number(out, "truncated", part->truncated_count);
	ky_json_number(out, "without_stack", part->stackless_count);
	ky_json_number(out, "functions_seen", part->function_total);
	ky_json_open(out, "functions", "[");
	for (i = 0; i < part->function_count; i++) {
		const struct ky_stack_profile_function *function = &part->functions[i];
		const struct ky_code_line *code =
			&profile->code.lines[profile->code.function_lines[function->function]];

		ky_json_open(out, NULL, "{");
		code_text(out, "function", code->name);
		code_text(out, "file", code->file);
		ky_json_number(out, "self", function->self_count);
		ky_json_number(out, "total", function->total_count);
		ky_json_number_or_null(out, "self_ns", profile->is_by_time,
				       ky_whole(function->self));
		ky_json_number_or_null(out, "total_ns", profile->is_by_time,
				       ky_whole(function->total));
		share(out, "self_share", &function->self_share);
		share(out, "total_share", &function->total_share);
		ky_text(out, "}");
	}
	ky_text(out, "]}");
}

static void total(struct ky_buf *out, const char *name, const struct ky_total *value)
{
	ky_json_open(out, name, "{");
	ky_json_number(out, "count", value->count);
	ky_json_number(out, "estimate", ky_whole(value->sum));
	ky_json_number(out, "margin", ky_whole(ky_total_margin(value)));
	ky_text(out, "}");
}

static void reason(struct ky_buf *out, uint8_t why, uint32_t syscall)
{
	ky_json_text(out, "reason", ky_off_cpu_reason(why));
	ky_json_number_or_null(out, "syscall", syscall != KY_NO_SYSCALL, syscall);
}

static void call_numbers(struct ky_buf *out, const char *name, const uint16_t *list, uint8_t count)
{
	ky_json_open(out, name, "[");
	for (uint32_t i = 0; i < count; i++)
		ky_json_number(out, NULL, list[i]);
	ky_text(out, "]");
}

/* Of calls that were measured, none of it where the kernel reported the interval. */
static void call_facts(struct ky_buf *out, const struct ky_stack_profile_calls *calls)
{
	ky_json_open(out, "calls", "{");
	ky_json_text(out, "fd_kind", ky_fd_kind_name(calls->fd_kind));
	call_numbers(out, "peer_ports", calls->peer_ports, calls->peer_port_count);
	ky_json_flag(out, "has_more_peer_ports", calls->has_more_peer_ports);
	ky_json_number_or_null(out, "local_port", calls->local_port != 0, calls->local_port);
	ky_json_number(out, "failed", calls->failed_count);
	call_numbers(out, "errno", calls->errors, calls->error_count);
	ky_json_flag(out, "has_more_errno", calls->has_more_errors);
	ky_json_number_or_null(out, "bytes", calls->moved_count != 0, calls->moved_bytes);
	ky_text(out, "}");
}

/* They sum to the whole. */
static void parts(struct ky_buf *out, const struct ky_off_cpu_parts *of, double all)
{
	uint64_t blocked = ky_whole(of->blocked), runnable = ky_whole(of->runnable);
	uint64_t whole = ky_whole(all);

	ky_json_number(out, "blocked_ns", blocked);
	ky_json_number(out, "runnable_ns", runnable);
	ky_json_number(out, "blocked_incl_run_queue_ns",
		       whole > blocked + runnable ? whole - blocked - runnable : 0);
}

/* ns: as in the wait's estimate. */
static void wakers(struct ky_buf *out, const struct ky_trace *trace,
		   const struct ky_stack_profile_wait *wait)
{
	ky_json_number(out, "woken", wait->woken_count);
	ky_json_number(out, "woken_ns", ky_whole(wait->woken_ns));
	ky_json_number(out, "wakers_seen", wait->waker_total);
	ky_json_open(out, "wakers", "[");
	for (uint32_t i = 0; i < wait->waker_count; i++) {
		const struct ky_stack_profile_waker *waker = &wait->wakers[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "by",
			     waker->by == KY_ROW_WOKEN_BY_THREAD ? "thread" : "interrupt");
		ky_json_number(out, "count", waker->count);
		ky_json_number(out, "ns", ky_whole(waker->ns));
		if (waker->thread != KY_NONE)
			ky_json_text(out, "thread", ky_trace_name(trace, waker->thread));
		else
			ky_json_number_or_null(out, "thread", false, 0);
		ky_json_number_or_null(out, "tid", waker->tid != 0, waker->tid);
		ky_json_number_or_null(out, "pid", waker->pid != 0, waker->pid);
		ky_json_flag(out, "is_own", waker->is_own);
		ky_json_flag(out, "in_task", waker->is_task);
		task(out, trace, "task", waker->task);
		kind(out, trace, waker->kind);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void waits(struct ky_buf *out, const struct ky_trace *trace,
		  const struct ky_stack_profile *profile)
{
	double low, high;
	uint32_t i;

	ky_json_open(out, "off_cpu", "{");
	ky_stack_profile_off_cpu_interval(profile, &low, &high);
	total(out, "ns", &profile->off_cpu);
	ky_json_number(out, "low_ns", ky_whole(low));
	ky_json_number(out, "high_ns", ky_whole(high));
	ky_json_number(out, "seen_ns", ky_whole(profile->off_cpu_seen_ns));
	parts(out, &profile->off_cpu_parts, profile->off_cpu.sum);
	ky_json_open(out, "switches", "{");
	ky_json_number(out, "observed_ns", profile->switches_observed_ns);
	ky_json_number(out, "stretch_ns", profile->switches_stretch_ns);
	ky_json_number(out, "lost_records", profile->switches_lost_count);
	ky_json_number(out, "waits", profile->wake_wait_count);
	ky_json_number(out, "waits_without_wake_up", profile->wake_unknown_count);
	ky_text(out, "}");
	ky_json_number(out, "stacks_seen", profile->wait_total);
	ky_json_open(out, "stacks", "[");
	for (i = 0; i < profile->wait_count; i++) {
		const struct ky_stack_profile_wait *wait = &profile->waits[i];

		ky_json_open(out, NULL, "{");
		reason(out, wait->reason, wait->syscall);
		total(out, "ns", &wait->ns);
		call_facts(out, &wait->calls);
		parts(out, &wait->parts, wait->ns.sum);
		ky_json_number(out, "seen_ns", wait->seen_ns);
		ky_json_number(out, "max_ns", wait->max_ns);
		ky_json_number(out, "max_at_ns", wait->max_at_ns);
		task(out, trace, "max_task", wait->max_task);
		wakers(out, trace, wait);
		stack_lines(out, profile, wait->stack);
		ky_text(out, "}");
	}
	ky_text(out, "]}");
}

static void places(struct ky_buf *out, const struct ky_trace *trace,
		   const struct ky_stack_profile *profile)
{
	uint32_t i;

	ky_json_open(out, "waiting", "{");
	ky_json_number(out, "tasks", profile->waiting_count);
	ky_json_number(out, "ns", profile->waited_ns);
	ky_json_number(out, "unknown_ns", profile->waited_ns - profile->waited_known_ns);
	ky_json_open(out, "kinds", "[");
	for (i = 0; i < profile->waiting_kind_count; i++) {
		const struct ky_waiting_kind *kind = &profile->waiting_kinds[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name",
			     kind->name == KY_NONE ? "" : ky_trace_name(trace, kind->name));
		ky_json_number(out, "tasks", kind->task_count);
		ky_json_number(out, "ns", kind->ns);
		ky_json_number(out, "unknown_ns", kind->ns - kind->known_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_json_number(out, "places_seen", profile->place_total);
	ky_json_open(out, "places", "[");
	for (i = 0; i < profile->place_count; i++) {
		const struct ky_stack_profile_place *place = &profile->places[i];
		bool any = place->task_count + place->also_count > 0;

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tasks", place->task_count);
		ky_json_number(out, "tasks_counted_elsewhere", place->also_count);
		ky_json_number_or_null(out, "since_ns", any, place->since_ns);
		task(out, trace, "since_task", any ? place->since_task : KY_NONE);
		ky_json_number_or_null(out, "known_since_ns", place->known_ns != 0,
				       place->known_ns);
		total(out, "ns", &place->ns);
		ky_json_number(out, "ns_counted_elsewhere", place->also_ns);
		ky_json_number(out, "captures_without_end", place->unsafe_count);
		stack_lines(out, profile, place->stack);
		ky_text(out, "}");
	}
	ky_text(out, "]}");
}

/* The interval of a total that is far from a normal one when few were seen. */
static void leaning_total(struct ky_buf *out, const char *name, const struct ky_total *value)
{
	double low, high;

	ky_total_interval(value, &low, &high);
	ky_json_open(out, name, "{");
	ky_json_number(out, "count", value->count);
	ky_json_number(out, "estimate", ky_whole(value->sum));
	ky_json_number(out, "margin", ky_whole(ky_total_margin(value)));
	ky_json_number(out, "low", ky_whole(low));
	ky_json_number(out, "high", ky_whole(high));
	ky_text(out, "}");
}

static void heap_part(struct ky_buf *out, const struct ky_stack_profile_heap *part)
{
	double growth = part->growth.sum;

	ky_json_number(out, "samples", part->count);
	leaning_total(out, "bytes", &part->bytes);
	leaning_total(out, "live_bytes", &part->live_bytes);
	leaning_total(out, "allocations", &part->allocations);
	leaning_total(out, "live_allocations", &part->live_allocations);
	ky_json_open(out, "growth", "{");
	ky_json_number(out, "count", part->growth.count);
	ky_json_signed(out, "estimate",
		       growth < 0.0 ? -(int64_t)ky_whole(-growth) : (int64_t)ky_whole(growth));
	ky_json_number(out, "margin", ky_whole(ky_total_margin(&part->growth)));
	ky_text(out, "}");
	ky_json_open(out, "live_at", "[");
	for (uint32_t i = 0; i <= KY_HEAP_PARTS; i++)
		ky_json_number(out, NULL, ky_whole(part->live_at[i]));
	ky_text(out, "]");
}

static void heap(struct ky_buf *out, const struct ky_stack_profile *profile)
{
	uint32_t i;

	ky_json_open(out, "memory", "{");
	ky_json_flag(out, "weighted", profile->is_heap_weighted);
	heap_part(out, &profile->heap_all);
	ky_json_open(out, "points_ns", "[");
	for (i = 0; i <= KY_HEAP_PARTS; i++)
		ky_json_number(out, NULL, profile->heap_points[i]);
	ky_text(out, "]");
	ky_json_number(out, "stacks_seen", profile->heap_total);
	ky_json_open(out, "stacks", "[");
	for (i = 0; i < profile->heap_count; i++) {
		ky_json_open(out, NULL, "{");
		heap_part(out, &profile->heap[i]);
		stack_lines(out, profile, profile->heap[i].stack);
		ky_text(out, "}");
	}
	ky_text(out, "]}");
}

static void worst(struct ky_buf *out, const struct ky_trace *trace,
		  const struct ky_stack_profile *profile)
{
	uint32_t i, k;

	ky_json_open(out, "worst_polls", "[");
	for (i = 0; i < profile->worst_count; i++) {
		const struct ky_stack_profile_poll *poll = &profile->worst[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "start_ns", poll->poll.start_ns);
		ky_json_number(out, "duration_ns", poll->poll.duration_ns);
		task(out, trace, "task", poll->poll.task);
		ky_json_number(out, "samples", poll->cpu_count);
		ky_json_number_or_null(out, "cpu_ns", profile->is_by_time, ky_whole(poll->cpu));
		ky_json_open(out, "cpu", "[");
		for (k = 0; k < poll->cpu_row_count; k++) {
			ky_json_open(out, NULL, "{");
			ky_json_number(out, "samples", poll->cpu_rows[k].count);
			stack_lines(out, profile, poll->cpu_rows[k].stack);
			ky_text(out, "}");
		}
		ky_text(out, "]");
		ky_json_number(out, "off_cpu_intervals", poll->off_count);
		ky_json_number(out, "off_cpu_ns", poll->off_ns);
		ky_json_number(out, "preempted_ns", poll->preempted_ns);
		ky_json_number(out, "page_fault_ns", poll->fault_ns);
		ky_json_open(out, "off_cpu", "[");
		for (k = 0; k < poll->off_row_count; k++) {
			ky_json_open(out, NULL, "{");
			reason(out, poll->off_rows[k].reason, poll->off_rows[k].syscall);
			ky_json_number(out, "count", poll->off_rows[k].count);
			ky_json_number(out, "ns", poll->off_rows[k].ns);
			call_facts(out, &poll->off_rows[k].calls);
			parts(out, &poll->off_rows[k].parts, (double)poll->off_rows[k].ns);
			stack_lines(out, profile, poll->off_rows[k].stack);
			ky_text(out, "}");
		}
		ky_text(out, "]}");
	}
	ky_text(out, "]");
}

/* CPU time that the samples do not stand for. */
static void cover(struct ky_buf *out, const struct ky_cpu_cover *of)
{
	if (!of->to_ns)
		return;
	ky_json_open(out, "cover", "{");
	ky_json_number(out, "from_ns", of->from_ns);
	ky_json_number(out, "to_ns", of->to_ns);
	ky_json_number(out, "used_ns", of->used_ns);
	ky_json_number(out, "sampled_ns", of->sampled_ns);
	ky_json_number(out, "margin_ns", of->margin_ns);
	ky_json_number(out, "missing_ns", ky_cpu_cover_missing_ns(of));
	ky_json_flag(out, "user_only", of->is_user_only);
	ky_text(out, "}");
}

static void unseen(struct ky_buf *out, const struct ky_stack_profile *profile)
{
	ky_json_open(out, "unseen", "[");
	for (uint32_t i = 0; i < profile->unseen_count; i++) {
		const struct ky_unseen *part = &profile->unseen[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "part", kind_names[part->kind]);
		ky_json_text(out, "what", part->what);
		ky_json_text(out, "why", part->why);
		if (part->command)
			ky_json_text(out, "command", part->command);
		else
			ky_json_number_or_null(out, "command", false, 0);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

void ky_stack_profile_json(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_stack_profile *profile)
{
	uint32_t i;

	ky_text(out, "{");
	ky_json_open(out, "samples", "{");
	for (i = 0; i < KY_STACK_FREE; i++)
		ky_json_number(out, kind_names[i], profile->counts[i]);
	ky_text(out, "}");
	ky_json_open(out, "lost", "{");
	for (i = 0; i < KY_STACK_SWITCH; i++)
		ky_json_number(out, kind_names[i], profile->lost[i]);
	ky_text(out, "}");
	ky_json_open(out, "withheld", "[");
	for (i = 0; i < KY_STACK_SWITCH; i++)
		if (ky_stack_profile_is_withheld(profile, (enum ky_stack_kind)i))
			ky_json_text(out, NULL, kind_names[i]);
	ky_text(out, "]");
	unseen(out, profile);
	cover(out, &profile->cover);
	ky_json_flag(out, "by_time", profile->is_by_time);
	ky_json_number(out, "long_poll_ns", profile->long_poll_ns);
	cpu(out, trace, profile, "cpu", &profile->cpu, false);
	cpu(out, trace, profile, "in_long_polls", &profile->long_polls, false);
	ky_json_number(out, "in_unsafe_long_polls", profile->long_unsafe_count);
	ky_json_open(out, "kinds", "[");
	for (i = 0; i < profile->kind_count; i++)
		cpu(out, trace, profile, NULL, &profile->kinds[i], true);
	ky_text(out, "]");
	waits(out, trace, profile);
	places(out, trace, profile);
	heap(out, profile);
	worst(out, trace, profile);
	ky_text(out, "}");
}
