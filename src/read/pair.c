/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From the edges of one worker, in time order, to its polls and parks.
 *
 * A poll ends by its PollEnd or by the worker's park, which proves that it was over. The worker's
 * next PollStart proves nothing about when the last one ended: such an end is counted, not
 * believed.
 */
#include <read/load.h>
#include <string.h>

#define NEST_MAX 16u
#define NO_NAME 0xffffffu
#define LOSSES_CHECKED_MAX 64u /* per poll inside a gap; beyond that it counts as its thread's */

struct open_poll {
	uint64_t start_ns;
	uint64_t delay_ns; /* recorded by the writer; UINT64_MAX: not */
	uint32_t task, name, flags;
};

struct pairing {
	struct ky_trace *trace;
	struct ky_worker *worker;
	uint32_t lane;
	uint32_t gap; /* first gap that may still matter */
	struct open_poll open[NEST_MAX];
	uint32_t depth;
	uint32_t depth_beyond;    /* starts deeper than NEST_MAX whose ends are still to come */
	struct ky_poll_row *poll; /* the last one that ended */
	uint64_t poll_start_ns;
	struct ky_park_row *park; /* the last one, for what comes after its unpark */
	uint64_t park_start_ns;
	uint32_t park_tid, park_wait, park_timeout;
	uint32_t tid; /* that served it last */
	bool is_parked;
};

uint32_t ky_long_duration(struct ky_trace *trace, uint64_t duration_ns)
{
	struct ky_trace_private *private = trace->private;

	if (!ky_pages_array(&trace->pages, &private->long_durations, &private->long_capacity,
			    private->long_count + 1, sizeof(*private->long_durations)))
		return UINT32_MAX;
	private->long_durations[private->long_count] = duration_ns;
	return private->long_count++;
}

/* Does a loss of this lane's thread lie in [from, to]? */
static bool has_gap(struct pairing *pairing, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace *trace = pairing->trace;
	const struct ky_trace_private *private = trace->private;
	uint32_t i, checked, low = 0, high = trace->loss_count;

	while (pairing->gap < private->gap_count && private->gaps[pairing->gap].to_ns < from_ns)
		pairing->gap++;
	if (pairing->gap == private->gap_count || private->gaps[pairing->gap].from_ns > to_ns)
		return false;
	while (low < high) { /* losses that begin at or before `to` are [0, low) */
		i = low + (high - low) / 2;
		if (trace->losses[i].from_ns <= to_ns)
			low = i + 1;
		else
			high = i;
	}
	for (checked = 0, i = low; i-- > 0; checked++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		if (checked == LOSSES_CHECKED_MAX)
			return true;
		if (loss->to_ns < from_ns)
			continue;
		if (ky_trace_is_loss_of(pairing->worker, loss))
			return true;
	}
	return false;
}

static inline bool add_poll(struct pairing *pairing, const struct open_poll *open, uint64_t end_ns,
			    uint32_t flags)
{
	struct ky_column *polls = &pairing->worker->polls;
	uint64_t duration_ns = end_ns > open->start_ns ? end_ns - open->start_ns : 0;
	struct ky_poll_row *row = ky_column_append(polls, open->start_ns);
	uint32_t *extra;

	if (!row)
		return false;
	pairing->poll = row;
	pairing->poll_start_ns = open->start_ns;
	flags |= open->flags;
	if (pairing->trace->loss_count > 0 && has_gap(pairing, open->start_ns, end_ns))
		flags |= KY_POLL_GAP;
	row->duration_ns = (uint32_t)duration_ns;
	if (duration_ns > UINT32_MAX) {
		flags |= KY_POLL_LONG;
		row->duration_ns = ky_long_duration(pairing->trace, duration_ns);
	}
	row->task = open->task;
	row->site = open->name | flags << 24;
	extra = ky_column_extra(polls, polls->row_count - 1);
	*extra = KY_DELAY_NO_WAKE;
	if (open->delay_ns < KY_DELAY_LONG)
		*extra = (uint32_t)open->delay_ns;
	else if (open->delay_ns != UINT64_MAX)
		*extra = KY_DELAY_LONG - 1; /* 4.29 s and more: what the writer claims, cut */
	if (pairing->worker->is_thread_lane && pairing->trace->handover_count)
		ky_handovers_end(pairing->trace, pairing->worker->tid, open->start_ns, end_ns);
	pairing->worker->unknown_count += (flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP)) != 0;
	if (flags & KY_POLL_END_UNPROVEN) {
		pairing->worker->end_unproven_count++;
		pairing->trace->end_unproven++;
	}
	return !pairing->trace->pages.failed;
}

