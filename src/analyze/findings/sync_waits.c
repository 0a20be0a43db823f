/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/sync_waits.h>

#include <analyze/findings/finding.h>
#include <analyze/findings/pool_runs.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <base/text.h>
#include <errno.h>
#include <read/sort.h>

#define NOT_ASKED 255u
#define BLAME_STEPS_MAX 64u /* tasks in a queue of one lock */

/* Functions that release, the more special first; all of them end in the same semaphore. */
uint8_t ky_sync_what_of(const struct ky_code_stacks *code, uint32_t stack)
{
	static const struct {
		const char *part;
		uint8_t what;
	} functions[] = {
		{"sync::mpsc::", KY_SYNC_CHANNEL},
		{"sync::mutex::", KY_SYNC_MUTEX},
		{"sync::rwlock::", KY_SYNC_RWLOCK},
		{"sync::semaphore::", KY_SYNC_SEMAPHORE},
	};
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_release = false;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk))) {
		is_release |= ky_text_contains(line->name, "batch_semaphore::") &&
			      ky_text_contains(line->name, "add_permits");
		for (size_t i = 0; is_release && i < sizeof(functions) / sizeof(*functions); i++)
			if (ky_text_contains(line->name, functions[i].part))
				return functions[i].what;
		if (ky_code_is_own(line))
			break;
	}
	/* Inlined functions have no name without debug information: all are semaphores inside. */
	return is_release ? KY_SYNC_SEMAPHORE : KY_SYNC_NONE;
}

/* The program's own code woke it, as by Notify, whose function is often not on the stack (its last
 * call is a jump); and not by a message. */
static bool is_by_program(const struct ky_facts *facts, const struct ky_wake *wake)
{
	static const char *const messages[] = {"mpsc::",    "oneshot::", "watch::", "broadcast::",
					       "barrier::", "channel::", "flume::"};
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (ky_wake_cause_of(&facts->profile->code, wake).kind != KY_WAKE_CODE)
		return false;
	ky_code_walk_begin(&walk, &facts->profile->code, wake->stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		if (KY_LINE_HAS(line, messages))
			return false;
	return true;
}

/* A task that was notified by another one of its kind got what that gave back, as of a pool of the
 * program; notified by others it got work, and until then had nothing to do. */
static bool is_of_peers(const struct ky_facts *facts, const struct ky_wake *wake)
{
	const struct ky_task *tasks = facts->trace->tasks;

	return wake->waker != KY_NONE && wake->waker != wake->woken &&
	       tasks[wake->waker].name != KY_NONE &&
	       tasks[wake->waker].name == tasks[wake->woken].name;
}

/* The end of what it joined, on a thread that is no worker. */
static uint8_t what_of_wake(const struct ky_facts *facts, const struct ky_wake *wake)
{
	uint8_t what = ky_sync_what_of(&facts->profile->code, wake->stack);

	if (what == KY_SYNC_NONE &&
	    ky_wake_cause_of(&facts->profile->code, wake).kind == KY_WAKE_JOIN)
		what = KY_SYNC_POOL;
	if (what == KY_SYNC_NONE && is_by_program(facts, wake))
		what = KY_SYNC_NOTIFY;
	return what;
}

static bool collect(struct ky_sync_waits *waits, const struct ky_facts *facts, uint8_t *whats,
		    uint32_t worker)
{
	const struct ky_column *wakes = &facts->trace->workers[worker].wakes;
	uint64_t to_ns = facts->report->shutdown_ns ? facts->report->shutdown_ns :
						      facts->report->to_ns;
	struct ky_wake wake;
	uint8_t what;

	for (uint64_t row = ky_column_find(wakes, facts->report->from_ns); row < wakes->row_count;
	     row++) {
		ky_trace_wake(facts->trace, worker, row, &wake);
		if (wake.time_ns > to_ns)
			break;
		if (wake.stack == KY_NONE)
			continue;
		if (whats[wake.stack] == NOT_ASKED)
			whats[wake.stack] = what_of_wake(facts, &wake);
		what = wake.origin & KY_WAKE_AT_END ? KY_SYNC_POOL : whats[wake.stack];
		if (what == KY_SYNC_NONE || (what == KY_SYNC_POOL && !wake.tid) ||
		    (what == KY_SYNC_NOTIFY && !is_of_peers(facts, &wake)))
			continue;
		if (ky_grow(&waits->list, &waits->capacity, waits->count + 1, sizeof(*waits->list)))
			return false;
		waits->list[waits->count++] = (struct ky_sync_wait){.to_ns = wake.time_ns,
								    .task = wake.woken,
								    .waker = wake.waker,
								    .stack = wake.stack,
								    .tid = wake.tid,
								    .what = what};
	}
	return true;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_sync_wait *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->to_ns < other->to_ns;
}

/* The end of a poll is the beginning of the wait that ends next. */
static void add_poll(struct ky_sync_waits *waits, const uint32_t *firsts,
		     const struct ky_poll *poll)
{
	uint64_t end_ns = poll->start_ns + poll->duration_ns;
	uint32_t low = firsts[poll->task], high = firsts[poll->task + 1], last = high;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (waits->list[middle].to_ns < end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < last && waits->list[low].from_ns < end_ns)
		waits->list[low].from_ns = end_ns;
}

static void find_begins(struct ky_sync_waits *waits, const struct ky_trace *trace,
			const uint32_t *firsts)
{
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].polls.row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			if (firsts[poll.task] != firsts[poll.task + 1] &&
			    !(poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_OPEN)))
				add_poll(waits, firsts, &poll);
		}
}

