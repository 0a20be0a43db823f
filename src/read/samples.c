/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whose a sample is, when an allocation was freed, how long a task waited at a place. */
#include <read/load.h>
#include <read/lock_wakes.h>
#include <string.h>

#define NEST_MAX 16u                    /* polls open inside one another on one thread */
#define CALL_SURE_NS UINT64_C(10000000) /* calls as long as that are all reported */
#define CALL_NEAR_NS UINT64_C(1000000000)

/* A thread served this worker, or ran this closure, in [from, to). */
struct sample_span {
	uint64_t from_ns, to_ns;
	uint32_t tid;
	uint32_t what; /* worker, or blocking run */
};

struct finishing {
	struct ky_trace *trace;
	struct ky_samples *samples;
	struct sample_span *served, *runs;
	uint32_t served_count, run_count;
};

static bool is_row_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_row *one = a, *other = b;

	(void)ctx;
	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns;
	return one->order < other->order;
}

static bool is_span_before(const void *a, const void *b, const void *ctx)
{
	const struct sample_span *one = a, *other = b;

	(void)ctx;
	if (one->tid != other->tid)
		return one->tid < other->tid;
	if (one->from_ns != other->from_ns)
		return one->from_ns < other->from_ns;
	return one->what < other->what;
}

/* The last one of this thread that begins at or before the moment; NULL: it is over by then. */
static const struct sample_span *find_span(const struct sample_span *spans, uint32_t count,
					   uint32_t tid, uint64_t time_ns)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (spans[middle].tid < tid ||
		    (spans[middle].tid == tid && spans[middle].from_ns <= time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || spans[low - 1].tid != tid || time_ns >= spans[low - 1].to_ns)
		return NULL;
	return &spans[low - 1];
}

/* The changes of one worker become spans: the first reaches back to the worker's start, the
 * last to the end. Changes come worker by worker, each ascending. */
static int make_served(struct finishing *finishing)
{
	struct ky_trace *trace = finishing->trace;
	const struct ky_trace_private *private = trace->private;
	uint32_t i, count = 0, at = 0;
	struct sample_span *spans = ky_pages_alloc(
		&trace->pages,
		((size_t) private->served_count + trace->worker_count) * sizeof(*spans) + 1);

	if (!spans)
		return trace->pages.failed;
	finishing->served = spans;
	for (i = 0; i < trace->worker_count; i++) {
		uint32_t first = count;

		for (; at < private->served_count && private->served[at].worker == i; at++) {
			const struct ky_served *served = &private->served[at];

			if (count > first)
				spans[count - 1].to_ns = served->from_ns;
			spans[count] = (struct sample_span){
				count > first ? served->from_ns : trace->workers[i].first_ns,
				UINT64_MAX, served->tid, i};
			count++;
		}
		if (count == first && trace->workers[i].tid && trace->workers[i].is_worker &&
		    !trace->workers[i].is_shared && !trace->workers[i].is_thread_lane)
			spans[count++] = (struct sample_span){0, UINT64_MAX, trace->workers[i].tid,
							      i};
	}
	finishing->served_count = count;
	ky_sort(spans, count, sizeof(*spans), is_span_before, NULL);
	return 0;
}

static int make_runs(struct finishing *finishing)
{
	struct ky_trace *trace = finishing->trace;
	struct sample_span *spans = ky_pages_alloc(&trace->pages,
						   trace->blocking_count * sizeof(*spans) + 1);
	uint32_t i;

	if (!spans)
		return trace->pages.failed;
	finishing->runs = spans;
	for (i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];

		spans[i] = (struct sample_span){run->start_ns, run->start_ns + run->duration_ns,
						run->tid, i};
	}
	finishing->run_count = trace->blocking_count;
	ky_sort(spans, finishing->run_count, sizeof(*spans), is_span_before, NULL);
	return 0;
}