static bool close_poll(struct pairing *pairing, uint64_t end_ns, uint32_t flags)
{
	return add_poll(pairing, &pairing->open[--pairing->depth], end_ns, flags);
}

static bool close_all(struct pairing *pairing, uint64_t end_ns, uint32_t flags)
{
	pairing->depth_beyond = 0;
	while (pairing->depth > 0)
		if (!close_poll(pairing, end_ns, flags))
			return false;
	return true;
}

/* It takes the place of the time-out, which no writer that samples it has. */
static void note_sched_wait(struct ky_park_row *park, uint32_t wait_ns)
{
	park->sched_wait_ns = wait_ns;
	park->word &= ~((uint32_t)KY_PARK_TIMEOUT << 24);
}

static bool close_park(struct pairing *pairing, uint64_t end_ns, uint32_t ready, uint32_t flags)
{
	uint64_t duration_ns = end_ns > pairing->park_start_ns ? end_ns - pairing->park_start_ns :
								 0;
	struct ky_park_row *row;

	pairing->is_parked = false;
	row = ky_column_append(&pairing->worker->parks, pairing->park_start_ns);
	pairing->park = row;
	if (!row)
		return false;
	row->duration_ns = (uint32_t)duration_ns;
	if (duration_ns > UINT32_MAX) {
		flags |= KY_PARK_LONG;
		row->duration_ns = ky_long_duration(pairing->trace, duration_ns);
	}
	/* A loss up to the park itself is before it. */
	if (pairing->trace->loss_count > 0 && duration_ns > 1 &&
	    has_gap(pairing, pairing->park_start_ns + 1, end_ns - 1))
		flags |= KY_PARK_GAP;
	pairing->worker->unknown_count += (flags & (KY_PARK_END_UNPROVEN | KY_PARK_GAP)) != 0;
	row->sched_wait_ns = UINT32_MAX;
	if (pairing->park_timeout) {
		row->sched_wait_ns = pairing->park_timeout;
		flags |= KY_PARK_TIMEOUT;
	}
	row->word = ready | pairing->park_wait << 16 | flags << 24;
	return !pairing->trace->pages.failed;
}

static void push_open(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge,
		      uint32_t flags)
{
	struct open_poll *open = &pairing->open[pairing->depth++];

	open->start_ns = time_ns;
	open->delay_ns = UINT64_MAX;
	open->task = edge->task;
	open->name = edge->word & NO_NAME;
	open->flags = flags;
	if (pairing->worker->is_thread_lane)
		open->flags |= KY_POLL_NESTED;
}

/* Is the innermost open poll the one of this task that began then? */
static bool is_innermost(const struct pairing *pairing, uint64_t time_ns, uint32_t task)
{
	const struct open_poll *open;

	if (pairing->depth == 0)
		return false;
	open = &pairing->open[pairing->depth - 1];
	return open->task == task && time_ns - open->start_ns < KY_SAME_START_NS;
}

static bool on_start(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	if (pairing->is_parked && !close_park(pairing, time_ns, 0, KY_PARK_END_UNPROVEN))
		return false;
	/* The snapshot of this very poll, stamped a hair before it. */
	if (is_innermost(pairing, time_ns, edge->task) &&
	    (pairing->open[pairing->depth - 1].flags & KY_POLL_FROM_SNAPSHOT))
		pairing->depth--;
	if (pairing->worker->is_thread_lane) {
		if (pairing->depth == NEST_MAX)
			pairing->depth_beyond++;
		else
			push_open(pairing, time_ns, edge, 0);
		return true;
	}
	if (!close_all(pairing, time_ns, KY_POLL_END_UNPROVEN))
		return false;
	push_open(pairing, time_ns, edge, 0);
	return true;
}

/* Does a time that was not recorded lie between? */
static bool is_unrecorded(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	for (uint32_t i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		if (loss->from_ns >= from_ns && loss->from_ns < to_ns &&
		    strcmp(ky_trace_name(trace, loss->cause), KY_CAUSE_NOT_RECORDED) == 0)
			return true;
	}
	return false;
}

/* On a thread's lane each open poll has a snapshot, the outermost first. */
static bool on_nested_snapshot(struct pairing *pairing, uint64_t time_ns,
			       const struct ky_edge_row *edge, uint32_t flags)
{
	if (is_innermost(pairing, time_ns, edge->task))
		pairing->open[pairing->depth - 1].flags |= flags & KY_POLL_AT_EXIT;
	else if (pairing->depth < NEST_MAX)
		push_open(pairing, time_ns, edge, flags);
	return true;
}

