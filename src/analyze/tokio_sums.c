/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/tokio_sums.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <read/spawns.h>
#include <read/turns.h>

#define UNPROVEN (KY_POLL_END_UNPROVEN | KY_POLL_ENDED_BY_PARK | KY_POLL_GAP)
#define ORIGIN_OUTSIDE 4u /* of a wake: off the runtime */
#define OTHER_TOKENS 2u   /* of one wait: that of a notification, and that of signals */

struct task_course {
	uint64_t polled_to_ns; /* end of its last poll */
	uint64_t woken_ns;     /* first wake since the begin of its last poll; 0: none */
	uint32_t polled_by;    /* worker */
	uint32_t self_wakes, kind;
	bool is_polled, is_end_known, is_open;
	bool is_spawned; /* in the time of the trace */
	bool is_woken_inside;
};

enum lane_kind {
	LANE_WAKES,
	LANE_POLLS,
	LANE_PARKS
};

/* One column of a worker. */
struct sum_lane {
	struct ky_cursor cursor;
	uint32_t worker;
	uint8_t kind;
};

struct summing {
	const struct ky_trace *trace;
	struct ky_tokio_sums *sums;
	struct task_course *tasks;
	struct sum_lane *lanes; /* a heap by time */
	uint32_t lane_count;
	uint64_t *since_park; /* polls by worker */
	uint32_t *kind_of;    /* by name, the last for none: index + 1 */
};

uint32_t ky_tokio_runtime(const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *known = &trace->workers[worker];

	if (!known->is_worker || known->is_thread_lane || known->is_shared)
		return KY_NONE;
	return known->runtime < trace->runtime_count ? known->runtime : trace->runtime_count;
}

/* ---- the order of time ---- */

static bool is_self_wake(const struct sum_lane *lane)
{
	const struct ky_wake_row *row = (const void *)lane->cursor.at;

	return row->woken == row->waker;
}

/* At one stamp: a wake before the poll that it causes, unless the poll issues it. */
static uint32_t rank_of(const struct sum_lane *lane)
{
	if (lane->kind == LANE_WAKES)
		return is_self_wake(lane) ? 2 : 0;
	return lane->kind == LANE_POLLS ? 1 : 3;
}

static bool is_before(const struct sum_lane *a, const struct sum_lane *b)
{
	if (a->cursor.time_ns != b->cursor.time_ns)
		return a->cursor.time_ns < b->cursor.time_ns;
	if (rank_of(a) != rank_of(b))
		return rank_of(a) < rank_of(b);
	return a->worker < b->worker;
}

static void sift(struct summing *summing, uint32_t at)
{
	struct sum_lane moved = summing->lanes[at];
	uint32_t child;

	while ((child = 2 * at + 1) < summing->lane_count) {
		if (child + 1 < summing->lane_count &&
		    is_before(&summing->lanes[child + 1], &summing->lanes[child]))
			child++;
		if (!is_before(&summing->lanes[child], &moved))
			break;
		summing->lanes[at] = summing->lanes[child];
		at = child;
	}
	summing->lanes[at] = moved;
}

static void add_lane(struct summing *summing, uint32_t worker, uint8_t kind)
{
	const struct ky_worker *known = &summing->trace->workers[worker];
	const struct ky_column *columns[] = {&known->wakes, &known->polls, &known->parks};
	struct sum_lane *lane = &summing->lanes[summing->lane_count];

	lane->worker = worker;
	lane->kind = kind;
	if (ky_cursor_begin(&lane->cursor, columns[kind], 0))
		summing->lane_count++;
}

/* ---- wakes ---- */

/* Which queue the task went to: that of the runtime's worker that woke it, or that of all. */
static void count_schedule(struct summing *summing, const struct task_course *state,
			   const struct ky_wake *wake, uint32_t worker)
{
	uint32_t own = ky_tokio_runtime(summing->trace, state->polled_by);
	uint32_t from = ky_tokio_runtime(summing->trace, worker);

	if (own == KY_NONE)
		return;
	if (from == own)
		summing->sums->workers[worker].local_wakes++;
	else if (from != KY_NONE || (wake->origin & KY_WAKE_ORIGIN) == ORIGIN_OUTSIDE)
		summing->sums->runtimes[own].remote_wakes++;
}