static void take_poll(struct ky_stack_row *row, const struct ky_trace *trace,
		      const struct ky_poll *poll)
{
	row->poll_start_ns = poll->start_ns;
	row->poll_ns = poll->duration_ns;
	row->task = poll->task;
	row->name = poll->name;
	if (poll->flags & (KY_POLL_GAP | KY_POLL_END_UNPROVEN))
		row->flags |= KY_ROW_POLL_UNSAFE;
	if (row->name == KY_NONE)
		row->name = trace->tasks[poll->task].name;
}

/* The innermost poll of a lane that contains the moment; start_ns: only the one that began then,
 * 0: any. */
static bool find_poll(const struct ky_trace *trace, uint32_t lane, uint64_t time_ns,
		      uint64_t start_ns, struct ky_stack_row *row)
{
	const struct ky_column *polls = &trace->workers[lane].polls;
	uint32_t steps = trace->workers[lane].is_thread_lane ? NEST_MAX : 1, i;
	struct ky_poll poll;
	uint64_t at;

	if (!polls->row_count || trace->workers[lane].is_shared || time_ns == UINT64_MAX)
		return false;
	at = ky_column_find(polls, (start_ns ? start_ns : time_ns) + 1);
	for (i = 0; i < steps && at-- > 0; i++) {
		ky_trace_poll(trace, lane, at, &poll);
		if (start_ns ? poll.start_ns != start_ns :
			       time_ns - poll.start_ns > poll.duration_ns)
			continue;
		take_poll(row, trace, &poll);
		return true;
	}
	return false;
}

/* Polls inside polls first: they are what ran. */
static bool find_open(const struct finishing *finishing, struct ky_stack_row *row,
		      uint64_t start_ns)
{
	const struct ky_trace *trace = finishing->trace;
	uint32_t lane = ky_trace_worker(trace, UINT64_MAX - row->tid);

	if (lane != KY_NONE && find_poll(trace, lane, row->time_ns, start_ns, row))
		return true;
	return row->worker != KY_NONE && find_poll(trace, row->worker, row->time_ns, start_ns, row);
}

static void find_run(const struct finishing *finishing, struct ky_stack_row *row)
{
	const struct ky_trace *trace = finishing->trace;
	const struct sample_span *span = find_span(finishing->runs, finishing->run_count, row->tid,
						   row->time_ns);
	const struct ky_blocking_run *run = span ? &trace->blocking_runs[span->what] : NULL;

	if (!run || (row->task != KY_NONE && row->task != run->task))
		return;
	row->poll_start_ns = run->start_ns;
	row->poll_ns = run->duration_ns;
	row->task = run->task;
	row->name = run->name;
	row->flags |= KY_ROW_BLOCKING;
}

/* What a thread of ours did when it woke another one. */
static void find_waker(const struct finishing *finishing, struct ky_stack_row *row)
{
	struct ky_stack_row waker = {.time_ns = row->woken_ns,
				     .tid = row->waker_tid,
				     .worker = KY_NONE,
				     .task = KY_NONE,
				     .name = KY_NONE};
	const struct sample_span *span = find_span(finishing->served, finishing->served_count,
						   waker.tid, waker.time_ns);

	if (span)
		waker.worker = span->what;
	if (!find_open(finishing, &waker, 0))
		find_run(finishing, &waker);
	row->waker_task = waker.task;
	row->waker_kind = waker.name;
}

static void attribute(const struct finishing *finishing, struct ky_stack_row *row)
{
	const struct ky_trace *trace = finishing->trace;
	uint64_t worker_id = row->kind == KY_STACK_ALLOC ? KY_ID_UNKNOWN : row->address;
	uint64_t start_ns = row->poll_start_ns;
	const struct sample_span *span = NULL;

	if (row->kind != KY_STACK_ALLOC)
		row->address = 0;
	if (worker_id != 254 && worker_id != KY_ID_UNKNOWN)
		row->worker = ky_trace_worker(trace, worker_id);
	if (row->worker == KY_NONE && row->tid)
		span = find_span(finishing->served, finishing->served_count, row->tid,
				 row->time_ns);
	if (span)
		row->worker = span->what;
	if (row->kind == KY_STACK_PLACE || (row->flags & KY_ROW_REPORTED && row->task == KY_NONE)) {
		/* A place says its task; no poll was open: so it stays. */
	} else if (!find_open(finishing, row, start_ns)) {
		find_run(finishing, row);
	}
	if (row->name == KY_NONE && row->task != KY_NONE)
		row->name = trace->tasks[row->task].name;
	if (row->waker_tid && row->woken_ns)
		find_waker(finishing, row);
}

