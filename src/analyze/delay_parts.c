/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/delay_parts.h>

#include <analyze/poll_parts.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <read/stops.h>
#include <read/turns.h>
#include <string.h>

#define STEPS_MAX 262144u /* polls looked at to follow one task through the queues */

const char *ky_part_key(enum ky_part part)
{
	static const char *const keys[KY_PARTS] = {
		[KY_PART_RECORDER_GAP] = "recorder_gap",
		[KY_PART_STOPPED] = "process_stopped",
		[KY_PART_LIFO] = "lifo",
		[KY_PART_BEHIND_CPU] = "behind_poll.on_cpu",
		[KY_PART_BEHIND_BLOCKED] = "behind_poll.blocked",
		[KY_PART_BEHIND_RUNNABLE] = "behind_poll.runnable",
		[KY_PART_BEHIND_UNSPLIT] = "behind_poll.unsplit",
		[KY_PART_PARKED] = "parked_unsplit",
		[KY_PART_PARKED_NOTIFIED] = "parked_notified",
		[KY_PART_PARKED_QUIET] = "parked_unnotified",
		[KY_PART_HANDOVER] = "handover",
		[KY_PART_SCHEDULER_READY] = "scheduler_runnable",
		[KY_PART_RUNTIME] = "runtime",
		[KY_PART_NO_HOME] = "unknown.no_wake",
		[KY_PART_UNKNOWN_STEAL] = "unknown.steal",
	};

	return part < KY_PARTS ? keys[part] : "unknown";
}

void ky_delay_release(struct ky_delay *delay)
{
	ky_free(delay->parts);
	memset(delay, 0, sizeof(*delay));
}

/* ---- who woke it ---- */

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The wake that made the task ready, on the worker in whose queue it stood then. */
static void find_waker(struct ky_delay *delay, const struct ky_trace *trace, uint8_t home)
{
	uint64_t nearest_ns = KY_WAKE_NEAR_NS,
		 from_ns = delay->ready_ns - ky_earlier(delay->ready_ns, KY_WAKE_NEAR_NS);
	struct ky_wake wake;

	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *wakes = &trace->workers[lane].wakes;

		if (home < KY_HOME_UNKNOWN && lane != home)
			continue;
		for (uint64_t row = ky_column_find(wakes, from_ns); row < wakes->row_count; row++) {
			ky_trace_wake(trace, lane, row, &wake);
			if (wake.time_ns > delay->ready_ns + nearest_ns)
				break;
			if (wake.woken != delay->poll.task ||
			    apart(wake.time_ns, delay->ready_ns) >= nearest_ns)
				continue;
			nearest_ns = apart(wake.time_ns, delay->ready_ns);
			delay->waker = wake.waker;
			delay->wake = wake;
		}
	}
	if (delay->waker == KY_NONE && nearest_ns == KY_WAKE_NEAR_NS)
		delay->waker = delay->poll.task; /* in its own poll, at whose end it was queued */
}

/* ---- parts ---- */

struct splitter {
	const struct ky_trace *trace;
	const struct ky_split *split;
	struct ky_delay *delay;
	uint64_t lifo_row; /* of the home's polls: the one that woke it last; KY_NO_ROW */
	bool failed;
};

static void add_part(struct splitter *splitter, enum ky_part part, uint64_t ns, uint32_t worker,
		     uint64_t poll_row)
{
	struct ky_delay *delay = splitter->delay;
	struct ky_delay_part *last = delay->part_count ? &delay->parts[delay->part_count - 1] :
							 NULL;

	if (!ns)
		return;
	delay->sums[part] += ns;
	if (last && last->part == part && last->worker == worker && last->poll_row == poll_row) {
		last->ns += ns;
		return;
	}
	if (ky_grow(&delay->parts, &delay->part_capacity, delay->part_count + 1,
		    sizeof(*delay->parts))) {
		splitter->failed = true;
		return;
	}
	delay->parts[delay->part_count++] = (struct ky_delay_part){ns, poll_row, worker,
								   (uint8_t)part};
}

/* A part of a poll, or of the time between polls, by the times off CPU in it. What they leave is
 * `rest`. Such times are short: one that is longer than a poll is split where the poll is. */