static void take_wake(struct summing *summing, const struct sum_lane *lane)
{
	const struct ky_trace *trace = summing->trace;
	struct task_course *state;
	struct ky_wake wake;

	ky_trace_wake(trace, lane->worker, lane->cursor.row, &wake);
	if (wake.woken >= trace->task_count)
		return;
	state = &summing->tasks[wake.woken];
	state->self_wakes += wake.waker == wake.woken && state->self_wakes < UINT32_MAX;
	if (state->woken_ns || (!state->is_polled && state->is_spawned))
		return;
	state->woken_ns = wake.time_ns ? wake.time_ns : 1;
	state->is_woken_inside = state->is_polled && state->is_end_known &&
				 wake.time_ns < state->polled_to_ns;
	if (state->is_polled && !state->is_woken_inside &&
	    !(trace->tasks[wake.woken].flags & KY_TASK_ENDED &&
	      wake.time_ns >= trace->tasks[wake.woken].end_ns))
		count_schedule(summing, state, &wake, lane->worker);
}

/* ---- polls ---- */

static void add(struct ky_count_time *sum, uint64_t ns)
{
	sum->count++;
	sum->ns += ns;
}

static void take_first(const struct summing *summing, struct ky_kind_sums *kind,
		       const struct ky_poll *poll)
{
	const struct ky_task *task = &summing->trace->tasks[poll->task];
	const struct ky_spawn *spawn = ky_trace_spawn(summing->trace, poll->task);
	uint64_t from_ns = 0, to_ns = 0;

	kind->first_polls++;
	if (task->flags & KY_TASK_SPAWN_SEEN) {
		from_ns = to_ns = task->first_ns;
	} else if (spawn) {
		from_ns = spawn->from_ns;
		to_ns = spawn->to_ns;
	}
	if (poll->start_ns > to_ns)
		kind->first_delay_min_ns += poll->start_ns - to_ns;
	if (poll->start_ns > from_ns)
		kind->first_delay_max_ns += poll->start_ns - from_ns;
}

static void take_scheduled(struct ky_kind_sums *kind, const struct task_course *state,
			   const struct ky_poll *poll)
{
	uint64_t woken_ns = state->woken_ns;

	if (!woken_ns && !poll->delay_state && poll->delay_ns < poll->start_ns)
		woken_ns = poll->start_ns - poll->delay_ns;
	if (!woken_ns || woken_ns > poll->start_ns || poll->delay_state == KY_DELAY_WITHHELD ||
	    poll->delay_state == KY_DELAY_COUNTED) {
		kind->scheduled_unknown++;
		kind->idle_unknown++;
		return;
	}
	add(&kind->scheduled, poll->start_ns - woken_ns);
	if (poll->start_ns - woken_ns >= KY_LONG_DELAY_NS)
		add(&kind->long_delays, poll->start_ns - woken_ns);
	if (!state->is_polled || !state->is_end_known) {
		kind->idle_unknown++;
	} else if (woken_ns > state->polled_to_ns) {
		add(&kind->idle, woken_ns - state->polled_to_ns);
		if (woken_ns - state->polled_to_ns > kind->idle_max_ns)
			kind->idle_max_ns = woken_ns - state->polled_to_ns;
	}
}

static void take_length(struct ky_kind_sums *kind, const struct ky_poll *poll)
{
	if (poll->flags & KY_POLL_OPEN)
		return; /* counted at its end */
	if (poll->flags & UNPROVEN)
		add(&kind->unproven, poll->duration_ns);
	else
		add(poll->duration_ns >= KY_SLOW_POLL_NS ? &kind->slow : &kind->fast,
		    poll->duration_ns);
}

/* Tokio polls a task that was cancelled once more, to drop its future, which is not polled. */
static bool is_to_drop(const struct ky_task *task, const struct ky_poll *poll)
{
	const uint32_t flags = KY_TASK_ENDED | KY_TASK_CANCELLED;

	return (task->flags & flags) == flags && !(poll->flags & KY_POLL_OPEN) &&
	       task->end_ns >= poll->start_ns && task->end_ns <= poll->start_ns + poll->duration_ns;
}