/* ---- what was reported twice ---- */

/* call: the last one that began on the thread by then. */
static bool is_known_by_call(const struct ky_stack_row *row, const struct ky_stack_row *call)
{
	bool is_wait = row->reason <= KY_WAIT_FUTEX;

	if (row->time_ns + row->value / 2 < call->end_ns)
		return true;
	/* Calls beyond their budget were left out by chance, and those that were kept stand for
	 * them; longer ones never are. */
	return is_wait && call->weight > 1.0 && row->value < CALL_SURE_NS &&
	       row->time_ns - call->end_ns < CALL_NEAR_NS;
}

/* What the records know of a time inside the call; between them, where nothing is known, it may
 * have been ready to run. */
static void split_call(struct ky_stack_row *call, const struct ky_stack_row *row)
{
	uint64_t blocked_ns = row->value - row->runnable_max_ns;

	if (row->time_ns + row->value / 2 >= call->end_ns)
		return;
	/* The last one is what it came back for. */
	if (row->woken_by) {
		call->woken_by = row->woken_by;
		call->woken_ns = row->woken_ns;
		call->waker_tid = row->waker_tid;
		call->waker_pid = row->waker_pid;
		call->waker_name = row->waker_name;
	}
	call->runnable_min_ns += row->runnable_min_ns;
	if (call->runnable_min_ns > call->runnable_max_ns)
		call->runnable_min_ns = call->runnable_max_ns;
	call->runnable_max_ns -= blocked_ns < call->runnable_max_ns - call->runnable_min_ns ?
					 blocked_ns :
					 call->runnable_max_ns - call->runnable_min_ns;
}

/* Before those are dropped that a call reports, too. */
static void count_waits(struct ky_trace *trace)
{
	for (uint32_t i = 0; trace->off_window_count && i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		struct ky_trace_off_window *window;

		if (row->kind != KY_STACK_OFF_CPU || row->sampler != KY_OFF_CPU_BY_SWITCHES ||
		    row->reason == KY_WAIT_PREEMPTED || row->clipped)
			continue;
		window = ky_trace_off_window_at(trace, row->end_ns);
		if (!window) /* the program ended before it was reported */
			window = &trace->off_windows[trace->off_window_count - 1];
		window->wait_count++;
		window->unwoken_count += !row->woken_by;
	}
}

/* By thread and time. */
static int drop_doubles(struct finishing *finishing)
{
	struct ky_samples *samples = finishing->samples;
	struct ky_trace *trace = finishing->trace;
	struct ky_id_map calls;
	uint32_t i, kept = 0, *slot;

	ky_id_map_init(&calls, &trace->pages);
	for (i = 0; i < samples->row_count; i++) {
		struct ky_stack_row row = samples->rows[i];

		if (row.kind == KY_STACK_OFF_CPU && row.tid) {
			slot = ky_id_map_slot(&calls, row.tid);
			if (!slot)
				break;
			if (row.sampler == KY_OFF_CPU_BY_CALL)
				*slot = kept + 1;
			else if (row.sampler == KY_OFF_CPU_BY_SWITCHES && *slot &&
				 is_known_by_call(&row, &samples->rows[*slot - 1])) {
				split_call(&samples->rows[*slot - 1], &row);
				continue;
			}
		}
		samples->rows[kept++] = row;
	}
	ky_id_map_release(&calls);
	if (trace->pages.failed)
		return trace->pages.failed;
	samples->row_count = kept;
	return 0;
}

/* ---- allocations and their ends ---- */

#define SAME_NS UINT64_C(1000000) /* clocks were read again in between */