static bool on_snapshot(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge,
			bool is_at_exit)
{
	uint32_t at_exit = is_at_exit ? KY_POLL_AT_EXIT : 0;

	if (pairing->worker->is_thread_lane)
		return on_nested_snapshot(pairing, time_ns, edge, KY_POLL_FROM_SNAPSHOT | at_exit);
	/* Its end is not in a recording. */
	if (pairing->depth > 0 && pairing->trace->unrecorded_count &&
	    is_unrecorded(pairing->trace, pairing->open[0].start_ns, time_ns) &&
	    !close_all(pairing, time_ns, KY_POLL_END_UNPROVEN))
		return false;
	if (pairing->depth > 0) {
		if (pairing->open[0].task == edge->task)
			pairing->open[0].flags |= at_exit;
		return true; /* another poll is open there: its own events say more */
	}
	if (pairing->is_parked && !close_park(pairing, time_ns, 0, KY_PARK_END_UNPROVEN))
		return false;
	push_open(pairing, time_ns, edge, KY_POLL_FROM_SNAPSHOT | at_exit);
	return true;
}

static bool on_end(struct pairing *pairing, uint64_t time_ns)
{
	if (pairing->depth_beyond > 0) {
		pairing->depth_beyond--;
		return true;
	}
	if (pairing->depth > 0)
		return close_poll(pairing, time_ns, 0);
	pairing->worker->end_without_start++;
	return true;
}

/* A start and its end at once: nothing to open where nothing is open. */
static bool on_poll(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	struct open_poll poll = {time_ns, UINT64_MAX, edge->task, edge->word & NO_NAME, 0};
	uint64_t end_ns = time_ns + edge->duration_ns;

	if (pairing->depth == 0 && !pairing->is_parked && !pairing->worker->is_thread_lane)
		return add_poll(pairing, &poll, end_ns, 0);
	return on_start(pairing, time_ns, edge) && on_end(pairing, end_ns);
}

/* A reader that knows only the thread has to find the worker. */
static bool note_tid(struct pairing *pairing, uint64_t time_ns, uint32_t tid)
{
	struct ky_trace_private *private = pairing->trace->private;

	if (tid == 0)
		return true;
	pairing->worker->tid = tid;
	if (tid == pairing->tid || pairing->worker->is_shared)
		return true;
	if (!ky_pages_array(&pairing->trace->pages, &private->served, &private->served_capacity,
			    private->served_count + 1, sizeof(*private->served)))
		return false;
	private->served[private->served_count++] = (struct ky_served){time_ns, pairing->lane, tid};
	pairing->tid = tid;
	return true;
}

static bool on_park(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	if (!close_all(pairing, time_ns, KY_POLL_ENDED_BY_PARK))
		return false;
	if (pairing->is_parked && !close_park(pairing, time_ns, 0, KY_PARK_END_UNPROVEN))
		return false;
	pairing->is_parked = true;
	pairing->park_start_ns = time_ns;
	pairing->park_tid = edge->task;
	pairing->park_wait = edge->word & 0xff;
	pairing->park_timeout = edge->word >> 8 & 0xffff;
	return note_tid(pairing, time_ns, edge->task);
}

static bool on_unpark(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	uint32_t flags = 0;

	pairing->park = NULL;
	if (!note_tid(pairing, time_ns, edge->task))
		return false;
	/* Its park was lost, and with it the poll's end. */
	if (!close_all(pairing, time_ns, KY_POLL_END_UNPROVEN))
		return false;
	if (!pairing->is_parked)
		return true;
	if (edge->task != 0 && pairing->park_tid != 0 && edge->task != pairing->park_tid) {
		flags = KY_PARK_MOVED;
		pairing->worker->moved_count++;
	}
	return close_park(pairing, time_ns, edge->word & 0xffff, flags);
}