static void split_by_rows(struct splitter *splitter, uint32_t worker, uint64_t poll_row,
			  uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns, enum ky_part rest)
{
	const struct ky_samples *samples = &splitter->trace->samples;
	bool is_poll = poll_row != KY_NO_ROW;

	for (uint32_t i = ky_samples_of_from(samples, KY_STACK_OFF_CPU, begin_ns);
	     i < samples->row_count && from_ns < to_ns; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		uint64_t end_ns = row->time_ns + row->value, ready_ns = end_ns;

		if (row->time_ns >= to_ns)
			break;
		if (row->kind != KY_STACK_OFF_CPU || row->worker != worker || end_ns <= from_ns)
			continue;
		if (row->reason == KY_WAIT_PREEMPTED)
			ready_ns = row->time_ns;
		else if (row->woken_ns >= row->time_ns && row->woken_ns < end_ns)
			ready_ns = row->woken_ns;
		end_ns = ky_earlier(end_ns, to_ns);
		if (row->time_ns > from_ns) {
			add_part(splitter, rest, row->time_ns - from_ns, worker, poll_row);
			from_ns = row->time_ns;
		}
		if (ready_ns > from_ns) {
			ready_ns = ky_earlier(ready_ns, end_ns);
			add_part(splitter, is_poll ? KY_PART_BEHIND_BLOCKED : KY_PART_RUNTIME,
				 ready_ns - from_ns, worker, poll_row);
			from_ns = ready_ns;
		}
		if (end_ns > from_ns) {
			add_part(splitter,
				 is_poll ? KY_PART_BEHIND_RUNNABLE : KY_PART_SCHEDULER_READY,
				 end_ns - from_ns, worker, poll_row);
			from_ns = end_ns;
		}
	}
	if (from_ns < to_ns)
		add_part(splitter, rest, to_ns - from_ns, worker, poll_row);
}

/* [from, to) of a poll. Its cost is exact for the whole of it; for a part of it only where the
 * thread was never taken off its CPU. */
static void split_poll(struct splitter *splitter, const struct ky_poll *poll, uint64_t row,
		       uint64_t from_ns, uint64_t to_ns)
{
	uint64_t length = to_ns - from_ns;
	struct ky_poll_parts parts;

	if (poll->flags & (KY_POLL_GAP | KY_POLL_END_UNPROVEN)) {
		add_part(splitter, KY_PART_RECORDER_GAP, length, poll->worker, row);
		return;
	}
	if (row == splitter->lifo_row) {
		add_part(splitter, KY_PART_LIFO, length, poll->worker, row);
		return;
	}
	if (!ky_poll_parts(splitter->trace, poll, &parts)) {
		split_by_rows(splitter, poll->worker, row, poll->start_ns, from_ns, to_ns,
			      KY_PART_BEHIND_UNSPLIT);
		return;
	}
	if (!parts.off_ns) {
		add_part(splitter, KY_PART_BEHIND_CPU, length, poll->worker, row);
		return;
	}
	if (length < poll->duration_ns || parts.blocked_ns == UINT64_MAX) {
		split_by_rows(splitter, poll->worker, row, poll->start_ns, from_ns, to_ns,
			      KY_PART_BEHIND_UNSPLIT);
		return;
	}
	parts.cpu_ns = ky_earlier(parts.cpu_ns, length);
	parts.delay_ns = ky_earlier(parts.delay_ns, length - parts.cpu_ns);
	add_part(splitter, KY_PART_BEHIND_CPU, parts.cpu_ns, poll->worker, row);
	add_part(splitter, KY_PART_BEHIND_RUNNABLE, parts.delay_ns, poll->worker, row);
	add_part(splitter, KY_PART_BEHIND_BLOCKED, length - parts.cpu_ns - parts.delay_ns,
		 poll->worker, row);
}

/* Does no poll and no park of the worker begin in (from, to]? */
static bool is_between(const struct ky_trace *trace, uint32_t worker, uint64_t from_ns,
		       uint64_t to_ns)
{
	const struct ky_worker *known = &trace->workers[worker];

	return ky_column_find(&known->polls, from_ns + 1) ==
		       ky_column_find(&known->polls, to_ns + 1) &&
	       ky_column_find(&known->parks, from_ns + 1) ==
		       ky_column_find(&known->parks, to_ns + 1);
}

/* Neither in a poll nor parked. Where the worker goes to another thread, that one's first event
 * ends such a time. */