static void take_kind(struct summing *summing, struct task_course *state,
		      const struct ky_poll *poll)
{
	const struct ky_task *task = &summing->trace->tasks[poll->task];
	struct ky_kind_sums *kind = &summing->sums->kinds[state->kind];
	bool is_long = poll->duration_ns >= KY_NEVER_YIELDED_NS;

	if (is_to_drop(task, poll))
		return;
	if (state->is_polled || task->flags & KY_TASK_LIVE_AT_START || state->woken_ns) {
		take_scheduled(kind, state, poll);
	} else if (state->is_spawned) {
		take_first(summing, kind, poll);
		kind->never_yielded += is_long;
	} else {
		kind->first_unknown++;
		kind->scheduled_unknown++;
		kind->idle_unknown++;
	}
	if (!state->is_polled && !state->is_spawned)
		kind->never_unknown += is_long;
	take_length(kind, poll);
}

static void take_worker(struct summing *summing, uint32_t worker, const struct ky_poll *poll)
{
	struct ky_worker_counts *sums = &summing->sums->workers[worker];
	uint64_t bucket = poll->duration_ns / KY_POLL_BUCKET_NS;

	if (poll->flags & KY_POLL_NESTED || ky_tokio_runtime(summing->trace, worker) == KY_NONE)
		return;
	sums->polls++;
	summing->since_park[worker]++;
	if (poll->flags & UNPROVEN) {
		sums->unproven++;
		return;
	}
	sums->poll_ns += poll->duration_ns;
	if (!(poll->flags & KY_POLL_OPEN))
		sums->buckets[bucket < KY_POLL_BUCKETS ? bucket : KY_POLL_BUCKETS - 1]++;
}

static void take_poll(struct summing *summing, const struct sum_lane *lane)
{
	struct task_course *state;
	struct ky_poll poll;

	ky_trace_poll(summing->trace, lane->worker, lane->cursor.row, &poll);
	take_worker(summing, lane->worker, &poll);
	if (poll.task >= summing->trace->task_count)
		return;
	state = &summing->tasks[poll.task];
	if (state->is_woken_inside && state->woken_ns &&
	    ky_tokio_runtime(summing->trace, state->polled_by) != KY_NONE)
		summing->sums->workers[state->polled_by].local_wakes++;
	if (ky_trace_is_task(&summing->trace->tasks[poll.task]))
		take_kind(summing, state, &poll);
	state->polled_to_ns = poll.start_ns + poll.duration_ns;
	state->woken_ns = 0;
	state->polled_by = lane->worker;
	state->is_polled = true;
	state->is_woken_inside = false;
	state->is_open = poll.flags & KY_POLL_OPEN;
	state->is_end_known = !(poll.flags & UNPROVEN);
}

/* ---- parks and turns of the driver ---- */

static void add_ready(struct ky_worker_counts *sums, uint64_t count)
{
	sums->ready_max += count;
	sums->ready_min += count > OTHER_TOKENS ? count - OTHER_TOKENS : 0;
}

static void take_park(struct summing *summing, const struct sum_lane *lane)
{
	struct ky_worker_counts *sums = &summing->sums->workers[lane->worker];
	struct ky_park park;

	ky_trace_park(summing->trace, lane->worker, lane->cursor.row, &park);
	/* Before the first one there may have been polls that are not in the trace. */
	sums->noops += sums->parks && !summing->since_park[lane->worker];
	sums->working_parks += summing->since_park[lane->worker] > 0;
	sums->parks++;
	summing->since_park[lane->worker] = 0;
	add_ready(sums, park.ready_count);
	sums->awake_ns += park.duration_ns; /* for now: what it was not */
}

static void finish_worker(struct summing *summing, uint32_t at)
{
	const struct ky_worker *worker = &summing->trace->workers[at];
	struct ky_worker_counts *sums = &summing->sums->workers[at];
	uint64_t asleep_ns = sums->awake_ns;
	uint64_t life_ns = worker->last_ns > worker->first_ns ? worker->last_ns - worker->first_ns :
								0;

	for (uint64_t row = 0; row < worker->turns.row_count; row++) {
		struct ky_turn turn;

		ky_trace_turn(summing->trace, at, row, &turn);
		asleep_ns += turn.end_ns - turn.start_ns;
		add_ready(sums, turn.ready_count);
	}
	sums->awake_ns = life_ns > asleep_ns ? life_ns - asleep_ns : 0;
	if (sums->awake_ns < sums->poll_ns)
		sums->awake_ns = sums->poll_ns;
	if (summing->sums->has_held)
		sums->noops = 0; /* polls between two parks may be held back */
}

