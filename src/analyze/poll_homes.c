/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/poll_homes.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

struct task_seen {
	uint64_t woken_ns, polled_to_ns; /* first wake since that; its last poll. 0: none */
	uint8_t woken_by, polled_by;
};

/* One worker's polls or wakes, in the order of time. */
struct lane {
	struct ky_cursor cursor;
	uint32_t worker;
	uint8_t home; /* of what it wakes, or polls */
	bool is_polls;
};

/* When a lane's next row comes. */
struct lane_turn {
	uint64_t time_ns;
	uint32_t lane;
	bool is_polls;
};

struct homes_making {
	const struct ky_trace *trace;
	struct ky_poll_homes *homes;
	struct task_seen *tasks;
	struct lane *lanes;
	struct lane_turn *turns; /* a heap by time */
	uint32_t lane_count, turn_count;
};

bool ky_poll_homes_has_queue(const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *known = &trace->workers[worker];

	return worker < KY_HOME_UNKNOWN && known->is_worker && !known->is_thread_lane &&
	       !known->is_shared;
}

/* A wake before the poll that begins at the same stamp. */
static bool is_before(const struct lane_turn *a, const struct lane_turn *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	return a->is_polls < b->is_polls;
}

static void sift(struct homes_making *making, uint32_t at)
{
	struct lane_turn moved = making->turns[at];
	uint32_t child;

	while ((child = 2 * at + 1) < making->turn_count) {
		if (child + 1 < making->turn_count &&
		    is_before(&making->turns[child + 1], &making->turns[child]))
			child++;
		if (!is_before(&making->turns[child], &moved))
			break;
		making->turns[at] = making->turns[child];
		at = child;
	}
	making->turns[at] = moved;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void take_wake(struct homes_making *making, const struct lane *lane)
{
	const struct ky_wake_row *wake = (const void *)lane->cursor.at;
	struct task_seen *task;

	if (wake->woken >= making->trace->task_count)
		return;
	task = &making->tasks[wake->woken];
	if (task->woken_ns && task->woken_ns >= task->polled_to_ns)
		return;
	task->woken_ns = lane->cursor.time_ns;
	task->woken_by = lane->home;
}

static uint8_t find_home(const struct task_seen *task, const struct ky_poll *poll)
{
	uint64_t ready_ns = poll->start_ns - poll->delay_ns, nearest_ns = KY_WAKE_NEAR_NS;
	uint8_t home = KY_HOME_UNKNOWN;

	if (poll->delay_state)
		return KY_HOME_UNKNOWN;
	if (task->woken_ns && apart(task->woken_ns, ready_ns) < nearest_ns) {
		nearest_ns = apart(task->woken_ns, ready_ns);
		home = task->woken_by;
	}
	if (task->polled_to_ns && apart(task->polled_to_ns, ready_ns) < nearest_ns)
		home = task->polled_by;
	return home;
}

static void take_poll(struct homes_making *making, const struct lane *lane)
{
	struct task_seen *task;
	struct ky_poll poll;

	ky_trace_poll_at(making->trace, lane->worker, &lane->cursor, &poll);
	task = &making->tasks[poll.task];
	making->homes->homes[lane->worker][lane->cursor.row] = find_home(task, &poll);
	task->polled_to_ns = poll.start_ns + poll.duration_ns;
	task->polled_by = lane->home;
	task->woken_ns = 0;
}

static void add_lane(struct homes_making *making, uint32_t worker, bool is_polls)
{
	const struct ky_worker *known = &making->trace->workers[worker];
	struct lane *lane = &making->lanes[making->lane_count];

	lane->worker = worker;
	lane->is_polls = is_polls;
	lane->home = (uint8_t)(ky_poll_homes_has_queue(making->trace, worker) ? worker :
										KY_HOME_NONE);
	if (ky_cursor_begin(&lane->cursor, is_polls ? &known->polls : &known->wakes, 0))
		making->turns[making->turn_count++] = (struct lane_turn){
			lane->cursor.time_ns, making->lane_count++, is_polls};
}

static void merge(struct homes_making *making)
{
	for (uint32_t at = making->turn_count / 2; at-- > 0;)
		sift(making, at);
	while (making->turn_count) {
		struct lane *lane = &making->lanes[making->turns[0].lane];

		if (lane->is_polls)
			take_poll(making, lane);
		else
			take_wake(making, lane);
		if (ky_cursor_next(&lane->cursor))
			making->turns[0].time_ns = lane->cursor.time_ns;
		else
			making->turns[0] = making->turns[--making->turn_count];
		sift(making, 0);
	}
}

static bool make_room(struct homes_making *making)
{
	const struct ky_trace *trace = making->trace;
	size_t task_bytes = ((size_t)trace->task_count + 1) * sizeof(*making->tasks);

	making->tasks = ky_alloc(task_bytes);
	making->lanes = ky_alloc(((size_t)trace->worker_count * 2 + 1) * sizeof(*making->lanes));
	making->turns = ky_alloc(((size_t)trace->worker_count * 2 + 1) * sizeof(*making->turns));
	making->homes->homes = ky_alloc(((size_t)trace->worker_count + 1) *
					sizeof(*making->homes->homes));
	if (!making->tasks || !making->lanes || !making->turns || !making->homes->homes)
		return false;
	memset(making->tasks, 0, task_bytes);
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t rows = trace->workers[worker].polls.row_count;
		uint8_t *homes = ky_alloc((size_t)rows + 1);

		if (!homes)
			return false;
		making->homes->homes[making->homes->worker_count++] = homes;
	}
	return true;
}

int ky_poll_homes_make(struct ky_poll_homes *out, const struct ky_trace *trace)
{
	struct homes_making making = {.trace = trace, .homes = out};
	bool is_made;

	*out = (struct ky_poll_homes){0};
	is_made = make_room(&making);
	if (is_made) {
		for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
			add_lane(&making, worker, true);
			add_lane(&making, worker, false);
		}
		merge(&making);
	}
	ky_free(making.tasks);
	ky_free(making.lanes);
	ky_free(making.turns);
	if (is_made)
		return 0;
	ky_poll_homes_release(out);
	return -ENOMEM;
}

void ky_poll_homes_release(struct ky_poll_homes *homes)
{
	for (uint32_t worker = 0; worker < homes->worker_count; worker++)
		ky_free(homes->homes[worker]);
	ky_free(homes->homes);
	*homes = (struct ky_poll_homes){0};
}
