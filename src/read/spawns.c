/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/spawns.h>

#include <read/load.h>

#define LIST_MAX (1u << 24)
#define UNSEEN_SHARE 16u
#define NAMED_MAX 64u
#define OPEN_MAX 1024u /* windows that have one id; with more its submitter is not known */

/* Over tasks in the order of their ids. */
struct sweep {
	struct ky_trace *trace;
	uint32_t *open;  /* windows */
	uint32_t *marks; /* of a window: the last task with a window inside of it */
	uint32_t open_count, next;
	uint64_t over_ns;    /* the ids from here on were given out after that */
	uint64_t crowded_id; /* up to this one there may be more windows than are open */
};

static uint64_t copy_of(uint64_t id)
{
	return id >> KY_TASK_COPY_SHIFT;
}

bool ky_load_spawn_window(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint64_t count = ky_frame_number(frame, KY_F_SPAWN_WINDOW_given_count, 0);
	struct ky_spawn_window window = {
		.begin_ns = ky_frame_number(frame, KY_F_SPAWN_WINDOW_begin_ns, 0),
		.end_ns = frame->timestamp_ns,
		.first_id = ky_frame_number(frame, KY_F_SPAWN_WINDOW_first_id, 0),
		.worker_id = ky_frame_number(frame, KY_F_SPAWN_WINDOW_worker_id, KY_ID_UNKNOWN),
		.tid = (uint32_t)ky_frame_number(frame, KY_F_SPAWN_WINDOW_tid, 0),
	};
	uint64_t task_id = ky_frame_number(frame, KY_F_SPAWN_WINDOW_task_id, 0);

	/* From elsewhere: what contradicts itself says nothing. */
	if (trace->spawn_window_count == LIST_MAX || !count || !task_id || !window.first_id ||
	    count - 1 > UINT64_MAX - window.first_id || window.begin_ns > window.end_ns)
		return true;
	window.last_id = window.first_id + (count - 1);
	window.task = ky_load_task(load, task_id, window.begin_ns);
	if (window.task == UINT32_MAX || trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->spawn_windows, &trace->spawn_window_capacity,
			    trace->spawn_window_count + 1, sizeof(window)))
		return false;
	trace->spawn_windows[trace->spawn_window_count++] = window;
	return true;
}

static bool is_window_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_spawn_window *a = first, *b = second;

	(void)ctx;
	if (a->first_id != b->first_id)
		return a->first_id < b->first_id;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns;
	return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : a->tid < b->tid;
}

static bool is_id_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_trace *trace = ctx;

	return trace->tasks[*(const uint32_t *)first].id <
	       trace->tasks[*(const uint32_t *)second].id;
}

static bool is_run(const struct ky_trace *trace, const struct ky_spawn_window *window)
{
	return (trace->tasks[window->task].flags & KY_TASK_BLOCKING) != 0;
}

/* That of a poll before that of a closure, which seldom spawns; then the shortest. */
static bool is_better(const struct ky_trace *trace, uint32_t window, uint32_t than)
{
	const struct ky_spawn_window *a = &trace->spawn_windows[window], *b;

	if (than == KY_NONE)
		return true;
	b = &trace->spawn_windows[than];
	if (is_run(trace, a) != is_run(trace, b))
		return is_run(trace, b);
	return a->end_ns - a->begin_ns < b->end_ns - b->begin_ns;
}

static void add_one(uint16_t *count)
{
	*count = (uint16_t)(*count + (*count != UINT16_MAX));
}

/* What one window has inside of another of the same thread is the inner one's. */
static void mark_outer(const struct sweep *sweep, uint32_t mark)
{
	const struct ky_spawn_window *windows = sweep->trace->spawn_windows;

	for (uint32_t i = 0; i < sweep->open_count; i++)
		for (uint32_t at = windows[sweep->open[i]].outer; at != KY_NONE;
		     at = windows[at].outer) {
			if (sweep->marks[at] == mark)
				break; /* and all around it */
			sweep->marks[at] = mark;
		}
}