/* Only the time in line: up to the start of the run, while all threads had one. */
static bool settle_pool(struct ky_sync_wait *one, const struct ky_pool_runs *runs)
{
	const struct ky_blocking_run *run = ky_pool_runs_at(runs, one->tid, one->to_ns);
	uint64_t least_ns;

	if (!run || run->start_ns <= one->from_ns)
		return false;
	/* It may have been submitted after the task began to wait, by another one. */
	least_ns = run->start_ns - one->from_ns;
	if (run->wait_max_ns < least_ns)
		least_ns = run->wait_max_ns;
	if (least_ns <= KY_FIND_LONG_NS ||
	    !ky_pool_runs_full_at(runs, run->start_ns - least_ns / 2))
		return false;
	one->from_ns = run->start_ns - least_ns;
	one->to_ns = run->start_ns;
	return true;
}

static void keep_long(struct ky_sync_waits *waits, const struct ky_pool_runs *runs)
{
	const struct ky_trace *trace = runs->trace;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < waits->count; i++) {
		struct ky_sync_wait *one = &waits->list[i];

		/* Across a loss: the task may have been polled in it. */
		if (!one->from_ns || ky_trace_has_gap(trace, one->from_ns, one->to_ns) ||
		    (one->what == KY_SYNC_POOL && !settle_pool(one, runs)) ||
		    one->to_ns - one->from_ns <= KY_FIND_LONG_NS)
			continue;
		waits->ns += one->to_ns - one->from_ns;
		waits->list[kept++] = *one;
	}
	waits->count = kept;
}

/* The last wait of a task that ended by then; KY_NONE. */
static uint32_t wait_before(const struct ky_sync_waits *waits, uint32_t task, uint64_t ns)
{
	uint32_t low = 0, high = waits->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_sync_wait *one = &waits->list[middle];

		if (one->task < task || (one->task == task && one->to_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && waits->list[low - 1].task == task ? low - 1 : KY_NONE;
}

/* Who released it may have had it for no time, and got it from one that had it for long. */
static void find_blamed(struct ky_sync_waits *waits)
{
	for (uint32_t i = 0; i < waits->count; i++) {
		const struct ky_sync_wait *victim = &waits->list[i];
		uint32_t at = i, before = 0;

		for (uint32_t steps = 0; steps < BLAME_STEPS_MAX; steps++, at = before) {
			const struct ky_sync_wait *one = &waits->list[at];
			uint64_t held_from_ns;

			before = one->waker == KY_NONE ? KY_NONE :
							 wait_before(waits, one->waker, one->to_ns);
			if (before == KY_NONE || before == at ||
			    waits->list[before].what != one->what)
				break;
			held_from_ns = waits->list[before].to_ns;
			if (held_from_ns <= victim->from_ns || held_from_ns >= one->to_ns ||
			    (one->to_ns - held_from_ns) * 2 >= victim->to_ns - victim->from_ns)
				break;
		}
		waits->list[i].blamed = at;
	}
}

static int make(struct ky_sync_waits *out, const struct ky_facts *facts, uint8_t *whats,
		uint32_t *firsts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_pool_runs runs;

	for (uint32_t i = 0; i < trace->samples.stack_count; i++)
		whats[i] = NOT_ASKED;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		if (!collect(out, facts, whats, worker))
			return -ENOMEM;
	if (!out->count)
		return 0;
	ky_sort(out->list, out->count, sizeof(*out->list), is_before, NULL);
	for (uint32_t i = 0; i < out->count; i++)
		firsts[out->list[i].task + 1] = i + 1;
	for (uint32_t i = 1; i <= trace->task_count; i++)
		if (firsts[i] < firsts[i - 1])
			firsts[i] = firsts[i - 1];
	find_begins(out, trace, firsts);
	if (ky_pool_runs_make(&runs, trace, facts->report->shutdown_ns))
		return -ENOMEM;
	keep_long(out, &runs);
	find_blamed(out);
	out->pool_threads = runs.most;
	ky_pool_runs_release(&runs);
	return 0;
}

int ky_sync_waits_make(struct ky_sync_waits *out, const struct ky_facts *facts)
{
	uint8_t *whats = ky_alloc(facts->trace->samples.stack_count + (size_t)1);
	uint32_t *firsts = ky_alloc((facts->trace->task_count + (size_t)2) * sizeof(*firsts));
	int result = -ENOMEM;

	*out = (struct ky_sync_waits){0};
	if (whats && firsts)
		result = facts->profile ? make(out, facts, whats, firsts) : 0;
	ky_free(whats);
	ky_free(firsts);
	if (result)
		ky_sync_waits_release(out);
	return result;
}

void ky_sync_waits_release(struct ky_sync_waits *waits)
{
	ky_free(waits->list);
	*waits = (struct ky_sync_waits){0};
}