static void merge(struct summing *summing)
{
	for (uint32_t at = summing->lane_count / 2; at-- > 0;)
		sift(summing, at);
	while (summing->lane_count) {
		struct sum_lane *lane = &summing->lanes[0];

		if (lane->kind == LANE_WAKES)
			take_wake(summing, lane);
		else if (lane->kind == LANE_POLLS)
			take_poll(summing, lane);
		else
			take_park(summing, lane);
		if (!ky_cursor_next(&lane->cursor))
			*lane = summing->lanes[--summing->lane_count];
		sift(summing, 0);
	}
}

/* ---- kinds ---- */

/* Index of the kind of that name; KY_NONE: memory is out. */
static uint32_t kind_of(struct summing *summing, uint32_t name)
{
	struct ky_tokio_sums *sums = summing->sums;
	uint32_t count = ky_trace_name_count(summing->trace);
	uint32_t *slot = &summing->kind_of[name < count ? name : count];

	if (*slot)
		return *slot - 1;
	if (ky_grow(&sums->kinds, &sums->kind_capacity, sums->kind_count + 1, sizeof(*sums->kinds)))
		return KY_NONE;
	sums->kinds[sums->kind_count].name = name;
	*slot = ++sums->kind_count;
	return *slot - 1;
}

static bool begin_task(struct summing *summing, uint32_t at)
{
	const struct ky_trace *trace = summing->trace;
	const struct ky_task *task = &trace->tasks[at];
	const struct ky_spawn *spawn = ky_trace_spawn(trace, at);
	struct task_course *state = &summing->tasks[at];
	struct ky_kind_sums *kind;

	if (!ky_trace_is_task(task))
		return true;
	state->kind = kind_of(summing, task->name);
	if (state->kind == KY_NONE)
		return false;
	kind = &summing->sums->kinds[state->kind];
	state->is_spawned = task->flags & KY_TASK_SPAWN_SEEN ||
			    (spawn &&
			     (spawn->window != KY_NONE || spawn->from_ns > trace->first_ns) &&
			     !(task->flags & KY_TASK_LIVE_AT_START));
	kind->task_count++;
	kind->spawned += state->is_spawned;
	kind->spawned_unknown += !state->is_spawned && !(task->flags & KY_TASK_LIVE_AT_START);
	kind->ended += (task->flags & KY_TASK_ENDED) != 0;
	return true;
}

static void count_live(struct summing *summing, const struct task_course *state)
{
	const struct ky_trace *trace = summing->trace;
	uint32_t runtime = trace->runtime_count == 1 ? 0 : KY_NONE;

	if (state->is_polled)
		runtime = ky_tokio_runtime(trace, state->polled_by);
	if (runtime != KY_NONE)
		summing->sums->runtimes[runtime].live++;
	else if (!state->is_polled)
		for (uint32_t i = 0; i <= trace->runtime_count; i++)
			summing->sums->runtimes[i].live_unknown++;
}

static void finish_task(struct summing *summing, uint32_t at)
{
	const struct ky_task *task = &summing->trace->tasks[at];
	const struct task_course *state = &summing->tasks[at];
	struct ky_kind_sums *kind;

	if (!ky_trace_is_task(task))
		return;
	kind = &summing->sums->kinds[state->kind];
	kind->self_waking += task->wake_count &&
			     (uint64_t)state->self_wakes * 100 >=
				     task->wake_count * (KY_SELF_WAKE_PERCENT + 1);
	if (task->flags & KY_TASK_ENDED)
		return;
	kind->waiting += !state->is_open && !state->woken_ns &&
			 (state->is_polled || task->flags & KY_TASK_LIVE_AT_START);
	count_live(summing, state);
}

static bool is_longer(const void *a, const void *b, const void *ctx)
{
	const struct ky_kind_sums *one = a, *other = b;
	uint64_t one_ns = one->fast.ns + one->slow.ns + one->held_poll_ns;
	uint64_t other_ns = other->fast.ns + other->slow.ns + other->held_poll_ns;

	(void)ctx;
	return one_ns != other_ns ? one_ns > other_ns : one->name < other->name;
}

/* ---- what a policy held back ---- */

