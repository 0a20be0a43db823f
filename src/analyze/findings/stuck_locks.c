/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/stuck_locks.h>

#include <analyze/findings/finding.h>
#include <analyze/findings/permit_waits.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <errno.h>
#include <read/sort.h>

#define NEAR_NS UINT64_C(1000000) /* a release lies so close to the end of the wait that it ends */

#define POINTS_MAX 64u /* looked at, of one moment */
#define ASKED 128u

/* All wakes of the tasks that are marked. */
struct stuck_wakes {
	struct stuck_wake {
		uint64_t time_ns;
		uint32_t task, stack;
		bool is_own;  /* issued by the task itself */
		uint8_t what; /* of what it is a release: enum ky_sync_what */
	} * list;
	uint32_t count, capacity;
	uint32_t *of_task; /* by task: its place in the list of waits + 1; or OWN; 0: not marked */
	uint8_t *whats;    /* by stack: ASKED | enum ky_sync_what; 0: not asked yet */
};

#define OWN UINT32_MAX /* no wait of it is in the list; it released a lock to itself */

/* What a task waits for at an await point: KY_SYNC_MUTEX of any lock, _SEMAPHORE, _NONE. */
static uint8_t what_of_point(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk))) {
		if (ky_text_contains(line->name, "tokio::sync::mutex::") ||
		    ky_text_contains(line->name, "tokio::sync::rwlock::"))
			return KY_SYNC_MUTEX;
		if (ky_text_contains(line->name, "tokio::sync::semaphore::"))
			return KY_SYNC_SEMAPHORE;
	}
	return KY_SYNC_NONE;
}

static bool is_earlier(const void *a, const void *b, const void *ctx)
{
	const struct ky_stuck_lock *one = a, *other = b;

	(void)ctx;
	return one->from_ns != other->from_ns ? one->from_ns < other->from_ns :
						one->task < other->task;
}

static bool is_wake_before(const void *a, const void *b, const void *ctx)
{
	const struct stuck_wake *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->time_ns < other->time_ns;
}

/* Did the last poll register the task elsewhere, too? Then it may have left the older point. */
static bool is_left(const struct ky_samples *samples, uint32_t at)
{
	const struct ky_stack_row *row = &samples->rows[at];
	uint32_t from = at, to = at + 1;

	if (!row->since_ns || row->since_ns >= row->time_ns)
		return false;
	while (from && at - from < POINTS_MAX && samples->rows[from - 1].time_ns == row->time_ns)
		from--;
	while (to < samples->row_count && to - at < POINTS_MAX &&
	       samples->rows[to].time_ns == row->time_ns)
		to++;
	for (uint32_t i = from; i < to; i++) {
		const struct ky_stack_row *other = &samples->rows[i];

		if (other->kind == KY_STACK_PLACE && other->task == row->task &&
		    other->since_ns >= row->time_ns)
			return true;
	}
	return false;
}

/* The same of a task whose point says less, by what ended the waits of its kind. */
static uint8_t what_of_row(struct ky_permit_waits *permits, const struct ky_facts *facts,
			   const struct ky_stack_row *row)
{
	uint8_t what = what_of_point(&facts->profile->code, row->stack);

	if (what != KY_SYNC_NONE || !ky_permit_is_unnamed(&facts->profile->code, row->stack))
		return what;
	what = ky_permit_waits_of(permits, facts, row->task);
	return what == KY_SYNC_LOCK      ? KY_SYNC_MUTEX :
	       what == KY_SYNC_SEMAPHORE ? what :
					   (uint8_t)KY_SYNC_NONE;
}

