/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/task_text.h>

#include <read/spawns.h>
#include <report/syscall_name.h>
#include <report/wake_text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUBMITTERS_MAX 4u

static void put_worker(struct ky_buf *out, const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *known = &trace->workers[worker];

	if (known->is_thread_lane)
		ky_out_format(out, "thread %u", known->tid);
	else
		ky_out_format(out, "worker %" PRIu64, known->id);
}

static void put_function(struct ky_buf *out, const struct ky_code_stacks *stacks,
			 const struct ky_stack_row *row)
{
	const struct ky_code_line *line = NULL;

	if (stacks && row->stack != KY_NONE)
		line = ky_code_own_line(stacks, row->stack);
	if (!line)
		return;
	ky_out_format(out, " in %s", line->name);
	if (line->file[0] && line->line)
		ky_out_format(out, " (%s:%u)", line->file, line->line);
}

/* ---- one line each ---- */

/* Who did it, or may have, and when: "12 us before, by task 3 (..)". */
static void put_submitters(struct ky_buf *out, const struct ky_trace *trace, uint32_t task,
			   const struct ky_spawn *spawn)
{
	uint32_t list[SUBMITTERS_MAX];
	uint32_t named = ky_trace_submitters(trace, task, list, SUBMITTERS_MAX);
	uint32_t count = (uint32_t)spawn->polls + spawn->runs;
	uint64_t first_ns = trace->tasks[task].first_ns;
	char least[KY_OUT_CELL_BYTES], most[KY_OUT_CELL_BYTES];

	if (first_ns > spawn->from_ns)
		ky_out_format(out, " %s to %s before",
			      ky_out_duration(
				      least, first_ns > spawn->to_ns ? first_ns - spawn->to_ns : 0),
			      ky_out_duration(most, first_ns - spawn->from_ns));
	if (!count) {
		ky_out_text(out, ", outside of every poll that is seen");
		return;
	}
	ky_out_text(out, ", by ");
	for (uint32_t i = 0; i < named; i++) {
		if (i)
			ky_out_text(out, i + 1 == named && named == count ? " or " : ", ");
		ky_report_put_task(out, trace, list[i]);
	}
	if (count > named)
		ky_out_format(out, " or one of %u others", count - named);
	if (spawn->is_place_unseen)
		ky_out_text(out, " or by a thread that is not seen");
	if (count > 1 || spawn->is_place_unseen)
		ky_out_text(out, ", which ran at the same time");
}

static void spawn_line(struct ky_buf *out, const struct ky_trace *trace, const struct ky_task *task)
{
	uint32_t index = (uint32_t)(task - trace->tasks);
	const struct ky_spawn *spawn = ky_trace_spawn(trace, index);

	if (spawn && !(task->flags & (KY_TASK_SPAWN_SEEN | KY_TASK_LIVE_AT_START))) {
		ky_out_text(out, task->flags & KY_TASK_BLOCKING ? "began to run; submitted" :
								  "seen first; spawned");
		put_submitters(out, trace, index, spawn);
		return;
	}
	if (task->flags & KY_TASK_SPAWN_SEEN)
		ky_out_text(out, "spawned");
	else
		ky_out_text(out, task->flags & KY_TASK_LIVE_AT_START ?
					 "lived when the recording began" :
					 "seen first; its spawn is not in the trace");
	if (task->parent != KY_NONE) {
		ky_out_text(out, " by ");
		ky_report_put_task(out, trace, task->parent);
	}
}

static void wake_line(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_life_event *event, const struct ky_code_stacks *stacks)
{
	const struct ky_report_view view = {.trace = trace, .code = stacks};
	char cause[KY_WAKE_TEXT_BYTES];
	struct ky_wake wake;

	ky_trace_wake(trace, event->worker, event->row, &wake);
	(void)ky_wake_text(cause, &view, &wake);
	ky_out_text(out, "woken by ");
	if (wake.waker != KY_NONE) {
		ky_report_put_task(out, trace, wake.waker);
		if (*cause)
			ky_out_format(out, ", %s", cause);
	} else {
		ky_out_text(out, *cause ? cause : "what is not recorded");
	}
	if (!trace->workers[event->worker].is_shared) {
		ky_out_text(out, ", on ");
		put_worker(out, trace, event->worker);
	}
	if (event->is_in_own_poll)
		ky_out_text(out, ", while it is polled");
	if (event->is_redundant)
		ky_out_text(out, "; it was ready already");
}