static void split_between(struct splitter *splitter, uint32_t worker, uint64_t from_ns,
			  uint64_t to_ns)
{
	uint64_t moved_ns = ky_trace_moved_before(splitter->trace, worker, to_ns);

	if (moved_ns > from_ns ||
	    (moved_ns && is_between(splitter->trace, worker, moved_ns, from_ns))) {
		moved_ns = ky_later(moved_ns, from_ns);
		split_by_rows(splitter, worker, KY_NO_ROW, from_ns, from_ns, moved_ns,
			      KY_PART_RUNTIME);
		add_part(splitter, KY_PART_HANDOVER, to_ns - moved_ns, worker, KY_NO_ROW);
		return;
	}
	split_by_rows(splitter, worker, KY_NO_ROW, from_ns, from_ns, to_ns, KY_PART_RUNTIME);
}

static void split_park(struct splitter *splitter, uint32_t worker, const struct ky_park *park,
		       uint64_t from_ns, uint64_t to_ns)
{
	uint64_t notified_ns;

	if (park->flags & KY_PARK_GAP) {
		add_part(splitter, KY_PART_RECORDER_GAP, to_ns - from_ns, worker, KY_NO_ROW);
		return;
	}
	if (!ky_notified_at(splitter->split->notified, worker, park, &notified_ns)) {
		add_part(splitter, KY_PART_PARKED, to_ns - from_ns, worker, KY_NO_ROW);
		return;
	}
	notified_ns = ky_later(ky_earlier(notified_ns, to_ns), from_ns);
	add_part(splitter, KY_PART_PARKED_QUIET, notified_ns - from_ns, worker, KY_NO_ROW);
	add_part(splitter, KY_PART_PARKED_NOTIFIED, to_ns - notified_ns, worker, KY_NO_ROW);
}

/* Outside of polls: parks, and what is between. */
static void split_gap(struct splitter *splitter, uint32_t worker, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_column *parks = &splitter->trace->workers[worker].parks;
	uint64_t row = ky_column_find(parks, from_ns);
	struct ky_park park;

	if (row > 0) /* the one that may still last */
		row--;
	for (; row < parks->row_count && from_ns < to_ns; row++) {
		uint64_t end_ns;

		ky_trace_park(splitter->trace, worker, row, &park);
		end_ns = ky_earlier(park.start_ns + park.duration_ns, to_ns);
		if (park.start_ns >= to_ns)
			break;
		if (end_ns <= from_ns)
			continue;
		if (park.start_ns > from_ns) {
			split_between(splitter, worker, from_ns, park.start_ns);
			from_ns = park.start_ns;
		}
		split_park(splitter, worker, &park, from_ns, end_ns);
		from_ns = end_ns;
	}
	if (from_ns < to_ns)
		split_between(splitter, worker, from_ns, to_ns);
}

/* What a worker did in [from, to), without losses inside. */
static void split_known(struct splitter *splitter, uint32_t worker, uint64_t from_ns,
			uint64_t to_ns)
{
	const struct ky_column *polls = &splitter->trace->workers[worker].polls;
	uint64_t row = ky_column_find(polls, from_ns);
	struct ky_poll poll;

	if (row > 0)
		row--;
	for (; row < polls->row_count && from_ns < to_ns; row++) {
		uint64_t end_ns;

		ky_trace_poll(splitter->trace, worker, row, &poll);
		end_ns = ky_earlier(poll.start_ns + poll.duration_ns, to_ns);
		if (poll.start_ns >= to_ns)
			break;
		if (end_ns <= from_ns)
			continue;
		if (poll.start_ns > from_ns) {
			split_gap(splitter, worker, from_ns, poll.start_ns);
			from_ns = poll.start_ns;
		}
		split_poll(splitter, &poll, row, from_ns, end_ns);
		from_ns = end_ns;
	}
	if (from_ns < to_ns)
		split_gap(splitter, worker, from_ns, to_ns);
}

/* ... and stops of the process next. */
static void split_running(struct splitter *splitter, uint32_t worker, uint64_t from_ns,
			  uint64_t to_ns)
{
	const struct ky_trace *trace = splitter->trace;
	const struct ky_trace_stop *stop = ky_trace_stop_after(trace, from_ns);

	for (; stop && stop < trace->stops + trace->stop_count && stop->from_ns < to_ns; stop++) {
		uint64_t stop_ns = ky_later(stop->from_ns, from_ns);

		if (stop_ns > from_ns)
			split_known(splitter, worker, from_ns, stop_ns);
		from_ns = ky_earlier(stop->to_ns, to_ns);
		add_part(splitter, KY_PART_STOPPED, from_ns - stop_ns, KY_NONE, KY_NO_ROW);
	}
	if (from_ns < to_ns)
		split_known(splitter, worker, from_ns, to_ns);
}