static bool collect_waits(struct ky_stuck_locks *out, const struct ky_facts *facts,
			  uint32_t *of_task, struct ky_permit_waits *permits)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		struct ky_stuck_lock *one;
		uint8_t what;

		if (row->kind != KY_STACK_PLACE || row->task == KY_NONE || row->stack == KY_NONE ||
		    row->flags & KY_ROW_END_UNSAFE || row->end_ns < row->time_ns ||
		    row->end_ns - row->time_ns < KY_FIND_STUCK_NS_MIN ||
		    row->time_ns < facts->report->from_ns || row->time_ns > facts->report->to_ns ||
		    is_left(&trace->samples, i))
			continue;
		what = what_of_row(permits, facts, row);
		if (what == KY_SYNC_NONE)
			continue;
		if (!of_task[row->task]) {
			if (ky_grow(&out->list, &out->capacity, out->count + 1, sizeof(*out->list)))
				return false;
			of_task[row->task] = ++out->count;
		}
		one = &out->list[of_task[row->task] - 1];
		if (row->end_ns - row->time_ns > one->to_ns - one->from_ns)
			*one = (struct ky_stuck_lock){.from_ns = row->time_ns,
						      .to_ns = row->end_ns,
						      .since_ns = row->since_ns,
						      .task = row->task,
						      .stack = row->stack,
						      .what = what};
	}
	return true;
}

static uint8_t what_of(struct stuck_wakes *wakes, const struct ky_facts *facts,
		       const struct ky_wake *wake)
{
	uint8_t *what = wake->stack != KY_NONE ? &wakes->whats[wake->stack] : NULL;

	if (!what)
		return KY_SYNC_NONE;
	if (!*what)
		*what = ASKED | ky_sync_what_of(&facts->profile->code, wake->stack);
	return *what & (ASKED - 1);
}

/* Marks the tasks that woke themselves by the release of a lock. */
static void mark_own(struct stuck_wakes *wakes, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			ky_trace_wake(trace, worker, row, &wake);
			if (!wakes->of_task[wake.woken] && wake.waker == wake.woken &&
			    ky_sync_is_tokios_lock(what_of(wakes, facts, &wake)))
				wakes->of_task[wake.woken] = OWN;
		}
}

static bool collect_wakes(struct stuck_wakes *wakes, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			ky_trace_wake(trace, worker, row, &wake);
			if (!wakes->of_task[wake.woken])
				continue;
			if (ky_grow(&wakes->list, &wakes->capacity, wakes->count + 1,
				    sizeof(*wakes->list)))
				return false;
			wakes->list[wakes->count++] = (struct stuck_wake){
				.time_ns = wake.time_ns,
				.task = wake.woken,
				.stack = wake.stack,
				.is_own = wake.waker == wake.woken,
				.what = what_of(wakes, facts, &wake)};
		}
	ky_sort(wakes->list, wakes->count, sizeof(*wakes->list), is_wake_before, NULL);
	return true;
}

/* The longest time in which a task did not go on after such a wake. Its await point need not be
 * known: a set of futures has wakers of its own. */
static void find_keeper(struct ky_stuck_locks *out, const struct stuck_wakes *wakes,
			const struct ky_facts *facts)
{
	uint64_t end_ns = facts->report->shutdown_ns ? facts->report->shutdown_ns :
						       facts->report->to_ns;

	for (uint32_t i = 0; i < wakes->count; i++) {
		const struct stuck_wake *one = &wakes->list[i], *next = one + 1;
		const struct ky_task *task = &facts->trace->tasks[one->task];
		uint64_t to_ns = task->flags & KY_TASK_ENDED ? ky_earlier(task->end_ns, end_ns) :
							       end_ns;

		if (i + 1 < wakes->count && next->task == one->task)
			to_ns = ky_earlier(next->time_ns, to_ns);
		if (!one->is_own || !ky_sync_is_tokios_lock(one->what) ||
		    to_ns < one->time_ns + KY_FIND_STUCK_NS_MIN ||
		    to_ns - one->time_ns <= out->keeper.to_ns - out->keeper.from_ns)
			continue;
		out->keeper = (struct ky_stuck_lock){.from_ns = one->time_ns,
						     .to_ns = to_ns,
						     .task = one->task,
						     .stack = one->stack,
						     .what = KY_SYNC_MUTEX,
						     .is_granted = true};
	}
}

