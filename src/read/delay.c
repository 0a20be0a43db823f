/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From a task's wake to its next poll, over all workers in the order of time.
 *
 * A task is ready since its spawn, or since its first wake after its last poll ended; a wake
 * during its own poll counts from that poll's end. Later wakes are redundant; the next poll
 * consumes all.
 */
#include <kymo/base.h>
#include <read/borders.h>
#include <read/load.h>
#include <read/time_order.h>

#define IDLE UINT64_MAX

/* What a poll or wake touches of its task: one cache line, copied to the table at the end. */
struct task_state {
	uint64_t ready_ns;   /* IDLE: nothing woke it yet */
	uint64_t busy_to_ns; /* end of its last poll; 0: not polled yet */
	uint64_t busy_ns;
	uint64_t poll_max_ns;
	uint64_t delay_ns;
	uint64_t long_wait_ns;
	uint32_t poll_count, wake_count, redundant_count;
	bool is_end_known; /* of its last poll */
	bool is_spawn_seen;
	bool is_first_known, is_name_known; /* nothing that follows says more of it */
};

_Static_assert(sizeof(struct task_state) == 64, "one cache line");

/* Polls or wakes of one lane. */
struct delay_feed {
	struct ky_cursor cursor;
	uint32_t lane;
	bool is_poll;
};

struct delay_pass {
	struct ky_trace *trace;
	struct task_state *states;
	struct delay_feed *feeds;
	uint32_t feed_count;
	struct ky_time_order order;
	uint32_t touched; /* see fetch() */
	uint64_t wakes_redundant, wakes_in_own_poll, delays_measured, delays_no_wake;
	bool is_whole; /* nothing is missing anywhere, so all can be measured */
	/* Only with losses and several runtimes, else NULL. Per loss: the one runtime whose workers
	 * its thread carried, KY_NONE: the trace does not report. Per runtime: all its workers'
	 * threads are known and none ever changed. */
	uint32_t *loss_runtimes;
	bool *is_settled;
};

#define WORKERS_MAX (1u << 28)
#define LOSSES_CHECKED_MAX 64u /* per poll; after more of them nothing is measured */
#define SEVERAL_RUNTIMES UINT32_MAX
#define ROWS_AHEAD 16u

/* What a row is about is needed some rows later. WebAssembly has no such hint: there a word of it
 * is read, for which nothing waits. */
static inline void fetch(struct delay_pass *pass, uint32_t task)
{
	const struct task_state *state = &pass->states[task];

#ifdef __wasm__
	pass->touched = state->poll_count;
#else
	__builtin_prefetch(state, 1);
#endif
}

/* Rows come by time, so only the first of a task can be earlier than what its table says. */
static void note_first(struct delay_pass *pass, uint32_t task, uint64_t time_ns)
{
	pass->states[task].is_first_known = true;
	if (time_ns < pass->trace->tasks[task].first_ns)
		pass->trace->tasks[task].first_ns = time_ns;
}

/* Which of the three it is, is a matter of chance: no branches. */
static inline void on_wake(struct delay_pass *pass, const struct delay_feed *feed)
{
	const struct ky_wake_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->woken];
	uint64_t time_ns = feed->cursor.time_ns;
	uint64_t since_ns = time_ns < state->busy_to_ns ? state->busy_to_ns : time_ns;
	bool is_redundant = state->ready_ns != IDLE;

	if (!state->is_first_known)
		note_first(pass, row->woken, time_ns);
	state->wake_count += state->wake_count < UINT32_MAX;
	state->redundant_count += is_redundant & (state->redundant_count < UINT32_MAX);
	pass->wakes_redundant += is_redundant;
	pass->wakes_in_own_poll += !is_redundant & (time_ns < state->busy_to_ns);
	state->ready_ns = is_redundant ? state->ready_ns : since_ns;
}

/* Only workers of its own runtime poll a task. What another runtime's worker lost can hide an
 * earlier wake, but not a poll. */
static bool concerns(const struct delay_pass *pass, uint32_t loss, const struct ky_worker *worker,
		     uint64_t ready_ns)
{
	uint32_t runtime = pass->loss_runtimes[loss];

	return runtime == KY_NONE || worker->runtime == KY_NONE || runtime == worker->runtime ||
	       !pass->is_settled[worker->runtime] || pass->trace->losses[loss].from_ns <= ready_ns;
}