/* Reported as it began, and again because it lived at the end. */
static bool is_known_live(const struct ky_stack_row *row, const struct ky_stack_row *live)
{
	uint64_t apart = row->time_ns > live->time_ns ? row->time_ns - live->time_ns :
							live->time_ns - row->time_ns;

	return live->value == row->value && apart < SAME_NS &&
	       (live->reason == KY_ALLOC_REPORTED_LIVE) != (row->reason == KY_ALLOC_REPORTED_LIVE);
}

/* Where samples were lost, ends may be among them: what the list of the living at the end does not
 * name was freed before. */
static void end_unlisted(struct ky_samples *samples, uint64_t listed_ns)
{
	if (!listed_ns || !samples->lost[KY_STACK_ALLOC])
		return;
	for (uint32_t i = 0; i < samples->row_count; i++) {
		struct ky_stack_row *row = &samples->rows[i];

		if (row->kind != KY_STACK_ALLOC || row->flags & KY_ROW_FREED ||
		    row->sampler == KY_ALLOC_LISTED || row->time_ns >= listed_ns)
			continue;
		row->end_ns = listed_ns;
		row->flags |= KY_ROW_FREED;
	}
}

static int match_frees(struct finishing *finishing)
{
	struct ky_samples *samples = finishing->samples;
	struct ky_trace *trace = finishing->trace;
	struct ky_id_map live;
	uint64_t listed_ns = 0;
	uint32_t i, kept = 0, *slot;

	ky_id_map_init(&live, &trace->pages);
	for (i = 0; i < samples->row_count; i++) {
		struct ky_stack_row row = samples->rows[i];

		if (row.kind == KY_STACK_ALLOC || row.kind == KY_STACK_FREE) {
			slot = ky_id_map_slot(&live, row.address);
			if (!slot)
				break;
			if (row.kind == KY_STACK_ALLOC && row.sampler == KY_ALLOC_LISTED) {
				listed_ns = row.end_ns > listed_ns ? row.end_ns : listed_ns;
				row.end_ns = 0;
			}
			if (*slot && row.kind == KY_STACK_ALLOC &&
			    is_known_live(&row, &samples->rows[*slot - 1])) {
				/* The beginning knows more. */
				row.time_ns = samples->rows[*slot - 1].time_ns;
				if (row.reason != KY_ALLOC_REPORTED_LIVE)
					samples->rows[*slot - 1] = row;
				samples->rows[*slot - 1].reason = 0;
				samples->rows[*slot - 1].sampler = KY_ALLOC_LISTED;
				continue;
			}
			/* An address that is given out again was freed meanwhile. */
			if (*slot) {
				samples->rows[*slot - 1].end_ns = row.time_ns;
				samples->rows[*slot - 1].flags |= KY_ROW_FREED;
			} else if (row.kind == KY_STACK_FREE) {
				samples->frees_unmatched++;
			}
			*slot = row.kind == KY_STACK_ALLOC ? kept + 1 : 0;
		}
		if (row.kind == KY_STACK_FREE)
			continue;
		samples->rows[kept++] = row;
		samples->counts[row.kind]++;
	}
	ky_id_map_release(&live);
	if (trace->pages.failed)
		return trace->pages.failed;
	samples->row_count = kept;
	end_unlisted(samples, listed_ns);
	return 0;
}

/* ---- places ---- */

struct sample_places {
	const struct ky_samples *samples;
	uint32_t *rows; /* by task, then time */
	uint32_t count;
	uint32_t *first; /* by task: its first + 1 */
};

static bool is_place_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_samples *samples = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	if (samples->rows[one].task != samples->rows[other].task)
		return samples->rows[one].task < samples->rows[other].task;
	return one < other;
}

