/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/why.h>

#include <analyze/chain.h>
#include <analyze/wake_cause.h>
#include <analyze/what_if.h>
#include <base/json_write.h>

static void put_sums(struct ky_buf *out, const uint64_t sums[KY_PARTS])
{
	ky_json_open(out, "parts", "{");
	for (uint32_t part = 0; part < KY_PARTS; part++)
		if (sums[part])
			ky_json_number(out, ky_part_key(part), sums[part]);
	ky_json_close(out, "}");
}

static void put_name(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		     uint32_t name)
{
	if (name == KY_NONE)
		ky_json_null(out, key);
	else
		ky_json_text(out, key, ky_trace_name(trace, name));
}

static void put_worker(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		       uint32_t worker)
{
	ky_json_number_or_null(out, key, worker != KY_NONE,
			       worker != KY_NONE ? trace->workers[worker].id : 0);
}

static void put_poll(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		     const struct ky_poll *poll)
{
	ky_json_open(out, key, "{");
	ky_json_number(out, "task", trace->tasks[poll->task].id);
	put_name(out, "name", trace, trace->tasks[poll->task].name);
	ky_json_number(out, "start_ns", poll->start_ns);
	ky_json_number(out, "duration_ns", poll->duration_ns);
	ky_json_close(out, "}");
}

static void put_part(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_delay_part *part)
{
	struct ky_poll poll;

	ky_json_open(out, NULL, "{");
	ky_json_text(out, "part", ky_part_key(part->part));
	ky_json_number(out, "ns", part->ns);
	put_worker(out, "worker", trace, part->worker);
	if (part->poll_row != KY_NO_ROW) {
		ky_trace_poll(trace, part->worker, part->poll_row, &poll);
		put_poll(out, "poll", trace, &poll);
	}
	ky_json_close(out, "}");
}

static void put_known(struct ky_buf *out, const char *key, uint64_t ns)
{
	ky_json_number_or_null(out, key, ns != UINT64_MAX, ns);
}

static void put_context(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_delay_context *context)
{
	struct ky_poll poll;

	put_known(out, "idle_peer_ns", context->idle_peer_ns);
	put_known(out, "all_busy_ns", context->all_busy_ns);
	ky_json_number(out, "redundant_wakes", context->redundant_count);
	put_known(out, "timer_late_max_ns", context->timer_late_ns);
	put_known(out, "worker_queue_max", context->worker_queue);
	put_known(out, "runtime_queue_max", context->runtime_queue);
	put_known(out, "driver_gap_ns", context->driver_gap_ns);
	if (context->gap_worker == KY_NONE)
		return;
	ky_trace_poll(trace, context->gap_worker, context->gap_poll_row, &poll);
	put_poll(out, "driver_gap_poll", trace, &poll);
}

/* The wake that made the task ready; absent where it is not known. */
static void put_wake(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_code_stacks *code, const struct ky_wake *wake)
{
	struct ky_wake_cause cause;

	if (!wake->time_ns)
		return;
	ky_json_open(out, "woken_by", "{");
	ky_json_number(out, "time_ns", wake->time_ns);
	put_worker(out, "worker", trace, wake->worker);
	if (wake->waker != KY_NONE) {
		ky_json_number(out, "task", trace->tasks[wake->waker].id);
		put_name(out, "name", trace, trace->tasks[wake->waker].name);
	}
	if (wake->tid)
		ky_json_number(out, "thread", wake->tid);
	cause = ky_wake_cause_of(code, wake);
	if (cause.kind != KY_WAKE_UNKNOWN)
		ky_wake_cause_json(out, &cause, ky_wake_descriptor(trace, wake, cause));
	ky_json_close(out, "}");
}