/* May a loss between the wake and the poll have changed what was measured? */
static bool is_spoiled(const struct delay_pass *pass, const struct delay_feed *feed,
		       uint64_t ready_ns, uint64_t start_ns)
{
	const struct ky_trace *trace = pass->trace;
	uint32_t i, checked, low = 0, high = trace->loss_count;

	if (!ky_trace_has_gap(trace, ready_ns, start_ns))
		return false;
	if (!pass->loss_runtimes)
		return true;
	while (low < high) { /* losses that begin at or before the poll are [0, low) */
		i = low + (high - low) / 2;
		if (trace->losses[i].from_ns <= start_ns)
			low = i + 1;
		else
			high = i;
	}
	for (checked = 0, i = low; i-- > 0; checked++) {
		if (checked == LOSSES_CHECKED_MAX)
			return true;
		if (trace->losses[i].to_ns >= ready_ns &&
		    concerns(pass, i, &trace->workers[feed->lane], ready_ns))
			return true;
	}
	return false;
}

static inline uint64_t ready_of(const struct delay_pass *pass, uint32_t task, uint64_t start_ns)
{
	const struct task_state *state = &pass->states[task];
	uint64_t ready_ns = state->ready_ns, first_ns;

	if (state->busy_to_ns == 0 && state->is_spawn_seen) {
		first_ns = pass->trace->tasks[task].first_ns;
		if (first_ns <= start_ns && first_ns < ready_ns)
			ready_ns = first_ns;
	}
	if (ready_ns == IDLE)
		return IDLE;
	return ready_ns < start_ns ? ready_ns : start_ns;
}