/* A poll of the task ends the wait at the last place before it. */
static void end_wait(struct ky_samples *samples, const struct sample_places *places, uint32_t task,
		     uint64_t start_ns)
{
	uint32_t low = places->first[task] - 1, high = places->count;
	struct ky_stack_row *row;

	while (low < high) { /* places before `low` are of this task and before the poll */
		uint32_t middle = low + (high - low) / 2;

		row = &samples->rows[places->rows[middle]];
		if (row->task == task && row->time_ns < start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < places->first[task])
		return;
	row = &samples->rows[places->rows[low - 1]];
	if (row->reason != KY_PLACE_CAPTURED)
		return;
	if (row->end_ns == 0 || start_ns < row->end_ns)
		row->end_ns = start_ns;
}

static void end_waits(struct finishing *finishing, const struct sample_places *places)
{
	struct ky_trace *trace = finishing->trace;
	struct ky_cursor cursor;
	bool is_going;
	uint32_t i;

	for (i = 0; i < trace->worker_count; i++)
		for (is_going = ky_cursor_begin(&cursor, &trace->workers[i].polls, 0); is_going;
		     is_going = ky_cursor_next(&cursor)) {
			uint32_t task = ((const struct ky_poll_row *)(const void *)cursor.at)->task;

			if (places->first[task])
				end_wait(finishing->samples, places, task, cursor.time_ns);
		}
}

/* Is anything missing between the place and the end of its wait? */
static bool is_unsafe(const struct ky_trace *trace, const struct ky_stack_row *row, uint64_t end_ns)
{
	return ky_trace_has_gap(trace, row->time_ns, end_ns) ||
	       ky_retained_is_held(trace, row->time_ns, end_ns);
}

/* next: the task's next place; NULL. Where no poll is between them, it waits for both at once. */
static void settle_place(const struct ky_trace *trace, struct ky_stack_row *row,
			 const struct ky_stack_row *next)
{
	const struct ky_task *task = &trace->tasks[row->task];
	uint64_t end_ns = row->end_ns;

	if (row->reason == KY_PLACE_REPORTED_POLLED)
		return;
	if (row->reason != KY_PLACE_CAPTURED) {
		if (row->reason != KY_PLACE_WAITED)
			row->flags |= KY_ROW_WAITS;
		if (row->flags & KY_ROW_UNWEIGHTED)
			row->end_ns = trace->run_last_ns;
		else if (is_unsafe(trace, row, row->end_ns))
			row->flags |= KY_ROW_END_UNSAFE;
		else
			row->value = row->end_ns - row->time_ns;
		return;
	}
	if (!end_ns && next) {
		end_ns = next->end_ns;
		row->flags |= next->flags & KY_ROW_WAITS;
	}
	if (!end_ns && (task->flags & KY_TASK_ENDED) && task->end_ns >= row->time_ns)
		end_ns = task->end_ns;
	if (!end_ns) {
		row->flags |= KY_ROW_WAITS;
		end_ns = trace->run_last_ns > row->time_ns ? trace->run_last_ns : row->time_ns;
	}
	row->end_ns = end_ns;
	if (is_unsafe(trace, row, end_ns))
		row->flags |= KY_ROW_END_UNSAFE;
	else
		row->value = end_ns - row->time_ns;
}

static int measure_waits(struct finishing *finishing)
{
	struct ky_trace *trace = finishing->trace;
	struct ky_samples *samples = finishing->samples;
	size_t count = samples->counts[KY_STACK_PLACE];
	struct sample_places places = {.samples = samples};
	uint32_t i;

	if (!count)
		return 0;
	places.rows = ky_pages_alloc(&trace->pages, count * sizeof(uint32_t));
	places.first = ky_pages_alloc(&trace->pages, trace->task_count * sizeof(uint32_t) + 1);
	if (places.rows && places.first) {
		for (i = 0; i < samples->row_count; i++)
			if (samples->rows[i].kind == KY_STACK_PLACE &&
			    samples->rows[i].task != KY_NONE)
				places.rows[places.count++] = i;
		ky_sort(places.rows, places.count, sizeof(uint32_t), is_place_before, samples);
		for (i = places.count; i-- > 0;)
			places.first[samples->rows[places.rows[i]].task] = i + 1;
		end_waits(finishing, &places);
		for (i = places.count; i-- > 0;) {
			struct ky_stack_row *row = &samples->rows[places.rows[i]], *next;

			next = i + 1 < places.count ? &samples->rows[places.rows[i + 1]] : NULL;
			settle_place(trace, row, next && next->task == row->task ? next : NULL);
		}
	}
	ky_pages_free(&trace->pages, places.rows, count * sizeof(uint32_t));
	ky_pages_free(&trace->pages, places.first, trace->task_count * sizeof(uint32_t) + 1);
	return trace->pages.failed;
}

struct numbering {
	struct ky_samples *samples;
	struct ky_stack *old;
	uint32_t *numbers; /* + 1 */
	uint32_t count;
};

static void number_stack(struct numbering *numbering, uint32_t *stack)
{
	uint32_t *number;

	if (*stack == KY_NONE)
		return;
	number = &numbering->numbers[*stack];
	if (!*number) {
		numbering->samples->stacks[numbering->count] = numbering->old[*stack];
		*number = ++numbering->count;
	}
	*stack = *number - 1;
}

/* Stacks were numbered as they were loaded; from now on as the sorted rows name them first, and the
 * checks of stuck threads after them, so that the same events give the same numbers in whatever
 * order a file has them. */
static int number_stacks(struct ky_trace *trace)
{
	struct ky_samples *samples = &trace->samples;
	size_t bytes = samples->stack_count * sizeof(*samples->stacks);
	size_t number_bytes = samples->stack_count * sizeof(uint32_t);
	struct numbering numbering = {.samples = samples};

	numbering.old = ky_pages_alloc(&trace->pages, bytes + 1);
	numbering.numbers = ky_pages_alloc(&trace->pages, number_bytes + 1);
	if (numbering.old && numbering.numbers) {
		if (bytes)
			memcpy(numbering.old, samples->stacks, bytes);
		for (uint32_t i = 0; i < samples->row_count; i++)
			number_stack(&numbering, &samples->rows[i].stack);
		for (uint32_t i = 0; i < trace->stuck_count; i++)
			number_stack(&numbering, &trace->stuck[i].stack);
		for (uint32_t i = 0; i < trace->wake_source_count; i++)
			number_stack(&numbering, &trace->wake_sources[i].stack);
		samples->stack_count = numbering.count;
	}
	ky_pages_free(&trace->pages, numbering.old, bytes + 1);
	ky_pages_free(&trace->pages, numbering.numbers, number_bytes + 1);
	return trace->pages.failed;
}

int ky_samples_finish(struct ky_trace *trace)
{
	struct ky_samples *samples = &trace->samples;
	struct finishing finishing = {.trace = trace, .samples = samples};
	uint32_t i;
	int result;

	ky_pages_free(&trace->pages, samples->slots, samples->slot_count * sizeof(uint32_t));
	samples->slots = NULL;
	samples->slot_count = 0;
	if (!samples->row_count)
		return 0;
	ky_sort(samples->rows, samples->row_count, sizeof(*samples->rows), is_row_before, NULL);
	count_waits(trace);
	result = drop_doubles(&finishing);
	if (result == 0)
		result = ky_lock_wakes_find(trace);
	if (result == 0)
		result = number_stacks(trace);
	if (result == 0)
		result = match_frees(&finishing);
	if (result == 0)
		result = make_served(&finishing);
	if (result == 0)
		result = make_runs(&finishing);
	for (i = 0; result == 0 && i < samples->row_count; i++)
		attribute(&finishing, &samples->rows[i]);
	if (result == 0)
		result = measure_waits(&finishing);
	ky_pages_free(&trace->pages, finishing.served,
		      ((size_t)trace->private->served_count + trace->worker_count) *
				      sizeof(struct sample_span) +
			      1);
	ky_pages_free(&trace->pages, finishing.runs,
		      trace->blocking_count * sizeof(struct sample_span) + 1);
	return result;
}

uint32_t ky_samples_from(const struct ky_samples *samples, uint64_t time_ns)
{
	uint32_t low = 0, high = samples->row_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (samples->rows[middle].time_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
