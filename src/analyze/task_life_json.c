/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/task_life.h>
#include <analyze/wake_cause.h>

#include <base/json_write.h>
#include <base/text.h>
#include <read/spawns.h>
#include <string.h>

#define SUBMITTERS_MAX 16u

static void put_name(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		     uint32_t name)
{
	if (name == KY_NONE)
		ky_json_null(out, key);
	else
		ky_json_text(out, key, ky_trace_name(trace, name));
}

static void put_task(struct ky_buf *out, const char *key, const char *site_key,
		     const struct ky_trace *trace, uint32_t task)
{
	const bool is_known = task < trace->task_count;

	ky_json_number_or_null(out, key, is_known, is_known ? trace->tasks[task].id : 0);
	put_name(out, site_key, trace, is_known ? trace->tasks[task].name : KY_NONE);
}

static void put_wake(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_life_event *event, const struct ky_code_stacks *stacks)
{
	struct ky_wake_cause cause;
	const char *origin;
	struct ky_wake wake;

	ky_trace_wake(trace, event->worker, event->row, &wake);
	origin = ky_wake_origin_text(&wake);
	cause = ky_wake_cause_of(stacks, &wake);
	put_task(out, "waker", "waker_site", trace, wake.waker);
	ky_json_number(out, "worker", trace->workers[event->worker].id);
	if (origin)
		ky_json_text(out, "origin", origin);
	else
		ky_json_null(out, "origin");
	ky_wake_cause_json(out, &cause, ky_wake_descriptor(trace, &wake, cause));
	ky_json_number_or_null(out, "tid", wake.tid != 0, wake.tid);
	ky_json_flag(out, "is_in_own_poll", event->is_in_own_poll);
	ky_json_flag(out, "is_redundant", event->is_redundant);
}

static void put_poll(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_life_event *event)
{
	const struct ky_trace_poll_cost *cost;
	struct ky_poll poll;

	ky_trace_poll(trace, event->worker, event->row, &poll);
	cost = ky_trace_poll_cost(trace, event->worker, poll.start_ns);
	ky_json_number(out, "duration_ns", poll.duration_ns);
	ky_json_number_or_null(out, "delay_ns", poll.delay_ns != UINT64_MAX, poll.delay_ns);
	ky_json_number(out, "worker", trace->workers[event->worker].id);
	ky_json_number_or_null(out, "cpu_ns", cost != NULL, cost ? cost->cpu_ns : 0);
	ky_json_flag(out, "is_open", (poll.flags & KY_POLL_OPEN) != 0);
	ky_json_flag(out, "is_unproven", (poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP)) != 0);
}

static void put_sample(struct ky_buf *out, const struct ky_stack_row *row, bool is_wait,
		       const struct ky_code_stacks *stacks)
{
	const struct ky_code_line *line = NULL;

	if (stacks && row->stack != KY_NONE)
		line = ky_code_own_line(stacks, row->stack);
	if (is_wait && !ky_place_has_time(row) && !(row->flags & KY_ROW_WAITS))
		ky_json_null(out, "duration_ns");
	else
		ky_json_number(out, "duration_ns", row->value);
	ky_json_key(out, "function");
	if (line)
		ky_json_string(out, line->name, strlen(line->name));
	else
		ky_text(out, "null");
	if (line && line->file[0]) {
		ky_json_text(out, "file", line->file);
		ky_json_number(out, "line", line->line);
	}
	if (is_wait)
		ky_json_flag(out, "is_waiting", (row->flags & KY_ROW_WAITS) != 0);
	else
		ky_json_number(out, "runnable_ns", row->runnable_min_ns);
}

static void put_run(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_blocking_run *run, bool is_awaited)
{
	ky_json_number(out, "duration_ns", run->duration_ns);
	ky_json_number_or_null(out, "wait_ns", run->wait_ns != UINT64_MAX, run->wait_ns);
	ky_json_number(out, "tid", run->tid);
	if (is_awaited)
		put_task(out, "task", "site", trace, run->task);
	else if (run->waiter != KY_NONE)
		put_task(out, "waiter", "waiter_site", trace, run->waiter);
}