static void add_held(struct summing *summing)
{
	const struct ky_trace *trace = summing->trace;
	uint32_t names = ky_trace_name_count(trace);

	for (uint32_t i = 0; i < trace->histogram_count; i++) {
		const struct ky_trace_histogram *histogram = &trace->histograms[i];
		uint32_t name = histogram->name < names ? histogram->name : names;
		struct ky_kind_sums *kind;

		if (!summing->kind_of[name])
			continue;
		kind = &summing->sums->kinds[summing->kind_of[name] - 1];
		if (histogram->kind == KY_COUNTED_POLL) {
			kind->held_polls += histogram->count;
			kind->held_poll_ns += histogram->sum;
		} else if (histogram->kind == KY_COUNTED_DELAY) {
			kind->held_delays += histogram->count;
		}
	}
	for (uint32_t i = 0; i < trace->sums_count; i++) {
		const struct ky_trace_sums *held = &trace->sums[i];

		if (held->worker >= trace->worker_count)
			continue;
		summing->sums->workers[held->worker].polls += held->poll_count;
		summing->sums->workers[held->worker].unproven += held->poll_count;
		summing->sums->workers[held->worker].poll_ns += held->busy_ns;
		summing->sums->workers[held->worker].parks += held->park_count;
	}
}

/* ---- all of it ---- */

static bool make_room(struct summing *summing)
{
	const struct ky_trace *trace = summing->trace;
	struct ky_tokio_sums *sums = summing->sums;
	size_t workers = (size_t)trace->worker_count + 1;

	summing->tasks = ky_alloc(((size_t)trace->task_count + 1) * sizeof(*summing->tasks));
	summing->lanes = ky_alloc(3 * workers * sizeof(*summing->lanes));
	summing->since_park = ky_alloc(workers * sizeof(*summing->since_park));
	summing->kind_of = ky_alloc(((size_t)ky_trace_name_count(trace) + 1) *
				    sizeof(*summing->kind_of));
	sums->workers = ky_alloc(workers * sizeof(*sums->workers));
	sums->runtimes = ky_alloc(((size_t)trace->runtime_count + 1) * sizeof(*sums->runtimes));
	return summing->tasks && summing->lanes && summing->since_park && summing->kind_of &&
	       sums->workers && sums->runtimes;
}

static bool add_up(struct summing *summing)
{
	const struct ky_trace *trace = summing->trace;
	struct ky_tokio_sums *sums = summing->sums;

	sums->has_losses = trace->loss_count > 0;
	sums->has_held = trace->retention_count > 0 || trace->counted[KY_COUNTED_POLL] > 0 ||
			 trace->counted[KY_COUNTED_WAKE] > 0;
	for (uint32_t i = 0; i < trace->task_count; i++)
		if (!begin_task(summing, i))
			return false;
	for (uint32_t i = 0; i < trace->worker_count; i++) {
		uint32_t runtime = ky_tokio_runtime(trace, i);

		if (runtime != KY_NONE)
			sums->runtimes[runtime].workers++;
		for (int kind = LANE_WAKES; kind <= LANE_PARKS; kind++)
			add_lane(summing, i, (uint8_t)kind);
	}
	merge(summing);
	add_held(summing);
	for (uint32_t i = 0; i < trace->worker_count; i++)
		finish_worker(summing, i);
	for (uint32_t i = 0; i < trace->task_count; i++)
		finish_task(summing, i);
	if (sums->kind_count)
		ky_sort(sums->kinds, sums->kind_count, sizeof(*sums->kinds), is_longer, NULL);
	return true;
}

int ky_tokio_sums_make(struct ky_tokio_sums *out, const struct ky_trace *trace)
{
	struct summing summing = {.trace = trace, .sums = out};
	bool is_made;

	*out = (struct ky_tokio_sums){0};
	is_made = make_room(&summing) && add_up(&summing);
	ky_free(summing.tasks);
	ky_free(summing.lanes);
	ky_free(summing.since_park);
	ky_free(summing.kind_of);
	if (is_made)
		return 0;
	ky_tokio_sums_release(out);
	return -ENOMEM;
}

void ky_tokio_sums_release(struct ky_tokio_sums *sums)
{
	ky_free(sums->kinds);
	ky_free(sums->workers);
	ky_free(sums->runtimes);
	*sums = (struct ky_tokio_sums){0};
}
