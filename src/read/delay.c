/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From a task's wake to its next poll, over all workers in the order of time.
 *
 * A task is ready since its spawn, or since its first wake after its last poll ended; a wake
 * during its own poll counts from that poll's end. Later wakes are redundant; the next poll
 * consumes all.
 */
#include <read/load.h>

#define IDLE UINT64_MAX

struct task_state {
	uint64_t ready_ns;   /* IDLE: nothing woke it yet */
	uint64_t busy_to_ns; /* end of its last poll; 0: not polled yet */
};

/* Polls or wakes of one lane. rank orders equal times: a wake precedes the poll it may have caused,
 * unless the task woke itself. */
struct feed {
	struct ky_cursor cursor;
	uint32_t lane;
	uint32_t rank;
	bool is_poll;
};

struct delay_pass {
	struct ky_trace *trace;
	struct task_state *states;
	struct feed *feeds;
	uint32_t *heap;
	uint32_t count;
};

static void set_rank(struct feed *feed)
{
	const struct ky_wake_row *wake = (const void *)feed->cursor.at;

	feed->rank = feed->is_poll ? 1 : wake->woken == wake->waker ? 2 : 0;
}

static bool is_before(const struct delay_pass *pass, uint32_t a, uint32_t b)
{
	const struct feed *x = &pass->feeds[a], *y = &pass->feeds[b];

	if (x->cursor.time_ns != y->cursor.time_ns)
		return x->cursor.time_ns < y->cursor.time_ns;
	return x->rank != y->rank ? x->rank < y->rank : a < b;
}

static void sift_down(struct delay_pass *pass, uint32_t at)
{
	uint32_t moved = pass->heap[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= pass->count)
			break;
		if (child + 1 < pass->count &&
		    is_before(pass, pass->heap[child + 1], pass->heap[child]))
			child++;
		if (!is_before(pass, pass->heap[child], moved))
			break;
		pass->heap[at] = pass->heap[child];
		at = child;
	}
	pass->heap[at] = moved;
}

static void on_wake(struct delay_pass *pass, const struct feed *feed)
{
	const struct ky_wake_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->woken];
	struct ky_task *task = &pass->trace->tasks[row->woken];
	uint64_t time_ns = feed->cursor.time_ns;

	task->wake_count++;
	if (time_ns < task->first_ns && !(task->flags & KY_TASK_SPAWN_SEEN))
		task->first_ns = time_ns;
	if (state->ready_ns != IDLE) {
		pass->trace->wakes_redundant++;
	} else if (time_ns < state->busy_to_ns) {
		pass->trace->wakes_in_own_poll++;
		state->ready_ns = state->busy_to_ns;
	} else {
		state->ready_ns = time_ns;
	}
}