/* ... losses first. */
static void split_worker(struct splitter *splitter, uint32_t worker, uint64_t from_ns,
			 uint64_t to_ns)
{
	const struct ky_trace *trace = splitter->trace;

	for (uint32_t i = 0; i < trace->loss_count && from_ns < to_ns; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];
		uint64_t end_ns = ky_earlier(loss->to_ns, to_ns);

		if (loss->from_ns >= to_ns)
			break;
		if (end_ns <= from_ns || !ky_trace_is_loss_of(&trace->workers[worker], loss))
			continue;
		if (loss->from_ns > from_ns) {
			split_running(splitter, worker, from_ns, loss->from_ns);
			from_ns = loss->from_ns;
		}
		add_part(splitter, KY_PART_RECORDER_GAP, end_ns - from_ns, worker, KY_NO_ROW);
		from_ns = end_ns;
	}
	if (from_ns < to_ns)
		split_running(splitter, worker, from_ns, to_ns);
}

/* Whose queue it stood in, or that of which worker, is not known: a stop of the process is. */
static void split_unknown(struct splitter *splitter, enum ky_part part, uint32_t worker,
			  uint64_t from_ns, uint64_t to_ns)
{
	uint64_t stopped_ns = ky_trace_stopped_ns(splitter->trace, from_ns, to_ns);

	add_part(splitter, KY_PART_STOPPED, stopped_ns, KY_NONE, KY_NO_ROW);
	add_part(splitter, part, to_ns - from_ns - stopped_ns, worker, KY_NO_ROW);
}

/* The poll in which the task was woken, where that was the last wake of it and the task was polled
 * right after it: it stood in the LIFO slot. */
static uint64_t find_lifo(const struct ky_trace *trace, const struct ky_delay *delay,
			  uint64_t poll_row)
{
	const struct ky_worker *home = &trace->workers[delay->home];
	struct ky_poll waking;
	struct ky_wake wake;
	uint64_t row;

	if (delay->is_moved || !poll_row || delay->waker == delay->poll.task)
		return KY_NO_ROW;
	ky_trace_poll(trace, delay->home, poll_row - 1, &waking);
	if (waking.start_ns > delay->ready_ns ||
	    waking.start_ns + waking.duration_ns <= delay->ready_ns)
		return KY_NO_ROW;
	row = ky_column_find(&home->wakes, waking.start_ns + waking.duration_ns);
	if (!row)
		return KY_NO_ROW;
	ky_trace_wake(trace, delay->home, row - 1, &wake);
	return wake.woken == delay->poll.task &&
			       apart(wake.time_ns, delay->ready_ns) < KY_WAKE_NEAR_NS ?
		       poll_row - 1 :
		       KY_NO_ROW;
}

/* ---- through which queues it went ---- */

/* A worker polls a task: one that it took out of its own queue, or stole. */
struct taken {
	struct ky_poll poll;
	uint64_t row;
	uint64_t ready_ns;
	uint64_t free_ns; /* the worker was done with what it did before */
	uint8_t home;
};

/* Where the task stands, and since when. A batch that is stolen keeps its order and goes before all
 * that becomes ready there later. */
struct queue_place {
	uint64_t since_ns;
	uint64_t batch_ns; /* of the tasks of its home those ready before came along */
	uint32_t worker;
	bool is_home;
};

static void read_taken(struct taken *taken, const struct ky_split *split, uint32_t worker,
		       uint64_t row)
{
	const struct ky_column *parks = &split->trace->workers[worker].parks;
	struct ky_poll before;
	struct ky_park park;
	uint64_t at;

	ky_trace_poll(split->trace, worker, row, &taken->poll);
	taken->row = row;
	taken->home = split->homes->homes[worker][row];
	taken->ready_ns = taken->poll.start_ns;
	if (!taken->poll.delay_state)
		taken->ready_ns -= taken->poll.delay_ns;
	taken->free_ns = 0;
	if (row) {
		ky_trace_poll(split->trace, worker, row - 1, &before);
		taken->free_ns = before.start_ns + before.duration_ns;
	}
	at = ky_column_find(parks, taken->poll.start_ns);
	if (at) {
		ky_trace_park(split->trace, worker, at - 1, &park);
		taken->free_ns = ky_later(taken->free_ns, park.start_ns + park.duration_ns);
	}
	taken->free_ns = ky_earlier(taken->free_ns, taken->poll.start_ns);
}