/* The open windows all have this id; mark: of no id before. */
static void choose(const struct sweep *sweep, struct ky_spawn *spawn, uint32_t mark)
{
	mark_outer(sweep, mark);
	for (uint32_t i = 0; i < sweep->open_count; i++) {
		uint32_t at = sweep->open[i];
		const struct ky_spawn_window *window = &sweep->trace->spawn_windows[at];

		if (window->begin_ns > spawn->from_ns)
			spawn->from_ns = window->begin_ns;
		if (!spawn->to_ns || window->end_ns < spawn->to_ns)
			spawn->to_ns = window->end_ns;
		if (sweep->marks[at] == mark)
			continue;
		add_one(is_run(sweep->trace, window) ? &spawn->runs : &spawn->polls);
		if (is_better(sweep->trace, at, spawn->window))
			spawn->window = at;
	}
}

/* An id lies before those that were given out later, and before the first sight of them. */
static void bound_ends(struct ky_trace *trace, const uint32_t *order, uint32_t count)
{
	uint32_t window = trace->spawn_window_count;
	uint64_t least_ns = 0;

	for (uint32_t i = count; i-- > 0;) {
		const struct ky_task *task = &trace->tasks[order[i]];
		struct ky_spawn *spawn = &trace->spawns[order[i]];

		if (i + 1 < count && copy_of(trace->tasks[order[i + 1]].id) != copy_of(task->id))
			least_ns = 0; /* another copy has a counter of its own */
		for (; window && trace->spawn_windows[window - 1].first_id > task->id; window--) {
			const struct ky_spawn_window *later = &trace->spawn_windows[window - 1];
			uint64_t by_ns = later->begin_ns ? later->begin_ns : later->end_ns;

			if (copy_of(later->first_id) == copy_of(task->id) &&
			    (!least_ns || by_ns < least_ns))
				least_ns = by_ns;
		}
		/* One that lived when the recording began was seen late. */
		if (!(task->flags & KY_TASK_LIVE_AT_START) && task->first_ns &&
		    (!least_ns || task->first_ns < least_ns))
			least_ns = task->first_ns;
		if (!spawn->from_ns)
			spawn->from_ns = trace->first_ns;
		if (least_ns && (!spawn->to_ns || least_ns < spawn->to_ns))
			spawn->to_ns = least_ns;
		if (spawn->from_ns > spawn->to_ns) /* stamps of two threads, a hair apart */
			spawn->from_ns = spawn->to_ns;
	}
}

static uint32_t list_tasks(const struct ky_trace *trace, uint32_t *order)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->task_count; i++)
		if (!(trace->tasks[i].flags & KY_TASK_ROOT))
			order[count++] = i;
	ky_sort(order, count, sizeof(*order), is_id_before, trace);
	return count;
}

/* Those that begin at this id or before it. */
static void open_windows(struct sweep *sweep, uint64_t id)
{
	const struct ky_trace *trace = sweep->trace;

	for (; sweep->next < trace->spawn_window_count; sweep->next++) {
		const struct ky_spawn_window *window = &trace->spawn_windows[sweep->next];

		if (window->first_id > id)
			break;
		if (sweep->open_count < OPEN_MAX)
			sweep->open[sweep->open_count++] = sweep->next;
		else if (window->last_id > sweep->crowded_id)
			sweep->crowded_id = window->last_id;
	}
}

/* Those that end before it say that it was given out after them. */
static void close_windows(struct sweep *sweep, uint64_t id)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < sweep->open_count; i++) {
		const struct ky_spawn_window *window = &sweep->trace->spawn_windows[sweep->open[i]];

		if (window->last_id >= id)
			sweep->open[kept++] = sweep->open[i];
		else if (copy_of(window->last_id) == copy_of(id) && window->end_ns > sweep->over_ns)
			sweep->over_ns = window->end_ns;
	}
	sweep->open_count = kept;
}

