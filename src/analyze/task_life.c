/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/task_life.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

struct life_making {
	struct ky_task_life *life;
	const struct ky_task_life_options *options;
	int failed;
};

static void add(struct life_making *making, const struct ky_life_event *event)
{
	struct ky_task_life *life = making->life;

	if (making->failed || event->time_ns < making->options->from_ns ||
	    (making->options->to_ns && event->time_ns >= making->options->to_ns))
		return;
	if (ky_grow(&life->events, &life->capacity, life->count + 1, sizeof(*life->events))) {
		making->failed = -ENOMEM;
		return;
	}
	life->events[life->count++] = *event;
	life->counts[event->kind]++;
}

static void add_plain(struct life_making *making, uint8_t kind, uint64_t time_ns, uint32_t index)
{
	const struct ky_life_event event = {.kind = kind, .time_ns = time_ns, .index = index};

	add(making, &event);
}

static void add_rows(struct life_making *making, uint32_t worker)
{
	const struct ky_worker *known = &making->life->trace->workers[worker];
	const uint32_t task = making->options->task;
	struct ky_life_event event = {.kind = KY_LIFE_POLL, .worker = worker};
	struct ky_cursor cursor;
	bool is_in = ky_cursor_begin(&cursor, &known->polls, 0);

	for (; is_in; is_in = ky_cursor_next(&cursor)) {
		if (((const struct ky_poll_row *)(const void *)cursor.at)->task != task)
			continue;
		event.time_ns = cursor.time_ns;
		event.row = cursor.row;
		add(making, &event);
	}
	event.kind = KY_LIFE_WAKE;
	is_in = ky_cursor_begin(&cursor, &known->wakes, 0);
	for (; is_in; is_in = ky_cursor_next(&cursor)) {
		if (((const struct ky_wake_row *)(const void *)cursor.at)->woken != task)
			continue;
		event.time_ns = cursor.time_ns;
		event.row = cursor.row;
		add(making, &event);
	}
}

static void add_samples(struct life_making *making)
{
	const struct ky_samples *samples = &making->life->trace->samples;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->task != making->options->task)
			continue;
		if (row->kind == KY_STACK_OFF_CPU)
			add_plain(making, KY_LIFE_OFF_CPU, row->time_ns, i);
		else if (row->kind == KY_STACK_PLACE)
			add_plain(making, KY_LIFE_WAIT, row->time_ns, i);
	}
}

static void add_tables(struct life_making *making)
{
	const struct ky_trace *trace = making->life->trace;
	const struct ky_task *task = &trace->tasks[making->options->task];

	add_plain(making, KY_LIFE_SPAWN, task->first_ns, 0);
	if (task->end_ns)
		add_plain(making, KY_LIFE_END, task->end_ns, 0);
	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];

		if (run->task == making->options->task)
			add_plain(making, KY_LIFE_RUN, run->start_ns, i);
		else if (run->waiter == making->options->task)
			add_plain(making, KY_LIFE_AWAITED, run->start_ns, i);
	}
	for (uint32_t i = 0; i < trace->task_count; i++)
		if (trace->tasks[i].parent == making->options->task)
			add_plain(making, KY_LIFE_CHILD, trace->tasks[i].first_ns, i);
	for (uint32_t i = 0; i < trace->loss_count; i++)
		if (trace->losses[i].to_ns >= task->first_ns &&
		    (!task->end_ns || trace->losses[i].from_ns <= task->end_ns))
			add_plain(making, KY_LIFE_LOSS, trace->losses[i].from_ns, i);
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_life_event *one = a, *other = b;

	(void)ctx;
	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns;
	if (one->kind != other->kind)
		return one->kind < other->kind;
	if (one->worker != other->worker)
		return one->worker < other->worker;
	return one->row != other->row ? one->row < other->row : one->index < other->index;
}

/* Wakes between a wake and the poll that it led to change nothing. */
static void mark_wakes(struct ky_task_life *life)
{
	uint64_t poll_end_ns = 0;
	bool is_ready = false;
	struct ky_poll poll;

	for (uint32_t i = 0; i < life->count; i++) {
		struct ky_life_event *event = &life->events[i];

		if (event->kind == KY_LIFE_POLL) {
			ky_trace_poll(life->trace, event->worker, event->row, &poll);
			poll_end_ns = event->time_ns + poll.duration_ns;
			is_ready = false;
		} else if (event->kind == KY_LIFE_WAKE) {
			event->is_in_own_poll = event->time_ns < poll_end_ns;
			event->is_redundant = is_ready;
			is_ready = true;
		} else if (event->kind == KY_LIFE_LOSS) {
			is_ready = false; /* what is missing may have been its poll */
		}
	}
}

int ky_task_life_make(struct ky_task_life **out, const struct ky_trace *trace,
		      const struct ky_task_life_options *options)
{
	struct life_making making = {.options = options};

	*out = NULL;
	making.life = ky_alloc(sizeof(*making.life));
	if (!making.life)
		return -ENOMEM;
	making.life->trace = trace;
	making.life->task = options->task;
	add_tables(&making);
	add_samples(&making);
	for (uint32_t i = 0; i < trace->worker_count; i++)
		add_rows(&making, i);
	if (making.failed) {
		ky_task_life_free(making.life);
		return making.failed;
	}
	ky_sort(making.life->events, making.life->count, sizeof(*making.life->events), is_before,
		NULL);
	mark_wakes(making.life);
	*out = making.life;
	return 0;
}

void ky_task_life_free(struct ky_task_life *life)
{
	if (!life)
		return;
	ky_free(life->events);
	ky_free(life);
}

const char *ky_life_kind_key(uint32_t kind)
{
	static const char *const keys[KY_LIFE_KINDS] = {
		[KY_LIFE_SPAWN] = "spawn",     [KY_LIFE_LOSS] = "loss",
		[KY_LIFE_WAKE] = "wake",       [KY_LIFE_POLL] = "poll",
		[KY_LIFE_RUN] = "run",         [KY_LIFE_AWAITED] = "awaited_run",
		[KY_LIFE_CHILD] = "spawned",   [KY_LIFE_WAIT] = "wait",
		[KY_LIFE_OFF_CPU] = "off_cpu", [KY_LIFE_END] = "end",
	};

	return kind < KY_LIFE_KINDS ? keys[kind] : "";
}