/* Did it stand behind our task in the same queue? */
static bool was_behind(const struct ky_delay *delay, const struct queue_place *at,
		       const struct taken *taken)
{
	if (taken->home == delay->home && taken->ready_ns > delay->ready_ns &&
	    (at->is_home || taken->ready_ns < at->batch_ns))
		return true;
	return !at->is_home && taken->home == at->worker && taken->ready_ns > at->since_ns;
}

/* Woken since the worker began what it did last, a poll or a turn of the driver: perhaps it was in
 * the LIFO slot, which is taken first. */
static bool is_perhaps_lifo(const struct ky_split *split, uint32_t worker,
			    const struct taken *taken)
{
	return taken->home == worker && taken->row &&
	       taken->ready_ns >=
		       ky_column_time(&split->trace->workers[worker].polls, taken->row - 1);
}

/* The first of a worker's polls in (since, before] that says that our task went along, or had gone
 * before. Returns false where there is none; *steps counts down. */
static bool find_taken(const struct ky_split *split, const struct ky_delay *delay,
		       const struct queue_place *at, uint32_t worker, uint64_t before_ns,
		       uint32_t *steps, struct taken *out)
{
	const struct ky_column *polls = &split->trace->workers[worker].polls;
	uint64_t row = ky_column_find(polls, at->since_ns);

	for (; row < polls->row_count && *steps; row++, --*steps) {
		uint8_t home = split->homes->homes[worker][row];

		if (ky_column_time(polls, row) >= before_ns)
			return false;
		/* Cheap first: most polls are of other queues. */
		if (home != delay->home && home != at->worker)
			continue;
		read_taken(out, split, worker, row);
		if (was_behind(delay, at, out) &&
		    (worker != at->worker || !is_perhaps_lifo(split, worker, out)))
			return true;
	}
	return false;
}

static bool may_steal(const struct ky_trace *trace, uint32_t thief, uint32_t from)
{
	uint32_t runtime = trace->workers[thief].runtime, other = trace->workers[from].runtime;

	return thief != from && ky_poll_homes_has_queue(trace, thief) &&
	       (runtime == other || runtime == KY_NONE || other == KY_NONE);
}

/* When the worker parks, its queue is empty. */
static uint64_t first_park(const struct ky_trace *trace, uint32_t worker, uint64_t from_ns,
			   uint64_t to_ns)
{
	const struct ky_column *parks = &trace->workers[worker].parks;
	uint64_t row = ky_column_find(parks, from_ns);

	return row < parks->row_count ? ky_earlier(ky_column_time(parks, row), to_ns) : to_ns;
}

/* From here on nothing says where it stood, until the worker that polls it at last has it. */
static void split_lost(struct splitter *splitter, const struct taken *last, uint64_t from_ns)
{
	const struct ky_delay *delay = splitter->delay;
	uint64_t to_ns = ky_later(from_ns, last->free_ns);

	split_unknown(splitter, KY_PART_UNKNOWN_STEAL, KY_NONE, from_ns, to_ns);
	split_worker(splitter, delay->poll.worker, to_ns, delay->poll.start_ns);
}

/* From when on it cannot have stood there any more. */
static uint64_t find_gone(const struct ky_split *split, const struct ky_delay *delay,
			  const struct queue_place *at, uint32_t *steps)
{
	uint64_t gone_ns = first_park(split->trace, at->worker, at->since_ns, delay->poll.start_ns);
	struct taken taken;

	if (find_taken(split, delay, at, at->worker, gone_ns, steps, &taken))
		gone_ns = ky_later(taken.free_ns, at->since_ns);
	return gone_ns;
}

/* The thief of the next steal, or worker KY_NONE: it was polled where it stands, or it is lost from
 * *lost_ns on. */
static uint32_t find_thief(struct splitter *splitter, const struct queue_place *at, uint32_t *steps,
			   struct taken *out, uint64_t *lost_ns)
{
	const struct ky_split *split = splitter->split;
	const struct ky_delay *delay = splitter->delay;
	uint64_t end_ns = delay->poll.start_ns;
	uint32_t thief = KY_NONE;
	struct taken taken;