/* Writes the delay beside the poll's row. Returns false when memory is out. */
static bool set_delay(struct delay_pass *pass, const struct delay_feed *feed, uint64_t delay_ns)
{
	struct ky_trace *trace = pass->trace;
	uint32_t *extra = &feed->cursor.extra[feed->cursor.place];
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

/* Is nothing missing between the two that could be a wake or a poll of the task? */
static bool is_whole(const struct delay_pass *pass, const struct delay_feed *feed, uint64_t from_ns,
		     uint64_t to_ns)
{
	const struct ky_trace *trace = pass->trace;

	return !(trace->private->border_count > 0 && ky_borders_cross(trace, from_ns, to_ns)) &&
	       !(trace->private->held_count > 0 && ky_retained_is_held(trace, from_ns, to_ns)) &&
	       !(trace->loss_count > 0 && is_spoiled(pass, feed, from_ns, to_ns));
}

/* Where the writer measured it, or something is missing. */
static bool measure_slowly(struct delay_pass *pass, const struct delay_feed *feed,
			   struct task_state *state, uint64_t ready_ns)
{
	struct ky_trace *trace = pass->trace;
	uint32_t *extra = &feed->cursor.extra[feed->cursor.place];
	uint64_t start_ns = feed->cursor.time_ns;

	if (*extra != KY_DELAY_NO_WAKE) { /* the writer measured it */
		trace->delays_recorded++;
		pass->delays_measured++;
		/* Cut, because it did not fit: the wake says the rest. */
		if (*extra == KY_DELAY_LONG - 1 && ready_ns != IDLE &&
		    start_ns - ready_ns > *extra) {
			state->delay_ns += start_ns - ready_ns;
			return set_delay(pass, feed, start_ns - ready_ns);
		}
		state->delay_ns += *extra;
		return true;
	}
	if (trace->private->held_count > 0 && ky_retained_is_held(trace, start_ns, start_ns)) {
		*extra = KY_DELAY_COUNTED;
		trace->delays_counted++;
		return true;
	}
	if (ready_ns == IDLE) {
		pass->delays_no_wake++;
		return true;
	}
	if (!is_whole(pass, feed, ready_ns, start_ns)) {
		*extra = KY_DELAY_WITHHELD;
		trace->delays_withheld++;
		return true;
	}
	pass->delays_measured++;
	state->delay_ns += start_ns - ready_ns;
	return set_delay(pass, feed, start_ns - ready_ns);
}

static inline bool measure(struct delay_pass *pass, const struct delay_feed *feed, uint32_t task)
{
	struct task_state *state = &pass->states[task];
	uint32_t *extra = &feed->cursor.extra[feed->cursor.place];
	uint64_t start_ns = feed->cursor.time_ns, ready_ns = ready_of(pass, task, start_ns);
	bool is_woken = ready_ns != IDLE;
	uint64_t delay_ns = is_woken ? start_ns - ready_ns : 0;

	if (!pass->is_whole || *extra != KY_DELAY_NO_WAKE || delay_ns >= KY_DELAY_LONG)
		return measure_slowly(pass, feed, state, ready_ns);
	*extra = is_woken ? (uint32_t)delay_ns : KY_DELAY_NO_WAKE;
	pass->delays_measured += is_woken;
	pass->delays_no_wake += !is_woken;
	state->delay_ns += delay_ns;
	return true;
}

static inline void add_wait(struct delay_pass *pass, const struct delay_feed *feed,
			    struct task_state *state, uint64_t start_ns)
{
	uint64_t wait_ns = start_ns > state->busy_to_ns ? start_ns - state->busy_to_ns : 0;

	if (!state->is_end_known || wait_ns < KY_LONG_WAIT_NS)
		wait_ns = 0;
	if (!pass->is_whole && wait_ns && !is_whole(pass, feed, state->busy_to_ns, start_ns))
		wait_ns = 0;
	state->long_wait_ns += wait_ns;
}

static void note_name(struct delay_pass *pass, uint32_t task, uint32_t name)
{
	pass->states[task].is_name_known = true;
	if (pass->trace->tasks[task].name == KY_NONE)
		pass->trace->tasks[task].name = name;
}

static inline bool on_poll(struct delay_pass *pass, const struct delay_feed *feed)
{
	const struct ky_poll_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->task];
	uint64_t start_ns = feed->cursor.time_ns, duration_ns = row->duration_ns;
	uint32_t name = row->site & 0xffffffu, flags = row->site >> 24;

	if (flags & KY_POLL_LONG)
		duration_ns = pass->trace->private->long_durations[row->duration_ns];
	if (!state->is_name_known && name != 0xffffffu)
		note_name(pass, row->task, name);
	if (!state->is_first_known)
		note_first(pass, row->task, start_ns);
	if (!measure(pass, feed, row->task))
		return false;
	add_wait(pass, feed, state, start_ns);
	state->ready_ns = IDLE;
	state->poll_count += state->poll_count < UINT32_MAX;
	/* It is not known when it ended: a wake after its start counts from itself. */
	state->busy_to_ns = start_ns;
	state->is_end_known = false;
	if (flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
		return true;
	state->busy_to_ns = start_ns + duration_ns;
	state->is_end_known = true;
	state->busy_ns += duration_ns;
	if (duration_ns > state->poll_max_ns)
		state->poll_max_ns = duration_ns;
	return true;
}

/* Fills loss_runtimes and is_settled. Returns false when memory is out. */
static bool place_losses(struct delay_pass *pass)
{
	const struct ky_trace *trace = pass->trace;
	struct ky_id_map runtimes; /* of a thread's workers: index + 1 */
	uint32_t i, found, *slot = NULL;

	for (i = 0; i < trace->runtime_count; i++)
		pass->is_settled[i] = true;
	ky_id_map_init(&runtimes, &pass->trace->pages);
	for (i = 0; i < trace->worker_count; i++) {
		const struct ky_worker *worker = &trace->workers[i];
		bool is_reported = worker->runtime < trace->runtime_count;

		if (is_reported && (worker->tid == 0 || worker->moved_count > 0))
			pass->is_settled[worker->runtime] = false;
		if (worker->tid == 0)
			continue;
		slot = ky_id_map_slot(&runtimes, worker->tid);
		if (!slot)
			break;
		if (!is_reported || (*slot != 0 && *slot != worker->runtime + 1))
			*slot = SEVERAL_RUNTIMES;
		else
			*slot = worker->runtime + 1;
	}
	for (i = 0; i < trace->loss_count; i++) {
		found = ky_id_map_find(&runtimes, trace->losses[i].tid);
		pass->loss_runtimes[i] = found < trace->runtime_count ? found : KY_NONE;
	}
	ky_id_map_release(&runtimes);
	return !trace->pages.failed;
}

static void load_states(struct delay_pass *pass)
{
	struct ky_trace_private *private = pass->trace->private;
	uint32_t i;

	for (i = 0; i < pass->trace->task_count; i++) {
		const struct ky_task *task = &pass->trace->tasks[i];

		pass->states[i].ready_ns = IDLE;
		pass->states[i].is_spawn_seen = (task->flags & KY_TASK_SPAWN_SEEN) != 0;
		pass->states[i].is_first_known = pass->states[i].is_spawn_seen;
		pass->states[i].is_name_known = task->name != KY_NONE;
	}
	for (i = 0; i + 1 < private->live_ready_count; i += 2)
		pass->states[private->live_ready[i]].ready_ns = private->live_ready[i + 1];
}

static void store_states(const struct delay_pass *pass)
{
	struct ky_trace *trace = pass->trace;
	uint64_t end_ns; /* of its last wait: its end without a poll, or the trace's */
	uint32_t i;

	trace->wakes_redundant += pass->wakes_redundant;
	trace->wakes_in_own_poll += pass->wakes_in_own_poll;
	trace->delays_measured += pass->delays_measured;
	trace->delays_no_wake += pass->delays_no_wake;
	for (i = 0; i < pass->trace->task_count; i++) {
		struct ky_task *task = &pass->trace->tasks[i];
		const struct task_state *state = &pass->states[i];

		task->poll_count = state->poll_count;
		task->wake_count = state->wake_count;
		task->redundant_count = state->redundant_count;
		task->busy_ns = state->busy_ns;
		task->poll_max_ns = state->poll_max_ns;
		task->delay_ns = state->delay_ns;
		task->long_wait_ns += state->long_wait_ns;
		end_ns = task->flags & KY_TASK_ENDED ? task->end_ns : pass->trace->run_last_ns;
		if (state->is_end_known && end_ns > state->busy_to_ns &&
		    end_ns - state->busy_to_ns >= KY_LONG_WAIT_NS &&
		    !ky_trace_has_gap(pass->trace, state->busy_to_ns, end_ns))
			task->long_wait_ns += end_ns - state->busy_to_ns;
	}
}

static void add_feed(struct delay_pass *pass, const struct ky_column *column, uint32_t lane,
		     bool is_poll)
{
	struct delay_feed *feed = &pass->feeds[pass->feed_count];

	if (!ky_cursor_begin(&feed->cursor, column, 0) ||
	    !ky_time_order_add(&pass->order, column, is_poll))
		return;
	feed->lane = lane;
	feed->is_poll = is_poll;
	pass->feed_count++;
}

/* A function of its own, called often: an engine for WebAssembly replaces its first, slow code of a
 * function when that is called again, never inside its loop. */
__attribute__((noinline)) static bool walk_batch(struct delay_pass *pass)
{
	const struct ky_ordered_row *rows = pass->order.rows;
	uint32_t count = pass->order.count;

	for (uint32_t i = 0; i < count; i++) {
		struct delay_feed *feed = &pass->feeds[rows[i].feed];

		if (count - i > ROWS_AHEAD)
			fetch(pass, rows[i + ROWS_AHEAD].task);
		if (!feed->is_poll)
			on_wake(pass, feed);
		else if (!on_poll(pass, feed))
			return false;
		ky_cursor_next(&feed->cursor);
	}
	return true;
}

static int run(struct delay_pass *pass)
{
	struct ky_trace *trace = pass->trace;
	int result = 0;
	uint32_t i;

	if (pass->loss_runtimes && !place_losses(pass))
		return trace->pages.failed;
	load_states(pass);
	pass->is_whole = !trace->private->border_count && !trace->private->held_count &&
			 !trace->loss_count;
	for (i = 0; i < trace->worker_count; i++) {
		add_feed(pass, &trace->workers[i].polls, i, true);
		add_feed(pass, &trace->workers[i].wakes, i, false);
	}
	while (!trace->pages.failed && (result = ky_time_order_next(&pass->order)) > 0)
		if (!walk_batch(pass))
			break;
	if (result < 0 || trace->pages.failed)
		return trace->pages.failed;
	store_states(pass);
	return 0;
}

static int measure_all(struct delay_pass *pass)
{
	struct ky_trace *trace = pass->trace;
	size_t feed_bytes = 2 * (size_t)trace->worker_count * sizeof(*pass->feeds);
	size_t state_bytes = (size_t)trace->task_count * sizeof(*pass->states);
	int result;

	ky_time_order_init(&pass->order, &trace->pages);
	pass->feeds = ky_pages_alloc(&trace->pages, feed_bytes);
	pass->states = ky_pages_alloc(&trace->pages, state_bytes);
	result = pass->feeds && pass->states ? run(pass) : trace->pages.failed;
	ky_time_order_release(&pass->order);
	ky_pages_free(&trace->pages, pass->feeds, feed_bytes);
	ky_pages_free(&trace->pages, pass->states, state_bytes);
	return result;
}

int ky_delay(struct ky_trace *trace)
{
	struct delay_pass pass = {.trace = trace};
	size_t loss_bytes = (size_t)trace->loss_count * sizeof(*pass.loss_runtimes);
	size_t settled_bytes = (size_t)trace->runtime_count * sizeof(*pass.is_settled);
	int result;

	if (trace->worker_count == 0 || trace->task_count == 0)
		return 0;
	if (trace->worker_count > WORKERS_MAX)
		return KYMO_E_LIMIT;
	if (trace->loss_count > 0 && trace->runtime_count > 1) {
		pass.loss_runtimes = ky_pages_alloc(&trace->pages, loss_bytes);
		pass.is_settled = ky_pages_alloc(&trace->pages, settled_bytes);
	}
	result = trace->pages.failed ? trace->pages.failed : measure_all(&pass);
	ky_pages_free(&trace->pages, pass.loss_runtimes, loss_bytes);
	ky_pages_free(&trace->pages, pass.is_settled, settled_bytes);
	return result;
}
