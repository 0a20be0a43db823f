/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/queue_plays.h>

#include <analyze/histogram.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define NEVER UINT64_MAX
#define SHORT_MAX (UINT32_MAX - 1)
#define IDLES 8u /* the last ones of a worker that are at hand */

/* What a pass over the trace knows of a worker. */
struct idle_time {
	uint64_t from_ns, to_ns;
};
struct plays_walker {
	struct ky_cursor parks;
	struct idle_time gaps[IDLES], parks_in[IDLES]; /* between polls; with a park; last first */
	uint64_t poll_from_ns, poll_to_ns;
	uint32_t poll; /* its last one; KY_PLAY_NONE */
	bool has_park;
};

struct wake_seen {
	uint64_t at_ns; /* 0: none */
	uint32_t slot;  /* in `outside`, or the poll it was in */
	uint8_t by;     /* worker with a queue; KY_PLAY_NO_HOME */
	bool is_outside;
};
struct played_task {
	struct wake_seen own, first; /* during its last poll, and since that: the first ones */
	uint64_t polled_to_ns;       /* its last poll; 0: none */
	uint32_t poll;               /* KY_PLAY_NONE: none that is played */
	uint8_t polled_by;
};

struct play_lane {
	struct ky_cursor cursor;
	uint32_t worker;
	uint8_t rank; /* of equal times: spawns, wakes, polls */
};

struct plays_making {
	const struct ky_trace *trace;
	struct ky_queue_plays *out;
	struct ky_play *plays;
	struct played_task *tasks;
	struct plays_walker *walkers;
	struct play_lane *lanes; /* a heap by time */
	uint32_t *spawns;        /* tasks by their spawn */
	uint32_t lane_count, spawn_count, spawn_at;
	struct ky_histogram reactions, searches, gaps; /* for their medians */
	bool failed;
};

_Static_assert(sizeof(struct ky_play) == 40, "as the header says");

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

bool ky_queue_plays_has(const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *known = &trace->workers[worker];

	return known->is_worker && !known->is_thread_lane && !known->is_shared;
}