static void put_event(struct ky_buf *out, const struct ky_task_life *life,
		      const struct ky_life_event *event, const struct ky_code_stacks *stacks)
{
	const struct ky_trace *trace = life->trace;
	const struct ky_trace_loss *loss;

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "time_ns", event->time_ns);
	ky_json_text(out, "kind", ky_life_kind_key(event->kind));
	switch (event->kind) {
	case KY_LIFE_WAKE:
		put_wake(out, trace, event, stacks);
		break;
	case KY_LIFE_POLL:
		put_poll(out, trace, event);
		break;
	case KY_LIFE_CHILD:
		put_task(out, "task", "site", trace, event->index);
		break;
	case KY_LIFE_RUN:
	case KY_LIFE_AWAITED:
		put_run(out, trace, &trace->blocking_runs[event->index],
			event->kind == KY_LIFE_AWAITED);
		break;
	case KY_LIFE_OFF_CPU:
	case KY_LIFE_WAIT:
		put_sample(out, &trace->samples.rows[event->index], event->kind == KY_LIFE_WAIT,
			   stacks);
		break;
	case KY_LIFE_LOSS:
		loss = &trace->losses[event->index];
		ky_json_number(out, "to_ns", loss->to_ns);
		ky_json_number(out, "records", loss->record_count);
		put_name(out, "cause", trace, loss->cause);
		break;
	default:
		break;
	}
	ky_json_close(out, "}");
}

/* Absent where nothing is known of it. */
static void put_spawn(struct ky_buf *out, const struct ky_trace *trace, uint32_t task)
{
	const struct ky_spawn *spawn = ky_trace_spawn(trace, task);
	uint32_t list[SUBMITTERS_MAX], count;

	if (!spawn)
		return;
	count = ky_trace_submitters(trace, task, list, SUBMITTERS_MAX);
	ky_json_open(out, "spawn", "{");
	ky_json_number(out, "from_ns", spawn->from_ns);
	ky_json_number(out, "to_ns", spawn->to_ns);
	ky_json_number(out, "polls", spawn->polls);
	ky_json_number(out, "closures", spawn->runs);
	ky_json_flag(out, "is_place_unseen", spawn->is_place_unseen);
	ky_json_open(out, "by", "[");
	for (uint32_t i = 0; i < count; i++) {
		ky_json_open(out, NULL, "{");
		put_task(out, "task", "site", trace, list[i]);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

void ky_task_life_json(struct ky_buf *out, const struct ky_task_life *life, uint64_t limit,
		       const struct ky_code_stacks *stacks)
{
	const struct ky_trace *trace = life->trace;
	const struct ky_task *task = &trace->tasks[life->task];

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "task", task->id);
	put_name(out, "site", trace, task->name);
	put_task(out, "parent", "parent_site", trace, task->parent);
	ky_json_number(out, "first_ns", task->first_ns);
	put_spawn(out, trace, life->task);
	ky_json_flag(out, "is_spawn_seen", (task->flags & KY_TASK_SPAWN_SEEN) != 0);
	ky_json_number_or_null(out, "end_ns", task->end_ns != 0, task->end_ns);
	ky_json_number(out, "polls", task->poll_count);
	ky_json_number(out, "wakes", task->wake_count);
	ky_json_number(out, "busy_ns", task->busy_ns);
	ky_json_number(out, "poll_max_ns", task->poll_max_ns);
	ky_json_number(out, "delay_ns", task->delay_ns);
	ky_json_number(out, "event_count", life->count);
	ky_json_open(out, "events", "[");
	for (uint32_t i = 0; i < life->count && (!limit || i < limit); i++)
		put_event(out, life, &life->events[i], stacks);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}