/* The poll after which the task waits: its start, and when the task had become ready for it. */
static bool find_poll(const struct ky_facts *facts, const struct ky_stuck_lock *one,
		      uint64_t *ready_ns, uint64_t *start_ns)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, one->from_ns + 1);

		while (row-- > 0) {
			ky_trace_poll(trace, worker, row, &poll);
			if (one->from_ns - poll.start_ns > KY_FIND_STUCK_NS_MIN)
				break;
			if (poll.task != one->task ||
			    poll.start_ns + poll.duration_ns + NEAR_NS < one->from_ns)
				continue;
			*start_ns = poll.start_ns;
			*ready_ns = poll.start_ns - (poll.delay_state ? 0 : poll.delay_ns);
			return true;
		}
	}
	return false;
}

static uint32_t first_wake(const struct stuck_wakes *wakes, uint32_t task)
{
	uint32_t low = 0, high = wakes->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (wakes->list[middle].task < task)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Drops waits that a release ended; marks those of tasks that a release woke in vain: beside
 * another wake, or without a new await point. */
static void judge(struct ky_stuck_locks *out, const struct stuck_wakes *wakes,
		  const struct ky_facts *facts)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < out->count; i++) {
		struct ky_stuck_lock *one = &out->list[i];
		uint64_t ready_ns = 0, start_ns = 0;
		bool has_poll = find_poll(facts, one, &ready_ns, &start_ns), is_ended = false;

		for (uint32_t at = first_wake(wakes, one->task); at < wakes->count; at++) {
			const struct stuck_wake *wake = &wakes->list[at];

			if (wake->task != one->task)
				break;
			if (wake->what == KY_SYNC_NONE)
				continue;
			/* The end of the runtime drops guards, and so wakes their waiters. */
			is_ended |= wake->time_ns + NEAR_NS >= one->to_ns &&
				    wake->time_ns <= one->to_ns &&
				    (!facts->report->shutdown_ns ||
				     wake->time_ns + NEAR_NS < facts->report->shutdown_ns);
			one->is_granted |= has_poll && wake->time_ns <= start_ns &&
					   (wake->time_ns > ready_ns ||
					    (one->since_ns && one->since_ns < start_ns &&
					     wake->time_ns >= ready_ns));
			/* In the poll before, to a future of its own: it was polled again at once,
			 * and took nothing. */
			one->is_granted |= has_poll && wake->is_own && wake->time_ns <= ready_ns &&
					   ready_ns - wake->time_ns < KY_FIND_STUCK_NS_MIN;
		}
		if (is_ended)
			continue;
		out->ns += one->to_ns - one->from_ns;
		out->list[kept++] = *one;
	}
	out->count = kept;
}

int ky_stuck_locks_make(struct ky_stuck_locks *out, const struct ky_facts *facts)
{
	struct ky_permit_waits permits = {0};
	struct stuck_wakes wakes = {0};
	bool is_made;

	*out = (struct ky_stuck_locks){.keeper = {.task = KY_NONE}};
	if (!facts->profile)
		return 0;
	wakes.of_task = ky_alloc((facts->trace->task_count + (size_t)1) * sizeof(*wakes.of_task));
	wakes.whats = ky_alloc(facts->trace->samples.stack_count + (size_t)1);
	is_made = wakes.of_task && wakes.whats &&
		  collect_waits(out, facts, wakes.of_task, &permits);
	if (is_made) {
		mark_own(&wakes, facts);
		is_made = collect_wakes(&wakes, facts);
	}
	if (is_made) {
		ky_sort(out->list, out->count, sizeof(*out->list), is_earlier, NULL);
		judge(out, &wakes, facts);
		find_keeper(out, &wakes, facts);
	} else {
		ky_stuck_locks_release(out);
	}
	ky_permit_waits_release(&permits);
	ky_free(wakes.of_task);
	ky_free(wakes.whats);
	ky_free(wakes.list);
	return is_made ? 0 : -ENOMEM;
}

void ky_stuck_locks_release(struct ky_stuck_locks *stuck)
{
	ky_free(stuck->list);
	*stuck = (struct ky_stuck_locks){0};
}