/* The poll that blocks in place ends for its worker when the other thread is on its way. */
static bool on_move(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	const struct ky_trace_private *private = pairing->trace->private;
	uint64_t since_ns = time_ns - edge->duration_ns, start_ns = pairing->poll_start_ns;
	uint32_t last = private->served_count;
	uint64_t *length = NULL;

	pairing->worker->moved_count++;
	if (last && private->served[last - 1].worker == pairing->lane &&
	    private->served[last - 1].from_ns > since_ns)
		since_ns = time_ns;
	if (pairing->poll && pairing->poll->site >> 24 & KY_POLL_LONG)
		length = &private->long_durations[pairing->poll->duration_ns];
	if (pairing->poll && since_ns > start_ns) {
		if (length && start_ns + *length == time_ns)
			*length = since_ns - start_ns;
		else if (!length && start_ns + pairing->poll->duration_ns == time_ns)
			pairing->poll->duration_ns = (uint32_t)(since_ns - start_ns);
	}
	/* Nothing before it said whose the worker was. */
	if (!pairing->tid && !note_tid(pairing, pairing->worker->first_ns, edge->word & NO_NAME))
		return false;
	return note_tid(pairing, since_ns, edge->task);
}

static bool on_edge(struct pairing *pairing, uint64_t time_ns, const struct ky_edge_row *edge)
{
	switch (edge->word >> 24) {
	case KY_EDGE_START:
		return on_start(pairing, time_ns, edge);
	case KY_EDGE_END:
		return on_end(pairing, time_ns);
	case KY_EDGE_POLL:
		return on_poll(pairing, time_ns, edge);
	case KY_EDGE_PARK:
		return on_park(pairing, time_ns, edge);
	case KY_EDGE_UNPARK:
		return on_unpark(pairing, time_ns, edge);
	case KY_EDGE_SCHED_WAIT:
		if (pairing->park)
			note_sched_wait(pairing->park, edge->task);
		return true;
	case KY_EDGE_DELAY:
		if (pairing->depth > 0)
			pairing->open[pairing->depth - 1].delay_ns =
				edge->task | (uint64_t)(edge->word & NO_NAME) << 32;
		return true;
	case KY_EDGE_MOVE:
		return on_move(pairing, time_ns, edge);
	default: /* snapshots */
		return on_snapshot(pairing, time_ns, edge,
				   edge->word >> 24 == KY_EDGE_SNAPSHOT_EXIT);
	}
}

static bool note_open(struct ky_trace *trace, uint32_t lane, uint64_t row)
{
	if (!ky_pages_array(&trace->pages, &trace->open_polls, &trace->open_poll_capacity,
			    trace->open_poll_count + 1, sizeof(*trace->open_polls)))
		return false;
	trace->open_polls[trace->open_poll_count].worker = lane;
	trace->open_polls[trace->open_poll_count++].row = row;
	return true;
}

static bool note_open_rows(struct ky_trace *trace, uint32_t lane)
{
	const struct ky_column *polls = &trace->workers[lane].polls;
	uint64_t row = polls->row_count, seen = 0;
	const struct ky_poll_row *poll;

	/* They were closed last, so in a sorted column they are among the last. */
	for (; row-- > 0 && seen < NEST_MAX; seen++) {
		poll = ky_column_row(polls, row);
		if ((poll->site >> 24 & KY_POLL_OPEN) && !note_open(trace, lane, row))
			return false;
	}
	return true;
}

/* Ends of their own again: the rows are going to be sorted. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
static int split_polls(struct ky_column *edges)
{
	struct ky_column split;
	struct ky_cursor cursor;
	bool is_going;

	ky_column_init(&split, edges->pages, edges->row_bytes);
	for (is_going = ky_cursor_begin(&cursor, edges, 0); is_going;
	     is_going = ky_cursor_next(&cursor)) {
		const struct ky_edge_row *from = (const void *)cursor.at;
		struct ky_edge_row *row = ky_column_append(&split, cursor.time_ns);
		bool is_poll = from->word >> 24 == KY_EDGE_POLL;

		if (row) {
			row->task = from->task;
			row->word = from->word;
			row->duration_ns = is_poll ? 0 : from->duration_ns;
		}
		if (row && is_poll) {
			row->word ^= (KY_EDGE_POLL ^ KY_EDGE_START) << 24;
			row = ky_column_append(&split, cursor.time_ns + from->duration_ns);
			if (row)
				*row = (struct ky_edge_row){row->delta_ns, 0,
							    (uint32_t)KY_EDGE_END << 24, 0};
		}
		if (!row) {
			ky_column_release(&split);
			return edges->pages->failed;
		}
		if (cursor.left == 0)
			ky_column_drop_block(edges, cursor.block);
	}
	ky_column_release(edges);
	*edges = split;
	return 0;
}

/* The rest of the cursor's block. Returns false when memory is out. Not inlined: see walk_batch()
 * in delay.c. */