static void sweep_ids(struct sweep *sweep, const uint32_t *order, uint32_t count)
{
	uint64_t copy = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = sweep->trace->tasks[order[i]].id;
		struct ky_spawn *spawn = &sweep->trace->spawns[order[i]];

		if (copy_of(id) != copy)
			sweep->over_ns = 0;
		copy = copy_of(id);
		open_windows(sweep, id);
		close_windows(sweep, id);
		spawn->from_ns = sweep->over_ns;
		spawn->window = KY_NONE;
		choose(sweep, spawn, i + 1);
		if (id <= sweep->crowded_id)
			spawn->polls = UINT16_MAX;
	}
}

static bool is_outer_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	const struct ky_spawn_window *a = &trace->spawn_windows[*(const uint32_t *)first];
	const struct ky_spawn_window *b = &trace->spawn_windows[*(const uint32_t *)second];

	if (a->tid != b->tid)
		return a->tid < b->tid;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns;
	return a->end_ns != b->end_ns ? a->end_ns > b->end_ns : a < b;
}

/* order: room for all windows. */
static void nest_windows(struct ky_trace *trace, uint32_t *order)
{
	uint32_t at = KY_NONE; /* what is open in the thread */

	for (uint32_t i = 0; i < trace->spawn_window_count; i++)
		order[i] = i;
	ky_sort(order, trace->spawn_window_count, sizeof(*order), is_outer_before, trace);
	for (uint32_t i = 0; i < trace->spawn_window_count; i++) {
		struct ky_spawn_window *window = &trace->spawn_windows[order[i]];

		while (at != KY_NONE && (trace->spawn_windows[at].tid != window->tid ||
					 trace->spawn_windows[at].end_ns < window->end_ns))
			at = trace->spawn_windows[at].outer;
		window->outer = at;
		at = order[i];
	}
}

/* The line of a closure begins when it is submitted. */
static void note_lines(struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		struct ky_blocking_run *run = &trace->blocking_runs[i];
		const struct ky_spawn *spawn = &trace->spawns[run->task];

		if (run->wait_ns != UINT64_MAX || !spawn->to_ns || !spawn->from_ns)
			continue;
		run->wait_ns = run->start_ns > spawn->to_ns ? run->start_ns - spawn->to_ns : 0;
		run->wait_max_ns = run->start_ns > spawn->from_ns ? run->start_ns - spawn->from_ns :
								    0;
	}
}

/* A few more of a place may be of polls that the trace ends in. */
static void mark_places(struct ky_trace *trace, const uint32_t *order, uint32_t count)
{
	struct spawn_place {
		uint32_t tasks, unseen;
	} * places;
	size_t bytes = (size_t)ky_trace_name_count(trace) * sizeof(*places);

	places = bytes ? ky_pages_alloc(&trace->pages, bytes) : NULL;
	if (!places)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_task *task = &trace->tasks[order[i]];
		const struct ky_spawn *spawn = &trace->spawns[order[i]];

		if (task->name == KY_NONE || task->flags & KY_TASK_LIVE_AT_START)
			continue;
		places[task->name].tasks++;
		/* Given out after a window, and in none. */
		places[task->name].unseen += spawn->from_ns && spawn->window == KY_NONE;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t name = trace->tasks[order[i]].name;

		if (name != KY_NONE && places[name].unseen)
			trace->spawns[order[i]].is_place_unseen = places[name].unseen >=
								  places[name].tasks / UNSEEN_SHARE;
	}
	ky_pages_free(&trace->pages, places, bytes);
}