uint32_t ky_queue_plays_worker(const struct ky_queue_plays *plays, uint32_t number)
{
	uint32_t low = 0, high = plays->worker_count;

	while (high - low > 1) { /* the last one that begins at or before it, and has polls */
		uint32_t middle = low + (high - low) / 2;

		if (plays->first_polls[middle] <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void ky_queue_plays_poll(const struct ky_queue_plays *plays, uint32_t number, struct ky_poll *out)
{
	uint32_t worker = ky_queue_plays_worker(plays, number);

	ky_trace_poll(plays->trace, worker, number - plays->first_polls[worker], out);
}

static void add_timed(struct plays_making *making, struct ky_timed_plays *list, uint64_t at_ns,
		      uint32_t number)
{
	if (ky_grow(&list->items, &list->capacity, list->count + 1, sizeof(*list->items)))
		making->failed = true;
	else
		list->items[list->count++] = (struct ky_timed_play){ky_earlier(at_ns, NEVER - 1),
								    number};
}

/* ---- what made each poll ready, in the order of the trace ---- */

static void note_wake(struct plays_making *making, uint32_t woken, uint64_t time_ns,
		      uint32_t worker)
{
	const struct plays_walker *walker = &making->walkers[worker];
	struct played_task *task = &making->tasks[woken];
	struct wake_seen *wake = time_ns < task->polled_to_ns ? &task->own : &task->first;

	if (wake->at_ns)
		return;
	wake->at_ns = time_ns;
	wake->by = (uint8_t)(ky_queue_plays_has(making->trace, worker) && worker < KY_PLAY_NO_HOME ?
				     worker :
				     KY_PLAY_NO_HOME);
	wake->is_outside = walker->poll == KY_PLAY_NONE || time_ns < walker->poll_from_ns ||
			   time_ns >= walker->poll_to_ns;
	wake->slot = walker->poll;
	if (!wake->is_outside)
		return;
	wake->slot = making->out->outside.count;
	add_timed(making, &making->out->outside, time_ns, KY_PLAY_NONE);
}

static void take_wake(struct plays_making *making, const struct play_lane *lane)
{
	struct ky_wake wake;

	ky_trace_wake(making->trace, lane->worker, lane->cursor.row, &wake);
	if (wake.woken < making->trace->task_count)
		note_wake(making, wake.woken, wake.time_ns, lane->worker);
}

/* As a wake by the task that spawns it, where that is being polled then. */
static void take_spawn(struct plays_making *making, uint32_t spawned)
{
	const struct ky_task *task = &making->trace->tasks[spawned];
	const struct played_task *parent = &making->tasks[task->parent];

	if (parent->poll != KY_PLAY_NONE && parent->polled_to_ns > task->first_ns)
		note_wake(making, spawned, task->first_ns,
			  ky_queue_plays_worker(making->out, parent->poll));
}

static void note_idle(struct idle_time *idles, uint64_t from_ns, uint64_t to_ns)
{
	memmove(&idles[1], &idles[0], (IDLES - 1) * sizeof(*idles));
	idles[0] = (struct idle_time){from_ns, to_ns};
}

/* The worker's time between what it did before and this poll. */
static uint64_t take_gap(struct plays_making *making, uint32_t worker, uint64_t start_ns,
			 uint64_t *parked_ns)
{
	struct plays_walker *walker = &making->walkers[worker];
	uint64_t from_ns = ky_earlier(walker->poll_to_ns, start_ns);
	struct ky_park park;

	*parked_ns = 0;
	while (walker->has_park && walker->parks.time_ns < start_ns) {
		uint64_t begin_ns, end_ns;

		ky_trace_park(making->trace, worker, walker->parks.row, &park);
		begin_ns = ky_later(park.start_ns, from_ns);
		end_ns = ky_earlier(park.start_ns + park.duration_ns, start_ns);
		if (end_ns > begin_ns && !*parked_ns && walker->poll != KY_PLAY_NONE)
			ky_histogram_add(&making->searches, begin_ns - from_ns);
		if (end_ns > begin_ns)
			*parked_ns += end_ns - begin_ns;
		walker->has_park = ky_cursor_next(&walker->parks);
	}
	if (*parked_ns > start_ns - from_ns)
		*parked_ns = start_ns - from_ns;
	note_idle(walker->gaps, from_ns, start_ns);
	if (*parked_ns)
		note_idle(walker->parks_in, from_ns, start_ns);
	else if (walker->poll != KY_PLAY_NONE)
		ky_histogram_add(&making->gaps, start_ns - from_ns);
	return start_ns - from_ns - *parked_ns;
}

/* How long the worker, idle when the poll became ready, took until its next poll. */
static uint64_t find_reaction(const struct plays_walker *walker, uint64_t ready_ns)
{
	const struct idle_time *idles = walker->gaps;

	for (uint32_t list = 0; list < 2; list++, idles = walker->parks_in)
		for (uint32_t i = 0; i < IDLES && ready_ns <= idles[i].to_ns; i++)
			if (ready_ns >= idles[i].from_ns &&
			    (ready_ns < idles[i].to_ns || (!list && !i)))
				return idles[i].to_ns - ready_ns;
	return NEVER;
}

/* Nothing is recorded to have made it ready. */
static void keep(struct plays_making *making, uint32_t number, uint64_t start_ns)
{
	struct ky_play *play = &making->plays[number];

	play->ready_ns = start_ns;
	play->reaction_ns = 0;
	play->wait_count++;
	add_timed(making, &making->out->kept, start_ns, number);
}

static bool is_near(uint64_t at_ns, uint64_t ready_ns)
{
	return at_ns && apart(at_ns, ready_ns) < KY_PLAY_NEAR_NS;
}

static void link_wake(struct plays_making *making, const struct wake_seen *wake, uint32_t number,
		      uint64_t at_ns)
{
	struct ky_play *play = &making->plays[number];
	struct ky_poll waking;

	play->wait_count++;
	if (wake->is_outside) {
		play->ready_ns = ky_later(play->ready_ns, at_ns);
		if (wake->slot < making->out->outside.count) /* else memory is short */
			making->out->outside.items[wake->slot].number = number;
		return;
	}
	ky_queue_plays_poll(making->out, wake->slot, &waking);
	at_ns = ky_later(at_ns, waking.start_ns) - waking.start_ns;
	play->into_ns = (uint32_t)ky_earlier(ky_earlier(at_ns, waking.duration_ns), UINT32_MAX);
	play->next = making->plays[wake->slot].woken;
	making->plays[wake->slot].woken = number;
}

static void link_cause(struct plays_making *making, const struct played_task *task, uint32_t number,
		       uint64_t ready_ns)
{
	struct ky_play *play = &making->plays[number];

	if (is_near(task->first.at_ns, ready_ns)) {
		play->home = task->first.by;
		link_wake(making, &task->first, number, ready_ns);
	} else if (is_near(task->own.at_ns, ready_ns)) {
		play->home = task->own.by;
		link_wake(making, &task->own, number, ready_ns);
	} else if (is_near(task->polled_to_ns, ready_ns)) {
		/* Woken during its own poll, it is ready when that ends; not before the wake. */
		play->home = task->polled_by;
		if (task->own.at_ns)
			link_wake(making, &task->own, number, task->own.at_ns);
	} else {
		play->ready_ns = ky_later(play->ready_ns, ready_ns);
	}
}

static void take_play(struct plays_making *making, const struct ky_poll *poll, uint64_t row)
{
	struct played_task *task = &making->tasks[poll->task];
	uint32_t number = making->out->first_polls[poll->worker] + (uint32_t)row;
	struct ky_play *play = &making->plays[number];
	uint64_t ready_ns = poll->start_ns -
			    (poll->delay_state ? 0 : ky_earlier(poll->delay_ns, poll->start_ns));
	uint64_t parked_ns, gap_ns, reaction_ns;
	struct plays_walker *walker = &making->walkers[poll->worker];

	*play = (struct ky_play){.woken = KY_PLAY_NONE,
				 .next = KY_PLAY_NONE,
				 .after = KY_PLAY_NONE,
				 .home = KY_PLAY_NO_HOME};
	gap_ns = take_gap(making, poll->worker, poll->start_ns, &parked_ns);
	if (row)
		play[-1].gap_ns = (uint32_t)ky_earlier(gap_ns, SHORT_MAX);
	else
		gap_ns = 0; /* since when the worker is there, nothing says */
	reaction_ns = find_reaction(walker, ready_ns);
	play->reaction_ns = reaction_ns == NEVER ? KY_PLAY_NOT_IDLE :
						   (uint32_t)ky_earlier(reaction_ns, SHORT_MAX);
	if (task->poll != KY_PLAY_NONE) {
		uint64_t early_ns = task->polled_to_ns - ky_earlier(ready_ns, task->polled_to_ns);

		making->plays[task->poll].after = number;
		play->early_ns = early_ns < KY_PLAY_NEAR_NS ? (uint16_t)early_ns : KY_PLAY_OWN_WAY;
		play->wait_count++;
	} else {
		play->ready_ns = task->polled_to_ns;
	}
	if (poll->delay_state) {
		keep(making, number, poll->start_ns);
	} else {
		link_cause(making, task, number, ready_ns);
		play->is_held = ready_ns < walker->parks_in[0].from_ns || gap_ns >= SHORT_MAX ||
				(reaction_ns != NEVER && reaction_ns >= SHORT_MAX);
		if (parked_ns && poll->start_ns - ready_ns == reaction_ns)
			ky_histogram_add(&making->reactions, reaction_ns);
	}
	if (play->home == poll->worker)
		play->home = KY_PLAY_NO_HOME;
	walker->poll = number;
	task->poll = number;
	task->polled_by = (uint8_t)(poll->worker < KY_PLAY_NO_HOME ? poll->worker :
								     KY_PLAY_NO_HOME);
}

static void take_poll(struct plays_making *making, const struct play_lane *lane)
{
	struct plays_walker *walker = &making->walkers[lane->worker];
	struct played_task *task;
	struct ky_poll poll;

	ky_trace_poll(making->trace, lane->worker, lane->cursor.row, &poll);
	task = &making->tasks[poll.task];
	if (ky_queue_plays_has(making->trace, lane->worker))
		take_play(making, &poll, lane->cursor.row);
	else
		task->poll = KY_PLAY_NONE;
	walker->poll_from_ns = poll.start_ns;
	walker->poll_to_ns = task->polled_to_ns = poll.start_ns + poll.duration_ns;
	task->own.at_ns = task->first.at_ns = 0;
}

static bool is_lane_before(const struct play_lane *a, const struct play_lane *b)
{
	if (a->cursor.time_ns != b->cursor.time_ns)
		return a->cursor.time_ns < b->cursor.time_ns;
	if (a->rank != b->rank)
		return a->rank < b->rank;
	return a->worker < b->worker;
}

static void sift_lane(struct plays_making *making, uint32_t at)
{
	struct play_lane moved = making->lanes[at];
	uint32_t child;

	while ((child = 2 * at + 1) < making->lane_count) {
		child += child + 1 < making->lane_count &&
			 is_lane_before(&making->lanes[child + 1], &making->lanes[child]);
		if (!is_lane_before(&making->lanes[child], &moved))
			break;
		making->lanes[at] = making->lanes[child];
		at = child;
	}
	making->lanes[at] = moved;
}

static void add_lane(struct plays_making *making, uint32_t worker, bool is_polls)
{
	const struct ky_worker *known = &making->trace->workers[worker];
	struct play_lane *lane = &making->lanes[making->lane_count];

	lane->worker = worker;
	lane->rank = is_polls;
	if (ky_cursor_begin(&lane->cursor, is_polls ? &known->polls : &known->wakes, 0))
		making->lane_count++;
}

/* Its turn comes some rows of other lanes later. */
static void fetch_task(const struct plays_making *making, const struct play_lane *lane)
{
	const struct ky_poll_row *poll = (const void *)lane->cursor.at;
	const struct ky_wake_row *wake = (const void *)lane->cursor.at;
	uint32_t task = lane->rank ? poll->task : wake->woken;

	if (task < making->trace->task_count)
		__builtin_prefetch(&making->tasks[task], 1);
}

static void take_spawns(struct plays_making *making, uint64_t by_ns)
{
	for (; making->spawn_at < making->spawn_count; making->spawn_at++) {
		uint32_t task = making->spawns[making->spawn_at];

		if (making->trace->tasks[task].first_ns > by_ns)
			return;
		take_spawn(making, task);
	}
}

static void walk_trace(struct plays_making *making)
{
	for (uint32_t worker = 0; worker < making->trace->worker_count; worker++) {
		add_lane(making, worker, true);
		add_lane(making, worker, false);
	}
	for (uint32_t at = making->lane_count / 2; at-- > 0;)
		sift_lane(making, at);
	while (making->lane_count && !making->failed) {
		struct play_lane *lane = &making->lanes[0];

		take_spawns(making, lane->cursor.time_ns);
		if (lane->rank)
			take_poll(making, lane);
		else
			take_wake(making, lane);
		if (!ky_cursor_next(&lane->cursor))
			*lane = making->lanes[--making->lane_count];
		else
			fetch_task(making, lane);
		sift_lane(making, 0);
	}
}

/* ---- all of it ---- */

static bool is_spawned_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	if (trace->tasks[one].first_ns != trace->tasks[other].first_ns)
		return trace->tasks[one].first_ns < trace->tasks[other].first_ns;
	return one < other;
}

static void list_spawns(struct plays_making *making)
{
	const struct ky_trace *trace = making->trace;

	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		making->tasks[i].poll = KY_PLAY_NONE;
		if ((task->flags & KY_TASK_SPAWN_SEEN) && task->parent < trace->task_count &&
		    task->poll_count)
			making->spawns[making->spawn_count++] = i;
	}
	ky_sort(making->spawns, making->spawn_count, sizeof(*making->spawns), is_spawned_before,
		trace);
}

static bool make_room(struct plays_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_queue_plays *out = making->out;
	size_t workers = (size_t)trace->worker_count + 1, tasks = (size_t)trace->task_count + 1;
	uint64_t polls = 0;

	out->first_polls = ky_alloc(workers * sizeof(*out->first_polls));
	making->walkers = ky_alloc(workers * sizeof(*making->walkers));
	making->lanes = ky_alloc(2 * workers * sizeof(*making->lanes));
	making->tasks = ky_alloc(tasks * sizeof(*making->tasks));
	making->spawns = ky_alloc(tasks * sizeof(*making->spawns));
	if (!out->first_polls || !making->walkers || !making->lanes || !making->tasks ||
	    !making->spawns || ky_histogram_init(&making->reactions) ||
	    ky_histogram_init(&making->searches) || ky_histogram_init(&making->gaps))
		return false;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		struct plays_walker *walker = &making->walkers[worker];

		out->first_polls[worker] = (uint32_t)polls;
		walker->poll = KY_PLAY_NONE;
		walker->has_park = ky_cursor_begin(&walker->parks, &trace->workers[worker].parks,
						   0);
		if (ky_queue_plays_has(trace, worker))
			polls += trace->workers[worker].polls.row_count;
		if (polls >= KY_PLAY_NONE)
			return false;
	}
	out->worker_count = trace->worker_count;
	out->play_count = (uint32_t)polls;
	out->plays = making->plays = ky_alloc(((size_t)polls + 1) * sizeof(*out->plays));
	return out->plays;
}

int ky_queue_plays_make(struct ky_queue_plays *out, const struct ky_trace *trace)
{
	struct plays_making making = {.trace = trace, .out = out};
	bool is_made;

	*out = (struct ky_queue_plays){.trace = trace};
	is_made = make_room(&making);
	if (is_made) {
		list_spawns(&making);
		walk_trace(&making);
		out->reaction_ns = ky_histogram_quantile(&making.reactions, 50, 100);
		out->search_ns = ky_histogram_quantile(&making.searches, 50, 100);
		out->gap_ns = ky_histogram_quantile(&making.gaps, 50, 100);
	}
	ky_free(making.walkers);
	ky_free(making.lanes);
	ky_free(making.tasks);
	ky_free(making.spawns);
	ky_histogram_release(&making.reactions);
	ky_histogram_release(&making.searches);
	ky_histogram_release(&making.gaps);
	return is_made && !making.failed ? 0 : -ENOMEM;
}

void ky_queue_plays_release(struct ky_queue_plays *plays)
{
	ky_free(plays->plays);
	ky_free(plays->first_polls);
	ky_free(plays->outside.items);
	ky_free(plays->kept.items);
	*plays = (struct ky_queue_plays){0};
}