__attribute__((noinline)) static bool pair_block(struct pairing *pairing, struct ky_cursor *cursor)
{
	struct ky_worker *worker = pairing->worker;

	for (uint32_t left = cursor->left + 1; left > 0; left--) {
		const struct ky_edge_row *edge = (const void *)cursor->at;
		uint64_t time_ns = cursor->time_ns;

		if (!on_edge(pairing, time_ns, edge))
			return false;
		if (time_ns < worker->first_ns)
			worker->first_ns = time_ns;
		if (edge->word >> 24 == KY_EDGE_POLL)
			time_ns += edge->duration_ns;
		if (time_ns > worker->last_ns)
			worker->last_ns = time_ns;
		if (left > 1)
			ky_cursor_next(cursor);
	}
	return true;
}

static bool pair_edges(struct pairing *pairing)
{
	struct ky_worker *worker = pairing->worker;
	struct ky_cursor cursor;
	bool is_going = ky_cursor_begin(&cursor, &worker->edges, 0);

	worker->first_ns = is_going ? cursor.time_ns : 0;
	worker->is_worker |= is_going && !worker->is_thread_lane && !worker->is_shared;
	for (; is_going; is_going = ky_cursor_next(&cursor)) {
		if (!pair_block(pairing, &cursor))
			return false;
		/* The polls may lie there from now on. */
		ky_column_drop_block(&worker->edges, cursor.block);
	}
	return true;
}

static int pair_lane(struct ky_trace *trace, uint32_t lane)
{
	struct ky_worker *worker = &trace->workers[lane];
	struct pairing pairing = {.trace = trace, .worker = worker, .lane = lane};
	int result;

	result = ky_column_sort(&worker->wakes);
	if (result == 0 && !worker->is_shared)
		result = ky_column_sort(&worker->edges);
	if (result < 0)
		return result;
	if (!pair_edges(&pairing))
		return trace->pages.failed;
	if (pairing.is_parked && !close_park(&pairing, trace->run_last_ns, 0, KY_PARK_OPEN))
		return trace->pages.failed;
	/* Under an id that several threads share, nothing says that it was open until then. */
	if (!close_all(&pairing, trace->run_last_ns,
		       worker->is_shared ? KY_POLL_END_UNPROVEN : KY_POLL_OPEN))
		return trace->pages.failed;
	ky_column_release(&worker->edges);
	result = ky_column_sort(&worker->polls);
	if (result == 0)
		result = ky_column_sort(&worker->parks);
	if (result == 0 && !note_open_rows(trace, lane))
		result = trace->pages.failed;
	worker->poll_count = worker->polls.row_count;
	worker->park_count = worker->parks.row_count;
	worker->wake_count = worker->wakes.row_count;
	trace->polls += worker->poll_count;
	trace->parks += worker->park_count;
	trace->wakes += worker->wake_count;
	return result;
}

static void find_run(struct ky_trace *trace, const struct ky_column *column)
{
	struct ky_cursor cursor;
	bool is_going;

	for (is_going = ky_cursor_begin(&cursor, column, 0); is_going;
	     is_going = ky_cursor_next(&cursor)) {
		if (trace->run_first_ns == 0 || cursor.time_ns < trace->run_first_ns)
			trace->run_first_ns = cursor.time_ns;
		if (cursor.time_ns > trace->run_last_ns)
			trace->run_last_ns = cursor.time_ns;
		if (!column->is_unsorted) {
			trace->run_last_ns = column->last_ns > trace->run_last_ns ?
						     column->last_ns :
						     trace->run_last_ns;
			return;
		}
	}
}

int ky_pair(struct ky_trace *trace)
{
	uint32_t i;
	int result;

	for (i = 0; i < trace->worker_count; i++) {
		if (trace->workers[i].edges.is_unsorted) {
			result = split_polls(&trace->workers[i].edges);
			if (result < 0)
				return result;
		}
		find_run(trace, &trace->workers[i].edges);
		find_run(trace, &trace->workers[i].wakes);
	}
	if (trace->run_first_ns == 0) { /* it starts with the recording, not with the machine */
		trace->run_first_ns = trace->first_ns;
		trace->run_last_ns = trace->last_ns;
	}
	/* The last look at what was open: a poll that hangs has no event after its start. */
	if (trace->private->open_ns > trace->run_last_ns)
		trace->run_last_ns = trace->private->open_ns;
	ky_handovers_sort(trace);
	for (i = 0; i < trace->worker_count; i++) {
		result = pair_lane(trace, i);
		if (result < 0)
			return result;
	}
	return 0;
}