static void put_delay(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_code_stacks *code, const struct ky_delay *delay,
		      const struct ky_delay_context *context)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "task", trace->tasks[delay->poll.task].id);
	put_name(out, "name", trace, trace->tasks[delay->poll.task].name);
	ky_json_number(out, "ready_ns", delay->ready_ns);
	ky_json_number(out, "delay_ns", delay->delay_ns);
	put_worker(out, "worker", trace, delay->poll.worker);
	put_worker(out, "home", trace, delay->home);
	ky_json_flag(out, "moved", delay->is_moved);
	ky_json_number_or_null(out, "steal_ns", delay->steal_ns != 0, delay->steal_ns);
	ky_json_number(out, "moved_ambiguous_ns", delay->ambiguous_ns);
	ky_json_number(out, "steals", delay->steal_count);
	put_wake(out, trace, code, &delay->wake);
	put_context(out, trace, context);
	put_sums(out, delay->sums);
	ky_json_open(out, "timeline", "[");
	for (uint32_t i = 0; i < delay->part_count; i++)
		put_part(out, trace, &delay->parts[i]);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

static void put_own(struct ky_buf *out, const struct ky_trace *trace, const struct ky_own_poll *own)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "task", trace->tasks[own->poll.task].id);
	put_name(out, "name", trace, trace->tasks[own->poll.task].name);
	put_worker(out, "worker", trace, own->poll.worker);
	ky_json_number(out, "start_ns", own->poll.start_ns);
	ky_json_number(out, "duration_ns", own->poll.duration_ns);
	ky_json_open(out, "parts", "{");
	for (uint32_t part = 0; part < KY_OWN_PARTS; part++)
		if (own->sums[part])
			ky_json_number(out, ky_own_part_key(part), own->sums[part]);
	ky_json_close(out, "}");
	ky_json_close(out, "}");
}

static void put_group(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_why_group *group)
{
	ky_json_open(out, NULL, "{");
	put_name(out, "victim", trace, group->victim);
	ky_json_number(out, "ns", group->ns);
	ky_json_number(out, "delays", group->delay_count);
	put_sums(out, group->sums);
	if (group->longest.duration_ns)
		put_poll(out, "longest_poll", trace, &group->longest);
	if (group->code) {
		ky_json_open(out, "code", "{");
		ky_json_text(out, "function", group->code->name);
		ky_json_text(out, "file", group->code->file);
		ky_json_number(out, "line", group->code->line);
		ky_json_text(out, "by", group->is_code_off_cpu ? "off_cpu" : "cpu_samples");
		ky_json_number(out, "of", group->code_count);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "}");
}

static void put_span(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_why_span *worst)
{
	const struct ky_trace_span *span = &trace->spans[worst->span];

	ky_json_open(out, "worst_span", "{");
	ky_json_text(out, "name", ky_trace_name(trace, span->name));
	ky_json_number(out, "span", span->id);
	ky_json_number(out, "start_ns", span->start_ns);
	ky_json_number(out, "duration_ns", span->duration_ns);
	ky_chain_json(out, "chain", worst->chain, 0);
	ky_json_close(out, "}");
}

void ky_why_json(struct ky_buf *out, const struct ky_trace *trace, const struct ky_why *why,
		 const struct ky_code_stacks *code, const struct ky_what_if *what_if,
		 const struct ky_why_span *span)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "over_ns", why->over_ns);
	ky_json_number(out, "delays", why->delay_count);
	ky_json_number(out, "slow_delays", why->slow_count);
	ky_json_number(out, "left_out", why->left_out_count);
	ky_json_number(out, "slow_ns", why->slow_ns);
	ky_json_number(out, "moved", why->moved_count);
	ky_json_number(out, "moved_ambiguous_ns", why->ambiguous_ns);
	put_sums(out, why->sums);
	ky_json_open(out, "groups", "[");
	for (uint32_t i = 0; i < why->group_count; i++)
		put_group(out, trace, &why->groups[i]);
	ky_json_close(out, "]");
	ky_json_open(out, "worst", "[");
	for (uint32_t i = 0; i < why->worst_count; i++)
		put_delay(out, trace, code, &why->worst[i], &why->contexts[i]);
	ky_json_close(out, "]");
	ky_json_open(out, "polls", "[");
	for (uint32_t i = 0; i < why->poll_count; i++)
		put_own(out, trace, &why->polls[i]);
	ky_json_close(out, "]");
	if (what_if)
		ky_what_if_json(out, trace, what_if);
	if (span)
		put_span(out, trace, span);
	ky_json_close(out, "}");
}