static void poll_line(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_life_event *event)
{
	const struct ky_trace_poll_cost *cost;
	char cell[KY_OUT_CELL_BYTES];
	struct ky_poll poll;

	ky_trace_poll(trace, event->worker, event->row, &poll);
	cost = ky_trace_poll_cost(trace, event->worker, poll.start_ns);
	ky_out_format(out, "polled for %s on ", ky_out_duration(cell, poll.duration_ns));
	put_worker(out, trace, event->worker);
	if (poll.delay_ns != UINT64_MAX)
		ky_out_format(out, ", %s after it was ready", ky_out_duration(cell, poll.delay_ns));
	if (cost)
		ky_out_format(out, "; %s of it on CPU", ky_out_duration(cell, cost->cpu_ns));
	if (poll.flags & KY_POLL_OPEN)
		ky_out_text(out, "; still open at the end of the trace");
	else if (poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
		ky_out_text(out, "; its end is not proven");
}

static void off_cpu_line(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_stack_row *row, const struct ky_code_stacks *stacks)
{
	const char *call = row->syscall == KY_NO_SYSCALL ? NULL :
							   ky_trace_call_name(trace, row->syscall);
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(out, "  off CPU for %s", ky_out_duration(cell, row->value));
	if (row->reason == KY_WAIT_PREEMPTED)
		ky_out_text(out, ": preempted");
	else if (row->reason == KY_WAIT_FAULT)
		ky_out_text(out, ": page fault");
	else if (call)
		ky_out_format(out, ": %s()", call);
	if (row->runnable_min_ns)
		ky_out_format(out, ", %s of it ready to run",
			      ky_out_duration(cell, row->runnable_min_ns));
	put_function(out, stacks, row);
}

static void wait_line(struct ky_buf *out, const struct ky_stack_row *row,
		      const struct ky_code_stacks *stacks)
{
	char cell[KY_OUT_CELL_BYTES];

	if (row->flags & KY_ROW_WAITS)
		ky_out_format(out, "waits until the end of the trace, for %s",
			      ky_out_duration(cell, row->value));
	else if (row->value && ky_place_has_time(row))
		ky_out_format(out, "waits for %s", ky_out_duration(cell, row->value));
	else
		ky_out_text(out, "waits");
	put_function(out, stacks, row);
}

static void loss_line(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_trace_loss *loss)
{
	char cell[KY_OUT_CELL_BYTES], count[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%s records are missing, over %s (%s)",
		      ky_out_count(count, loss->record_count),
		      ky_out_duration(cell, loss->to_ns - loss->from_ns),
		      ky_trace_name(trace, loss->cause));
}

static void put_line_time(struct ky_buf *out, const struct ky_blocking_run *run)
{
	char cell[KY_OUT_CELL_BYTES];

	if (run->wait_ns != UINT64_MAX)
		ky_out_format(out, ", after at least %s in line",
			      ky_out_duration(cell, run->wait_ns));
}

static void run_line(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_blocking_run *run)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(out, "ran for %s in the blocking pool, on thread %u",
		      ky_out_duration(cell, run->duration_ns), run->tid);
	put_line_time(out, run);
	if (run->waiter == KY_NONE)
		return;
	ky_out_text(out, "; its end woke ");
	ky_report_put_task(out, trace, run->waiter);
}

static void awaited_line(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_blocking_run *run)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "  awaits ");
	ky_report_put_task(out, trace, run->task);
	ky_out_format(out, ", which ran for %s in the blocking pool, on thread %u",
		      ky_out_duration(cell, run->duration_ns), run->tid);
	put_line_time(out, run);
}