	*lost_ns = UINT64_MAX;
	for (uint32_t worker = 0; worker < split->trace->worker_count; worker++) {
		if (!may_steal(split->trace, worker, at->worker))
			continue;
		if (*lost_ns == UINT64_MAX) { /* else there is none that it may have gone to */
			*lost_ns = find_gone(split, delay, at, steps);
			end_ns = ky_earlier(end_ns, *lost_ns);
		}
		if (!find_taken(split, delay, at, worker, end_ns, steps, &taken))
			continue;
		thief = worker;
		*out = taken;
		end_ns = taken.poll.start_ns;
	}
	return thief;
}

/* Follows it from queue to queue. A thief takes the older half of a queue and polls the youngest of
 * them first: a poll of a task that stood behind ours shows that ours was stolen with it. */
static void split_queues(struct splitter *splitter, const struct taken *last)
{
	struct ky_delay *delay = splitter->delay;
	struct queue_place at = {delay->ready_ns, 0, delay->home, true};
	uint32_t steps = STEPS_MAX;

	for (;;) {
		uint64_t lost_ns, from_ns;
		struct taken taken;
		uint32_t thief = find_thief(splitter, &at, &steps, &taken, &lost_ns);

		if (thief == KY_NONE && at.worker != delay->poll.worker &&
		    lost_ns >= last->free_ns) {
			thief = delay->poll.worker; /* it was the youngest of the batch */
			taken = *last;
			lost_ns = delay->poll.start_ns;
		}
		if (!steps || (thief == KY_NONE && lost_ns < delay->poll.start_ns)) {
			split_worker(splitter, at.worker, at.since_ns, lost_ns);
			split_lost(splitter, last, lost_ns);
			return;
		}
		if (thief == KY_NONE)
			break;
		from_ns = ky_later(taken.free_ns, at.since_ns);
		delay->ambiguous_ns += taken.poll.start_ns - from_ns;
		delay->steal_ns = taken.poll.start_ns;
		delay->steal_count++;
		split_worker(splitter, at.worker, at.since_ns, from_ns);
		at = (struct queue_place){from_ns, at.is_home ? taken.ready_ns : at.batch_ns, thief,
					  false};
		if (taken.poll.task == delay->poll.task &&
		    taken.poll.start_ns == delay->poll.start_ns)
			break;
	}
	split_worker(splitter, delay->poll.worker, at.since_ns, delay->poll.start_ns);
}

bool ky_delay_split(struct ky_delay *delay, const struct ky_split *split,
		    const struct ky_poll *poll)
{
	const struct ky_trace *trace = split->trace;
	struct splitter splitter = {
		.trace = trace, .split = split, .delay = delay, .lifo_row = KY_NO_ROW};
	struct taken last;

	read_taken(&last, split, poll->worker,
		   ky_column_find(&trace->workers[poll->worker].polls, poll->start_ns));
	delay->poll = *poll;
	delay->delay_ns = poll->delay_ns;
	delay->ready_ns = poll->start_ns - poll->delay_ns;
	delay->steal_ns = delay->ambiguous_ns = 0;
	delay->part_count = delay->steal_count = 0;
	memset(delay->sums, 0, sizeof(delay->sums));
	delay->is_wake_known = last.home != KY_HOME_UNKNOWN;
	delay->home = last.home < KY_HOME_UNKNOWN ? last.home : KY_NONE;
	delay->waker = KY_NONE;
	delay->wake = (struct ky_wake){.stack = KY_NONE};
	if (!delay->is_wake_known || !ky_poll_homes_has_queue(trace, poll->worker)) {
		/* Whose queue it stood in is not known. */
		split_unknown(&splitter, KY_PART_NO_HOME, poll->worker, delay->ready_ns,
			      poll->start_ns);
		return !splitter.failed;
	}
	find_waker(delay, trace, last.home);
	delay->is_moved = delay->home != KY_NONE && delay->home != poll->worker;
	if (delay->home == KY_NONE) {
		split_worker(&splitter, poll->worker, delay->ready_ns, poll->start_ns);
		return !splitter.failed;
	}
	splitter.lifo_row = find_lifo(trace, delay, last.row);
	split_queues(&splitter, &last);
	return !splitter.failed;
}