static void find_spawns(struct sweep *sweep, uint32_t *order)
{
	struct ky_trace *trace = sweep->trace;
	uint32_t count;

	ky_sort(trace->spawn_windows, trace->spawn_window_count, sizeof(*trace->spawn_windows),
		is_window_before, NULL);
	nest_windows(trace, sweep->marks);
	for (uint32_t i = 0; i < trace->spawn_window_count; i++)
		sweep->marks[i] = 0;
	count = list_tasks(trace, order);
	sweep_ids(sweep, order, count);
	mark_places(trace, order, count);
	bound_ends(trace, order, count);
	note_lines(trace);
	for (uint32_t i = 0; i < trace->task_count; i++)
		if (trace->tasks[i].parent == KY_NONE)
			trace->tasks[i].parent = ky_trace_submitter(trace, i);
}

int ky_spawns_finish(struct ky_trace *trace)
{
	size_t order_bytes = (size_t)trace->task_count * sizeof(uint32_t);
	size_t mark_bytes = (size_t)trace->spawn_window_count * sizeof(uint32_t);
	struct sweep sweep = {.trace = trace};
	uint32_t *order;

	if (!trace->spawn_window_count)
		return 0;
	order = ky_pages_alloc(&trace->pages, order_bytes);
	sweep.open = ky_pages_alloc(&trace->pages, OPEN_MAX * sizeof(*sweep.open));
	sweep.marks = ky_pages_alloc(&trace->pages, mark_bytes);
	trace->spawns = ky_pages_alloc(&trace->pages, trace->task_count * sizeof(*trace->spawns));
	if (order && sweep.open && sweep.marks && trace->spawns)
		find_spawns(&sweep, order);
	ky_pages_free(&trace->pages, order, order_bytes);
	ky_pages_free(&trace->pages, sweep.open, OPEN_MAX * sizeof(*sweep.open));
	ky_pages_free(&trace->pages, sweep.marks, mark_bytes);
	return trace->pages.failed;
}

const struct ky_spawn *ky_trace_spawn(const struct ky_trace *trace, uint32_t task)
{
	const struct ky_spawn *spawn = trace->spawns && task != KY_NONE ? &trace->spawns[task] :
									  NULL;

	return spawn && spawn->to_ns && spawn->from_ns ? spawn : NULL;
}

uint32_t ky_trace_submitter(const struct ky_trace *trace, uint32_t task)
{
	const struct ky_spawn *spawn = ky_trace_spawn(trace, task);

	if (!spawn || spawn->window == KY_NONE || spawn->polls + spawn->runs != 1 ||
	    spawn->is_place_unseen)
		return KY_NONE;
	return trace->spawn_windows[spawn->window].task;
}

/* Is it around another one of them? */
static bool is_outer(const struct ky_trace *trace, const uint32_t *open, uint32_t count,
		     uint32_t window)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t at = trace->spawn_windows[open[i]].outer; at != KY_NONE;
		     at = trace->spawn_windows[at].outer)
			if (at == window)
				return true;
	return false;
}

uint32_t ky_trace_submitters(const struct ky_trace *trace, uint32_t task, uint32_t *out,
			     uint32_t max)
{
	const struct ky_spawn *spawn = ky_trace_spawn(trace, task);
	uint32_t open[NAMED_MAX], open_count = 0, count = 0, at;

	if (!spawn || spawn->window == KY_NONE)
		return 0;
	for (uint32_t i = 0; i < trace->spawn_window_count && open_count < NAMED_MAX; i++) {
		const struct ky_spawn_window *window = &trace->spawn_windows[i];

		if (window->first_id > trace->tasks[task].id)
			break;
		if (window->last_id < trace->tasks[task].id)
			continue;
		/* In their order: nothing else is moved. */
		for (at = open_count++; at && is_better(trace, i, open[at - 1]); at--)
			open[at] = open[at - 1];
		open[at] = i;
	}
	for (uint32_t i = 0; i < open_count && count < max; i++)
		if (!is_outer(trace, open, open_count, open[i]))
			out[count++] = trace->spawn_windows[open[i]].task;
	return count;
}