static void put_event(struct ky_buf *out, const struct ky_task_life *life,
		      const struct ky_life_event *event, const struct ky_code_stacks *stacks)
{
	const struct ky_trace *trace = life->trace;
	const struct ky_task *task = &trace->tasks[life->task];

	switch (event->kind) {
	case KY_LIFE_SPAWN:
		spawn_line(out, trace, task);
		break;
	case KY_LIFE_WAKE:
		wake_line(out, trace, event, stacks);
		break;
	case KY_LIFE_POLL:
		poll_line(out, trace, event);
		break;
	case KY_LIFE_RUN:
		run_line(out, trace, &trace->blocking_runs[event->index]);
		break;
	case KY_LIFE_AWAITED:
		awaited_line(out, trace, &trace->blocking_runs[event->index]);
		break;
	case KY_LIFE_CHILD:
		ky_out_text(out, "  spawns ");
		ky_report_put_task(out, trace, event->index);
		break;
	case KY_LIFE_OFF_CPU:
		off_cpu_line(out, trace, &trace->samples.rows[event->index], stacks);
		break;
	case KY_LIFE_WAIT:
		wait_line(out, &trace->samples.rows[event->index], stacks);
		break;
	case KY_LIFE_LOSS:
		loss_line(out, trace, &trace->losses[event->index]);
		break;
	default:
		ky_out_text(out, task->flags & KY_TASK_CANCELLED ? "cancelled" : "ended");
	}
}

/* ---- all ---- */

static void put_head(const struct ky_report_view *view, const struct ky_task_life *life)
{
	const struct ky_task *task = &life->trace->tasks[life->task];
	char count[KY_OUT_CELL_BYTES], busy[KY_OUT_CELL_BYTES], longest[KY_OUT_CELL_BYTES];
	char delay[KY_OUT_CELL_BYTES];
	struct ky_buf head, safe;

	ky_buf_init(&head, 0);
	ky_buf_init(&safe, 0);
	ky_report_put_task(&head, life->trace, life->task);
	ky_out_safe(&safe, (const char *)head.bytes, head.used);
	(void)ky_buf_append(&safe, "", 1);
	if (!safe.failed)
		safe.bytes[0] = 'T';
	ky_out_heading(view->out, view->is_coloured, safe.failed ? "" : (const char *)safe.bytes);
	ky_buf_release(&head);
	ky_buf_release(&safe);
	ky_out_format(view->out,
		      "%s polls, %s in all, the longest %s; ready but not polled for %s\n\n",
		      ky_out_count(count, task->poll_count), ky_out_duration(busy, task->busy_ns),
		      ky_out_duration(longest, task->poll_max_ns),
		      ky_out_duration(delay, task->delay_ns));
}

/* A row of the table; several that read alike, as of a select!, are one. */
static void put_row(struct ky_table *table, const struct ky_report_view *view, uint64_t time_ns,
		    struct ky_buf *line, uint32_t alike)
{
	if (alike > 1)
		ky_out_format(line, " (%u of them)", alike);
	(void)ky_buf_append(line, "", 1);
	ky_report_moment_cell(table, view, time_ns);
	ky_table_cell(table, line->failed ? "" : (const char *)line->bytes);
}

static bool is_alike(const struct ky_buf *line, const struct ky_buf *other)
{
	return !line->failed && line->used == other->used &&
	       memcmp(line->bytes, other->bytes, line->used) == 0;
}

void ky_task_text(const struct ky_report_view *view, const struct ky_task_life *life,
		  uint64_t limit, const struct ky_code_stacks *stacks)
{
	const uint64_t shown = limit && limit < life->count ? limit : life->count;
	char count[KY_OUT_CELL_BYTES];
	struct ky_buf line, next;
	struct ky_table table;

	put_head(view, life);
	ky_table_begin(&table, "rl", "Time|What");
	ky_buf_init(&line, 0);
	ky_buf_init(&next, 0);
	for (uint64_t i = 0; i < shown;) {
		const uint64_t time_ns = life->events[i].time_ns;
		uint32_t alike = 0;

		ky_buf_clear(&line);
		put_event(&line, life, &life->events[i], stacks);
		do {
			alike++;
			ky_buf_clear(&next);
			if (++i < shown && life->events[i].time_ns == time_ns)
				put_event(&next, life, &life->events[i], stacks);
		} while (next.used && is_alike(&line, &next));
		put_row(&table, view, time_ns, &line, alike);
	}
	ky_buf_release(&line);
	ky_buf_release(&next);
	ky_table_end(&table, view->out, 0, view->is_coloured);
	if (shown < life->count)
		ky_out_format(view->out, "... and %s more; --from, --to and --limit choose\n",
			      ky_out_count(count, life->count - shown));
}