static bool is_in_gap(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t low = 0, high = private->gap_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (private->gaps[middle].to_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < private->gap_count && private->gaps[low].from_ns <= to_ns;
}

static uint64_t ready_of(const struct task_state *state, const struct ky_task *task,
			 uint64_t start_ns)
{
	uint64_t ready_ns = state->ready_ns;

	if (state->busy_to_ns == 0 && (task->flags & KY_TASK_SPAWN_SEEN) &&
	    task->first_ns <= start_ns && task->first_ns < ready_ns)
		ready_ns = task->first_ns;
	if (ready_ns == IDLE)
		return IDLE;
	return ready_ns < start_ns ? ready_ns : start_ns;
}

/* Writes the delay beside the poll's row. Returns false when memory is out. */
static bool set_delay(struct delay_pass *pass, const struct feed *feed, uint64_t delay_ns)
{
	struct ky_trace *trace = pass->trace;
	uint32_t *extra = ky_column_extra(feed->cursor.column, feed->cursor.row);
	uint32_t *slot;

	if (delay_ns < KY_DELAY_LONG) {
		*extra = (uint32_t)delay_ns;
		return true;
	}
	*extra = KY_DELAY_LONG;
	slot = ky_id_map_slot(&trace->private->long_delays,
			      (uint64_t)feed->lane << 40 | feed->cursor.row);
	if (slot)
		*slot = ky_long_duration(trace, delay_ns) + 1;
	return slot && !trace->pages.failed;
}

static bool measure(struct delay_pass *pass, const struct feed *feed, struct task_state *state,
		    struct ky_task *task)
{
	struct ky_trace *trace = pass->trace;
	uint32_t *extra = ky_column_extra(feed->cursor.column, feed->cursor.row);
	uint64_t start_ns = feed->cursor.time_ns, ready_ns;

	if (*extra != KY_DELAY_NO_WAKE) { /* the writer measured it */
		trace->delays_recorded++;
		trace->delays_measured++;
		task->delay_ns += *extra;
		return true;
	}
	ready_ns = ready_of(state, task, start_ns);
	if (ready_ns == IDLE) {
		trace->delays_no_wake++;
		return true;
	}
	if (trace->loss_count > 0 && is_in_gap(trace, ready_ns, start_ns)) {
		*extra = KY_DELAY_WITHHELD;
		trace->delays_withheld++;
		return true;
	}
	trace->delays_measured++;
	task->delay_ns += start_ns - ready_ns;
	return set_delay(pass, feed, start_ns - ready_ns);
}

static bool on_poll(struct delay_pass *pass, const struct feed *feed)
{
	const struct ky_poll_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->task];
	struct ky_task *task = &pass->trace->tasks[row->task];
	uint64_t start_ns = feed->cursor.time_ns, duration_ns = row->duration_ns;
	uint32_t name = row->site & 0xffffffu, flags = row->site >> 24;

	if (flags & KY_POLL_LONG)
		duration_ns = pass->trace->private->long_durations[row->duration_ns];
	if (task->name == KY_NONE && name != 0xffffffu)
		task->name = name;
	if (start_ns < task->first_ns && !(task->flags & KY_TASK_SPAWN_SEEN))
		task->first_ns = start_ns;
	if (!measure(pass, feed, state, task))
		return false;
	state->ready_ns = IDLE;
	state->busy_to_ns = start_ns + duration_ns;
	if (task->poll_count < UINT32_MAX)
		task->poll_count++;
	if (flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
		return true;
	task->busy_ns += duration_ns;
	if (duration_ns > task->poll_max_ns)
		task->poll_max_ns = duration_ns;
	return true;
}

static void add_feed(struct delay_pass *pass, const struct ky_column *column, uint32_t lane,
		     bool is_poll)
{
	struct feed *feed = &pass->feeds[pass->count];

	if (!ky_cursor_begin(&feed->cursor, column, 0))
		return;
	feed->lane = lane;
	feed->is_poll = is_poll;
	set_rank(feed);
	pass->heap[pass->count] = pass->count;
	pass->count++;
}

static bool walk(struct delay_pass *pass)
{
	uint32_t i;

	for (i = pass->count / 2; i-- > 0;)
		sift_down(pass, i);
	while (pass->count > 0) {
		struct feed *feed = &pass->feeds[pass->heap[0]];

		if (!feed->is_poll)
			on_wake(pass, feed);
		else if (!on_poll(pass, feed))
			return false;
		if (ky_cursor_next(&feed->cursor))
			set_rank(feed);
		else
			pass->heap[0] = pass->heap[--pass->count];
		sift_down(pass, 0);
	}
	return true;
}

int ky_delay(struct ky_trace *trace)
{
	struct delay_pass pass = { .trace = trace };
	size_t feed_bytes = 2 * (size_t)trace->worker_count * sizeof(*pass.feeds);
	size_t heap_bytes = (2 * (size_t)trace->worker_count + 1) * sizeof(*pass.heap);
	size_t state_bytes = (size_t)trace->task_count * sizeof(*pass.states);
	int result = 0;
	uint32_t i;

	if (trace->worker_count == 0 || trace->task_count == 0)
		return 0;
	pass.feeds = ky_pages_alloc(&trace->pages, feed_bytes);
	pass.heap = ky_pages_alloc(&trace->pages, heap_bytes);
	pass.states = ky_pages_alloc(&trace->pages, state_bytes);
	if (pass.feeds && pass.heap && pass.states) {
		for (i = 0; i < trace->task_count; i++)
			pass.states[i].ready_ns = IDLE;
		for (i = 0; i + 1 < trace->private->live_ready_count; i += 2)
			pass.states[trace->private->live_ready[i]].ready_ns =
				trace->private->live_ready[i + 1];
		for (i = 0; i < trace->worker_count; i++) {
			add_feed(&pass, &trace->workers[i].polls, i, true);
			add_feed(&pass, &trace->workers[i].wakes, i, false);
		}
		if (!walk(&pass))
			result = trace->pages.failed;
	} else {
		result = trace->pages.failed;
	}
	ky_pages_free(&trace->pages, pass.feeds, feed_bytes);
	ky_pages_free(&trace->pages, pass.heap, heap_bytes);
	ky_pages_free(&trace->pages, pass.states, state_bytes);
	return result;
}
