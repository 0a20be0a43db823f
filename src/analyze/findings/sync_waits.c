/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/sync_waits.h>

#include <analyze/findings/finding.h>
#include <analyze/findings/notify_peers.h>
#include <analyze/findings/pool_runs.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <base/text.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define NOT_ASKED 255u
#define LATE_NS UINT64_C(1000000) /* between a release and the end of the wait */
#define BLAME_STEPS_MAX 64u       /* tasks in a queue of one lock */

/* Of channels and locks that are not Tokio's: a receiver that takes an item makes room, and what
 * wakes inside a lock's or a semaphore's own functions is their release. */
static uint8_t what_of_library(const struct ky_code_line *line)
{
	static const char *const channels[] = {
		"flume::", "async_channel::", "futures_channel::mpsc", "kanal::"};
	static const char *const takes[] = {"recv",      "Recv",       "next_message",
					    "poll_next", "unpark_one", "pull_pending"};
	static const char *const locks[] = {
		"async_lock::mutex::", "async_lock::rwlock::", "futures_util::lock::mutex::"};
	static const char *const permits[] = {"async_lock::semaphore::"};

	if (KY_LINE_HAS(line, locks))
		return KY_SYNC_OTHER_LOCK;
	if (KY_LINE_HAS(line, permits))
		return KY_SYNC_SEMAPHORE;
	if (!KY_LINE_HAS(line, channels))
		return KY_SYNC_NONE;
	for (size_t i = 0; i < sizeof(takes) / sizeof(*takes); i++)
		if (ky_text_contains(line->name, takes[i]))
			return KY_SYNC_CHANNEL;
	return KY_SYNC_NONE;
}

static bool is_batch_release(const struct ky_code_line *line)
{
	return ky_text_contains(line->name, "sync::batch_semaphore::Semaphore::release") ||
	       ky_text_contains(line->name, "sync::batch_semaphore::Semaphore>::release");
}

/* Of a name the part that stands first: what it is generic over comes later, as of
 * drop_in_place<tokio::sync::mutex::MutexGuard<tokio::sync::mpsc::bounded::Receiver<..>>>. */
static uint8_t what_of_name(const char *name)
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

	for (; *name; name++)
		for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
			if (ky_text_begins(name, functions[i].part))
				return functions[i].what;
	return KY_SYNC_NONE;
}

/* Functions that release: all of them end in the same semaphore. */
uint8_t ky_sync_what_of(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_release = false, is_guard = false;
	uint8_t what;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk))) {
		what = what_of_library(line);
		if (what != KY_SYNC_NONE)
			return what;
		is_release |= ky_text_contains(line->name, "batch_semaphore::") &&
			      ky_text_contains(line->name, "add_permits");
		is_guard |= is_batch_release(line);
		what = is_release ? what_of_name(line->name) : KY_SYNC_NONE;
		if (what != KY_SYNC_NONE)
			return what;
		if (ky_code_is_own(line))
			break;
	}
	/* Inlined functions have no name without debug information, and all are semaphores inside.
	 * A permit's drop and a receiver have no parameters, so they are no part of the program's
	 * functions; a guard's has the type that it protects. */
	if (!is_release)
		return KY_SYNC_NONE;
	return is_guard ? KY_SYNC_LOCK : KY_SYNC_SEMAPHORE;
}

/* The program's own code woke it, as by Notify, whose function is often not on the stack (its last
 * call is a jump); and not by a message. */
static bool is_by_program(const struct ky_facts *facts, const struct ky_wake *wake)
{
	static const char *const messages[] = {"mpsc::",
					       "oneshot::",
					       "watch::",
					       "broadcast::",
					       "barrier::",
					       "channel::",
					       "flume::",
					       "async_channel::",
					       "futures_channel::",
					       "kanal::",
					       "event_listener::__drop"};
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

static bool is_of_other(const struct ky_trace *trace, const struct ky_wake *wake)
{
	return wake->waker != KY_NONE && wake->waker != wake->woken &&
	       trace->tasks[wake->waker].name != KY_NONE &&
	       trace->tasks[wake->woken].name != KY_NONE;
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
		    (what == KY_SYNC_NOTIFY && !is_of_other(facts->trace, &wake)))
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

/* Who was notified by one that is no peer got work, and until then had nothing to do. */
static void drop_work(struct ky_sync_waits *waits, const struct ky_trace *trace)
{
	struct ky_notify_peers peers = {.count = 0};
	uint32_t kept = 0;

	for (uint32_t i = 0; i < waits->count; i++)
		if (waits->list[i].what == KY_SYNC_NOTIFY)
			ky_notify_peers_add(&peers, trace->tasks[waits->list[i].waker].name,
					    trace->tasks[waits->list[i].task].name);
	for (uint32_t i = 0; i < waits->count; i++) {
		const struct ky_sync_wait *one = &waits->list[i];

		if (one->what != KY_SYNC_NOTIFY ||
		    ky_notify_peers_are(&peers, trace->tasks[one->waker].name,
					trace->tasks[one->task].name))
			waits->list[kept++] = *one;
	}
	waits->count = kept;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_sync_wait *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->to_ns < other->to_ns;
}

/* The first wait of a task that ends then or later; firsts[task + 1]: none. */
static uint32_t wait_after(const struct ky_sync_waits *waits, const uint32_t *firsts, uint32_t task,
			   uint64_t ns)
{
	uint32_t low = firsts[task], high = firsts[task + 1];

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (waits->list[middle].to_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The end of a poll is the beginning of the wait that ends next. */
static void add_poll(struct ky_sync_waits *waits, const uint32_t *firsts,
		     const struct ky_poll *poll)
{
	uint64_t end_ns = poll->start_ns + poll->duration_ns;
	uint32_t low = wait_after(waits, firsts, poll->task, end_ns);

	if (low < firsts[poll->task + 1] && waits->list[low].from_ns < end_ns)
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

/* Without debug information each release is one of a semaphore; the await point of the one that
 * waits has the function that it called, unless that is inlined, too. */
static uint8_t what_of_point(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	uint8_t what = KY_SYNC_NONE;

	ky_code_walk_begin(&walk, code, stack);
	while (what == KY_SYNC_NONE && (line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		what = what_of_name(line->name);
	/* One that waits for a permit says what it waits for already. */
	return what != KY_SYNC_SEMAPHORE ? what : KY_SYNC_NONE;
}

static bool is_unnamed(uint8_t what)
{
	return what == KY_SYNC_SEMAPHORE || what == KY_SYNC_LOCK;
}

/* named: by stack of a release, NOT_ASKED for all before. Returns whether any was named so. */
static bool name_by_points(struct ky_sync_waits *waits, const struct ky_facts *facts,
			   const uint32_t *firsts, uint8_t *named)
{
	const struct ky_samples *samples = &facts->trace->samples;
	bool is_named = false;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		uint8_t what;

		if (row->kind != KY_STACK_PLACE || row->task == KY_NONE || row->stack == KY_NONE ||
		    firsts[row->task] == firsts[row->task + 1])
			continue;
		what = what_of_point(&facts->profile->code, row->stack);
		if (what == KY_SYNC_NONE)
			continue;
		for (uint32_t at = wait_after(waits, firsts, row->task, row->time_ns);
		     at < firsts[row->task + 1] && waits->list[at].to_ns <= row->end_ns + LATE_NS;
		     at++)
			if (is_unnamed(waits->list[at].what) &&
			    waits->list[at].from_ns < row->end_ns)
				named[waits->list[at].stack] = what;
	}
	for (uint32_t i = 0; i < waits->count; i++)
		if (is_unnamed(waits->list[i].what) && named[waits->list[i].stack] != NOT_ASKED) {
			waits->list[i].what = named[waits->list[i].stack];
			is_named = true;
		}
	return is_named;
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

/* Where releases have no names, a lock that some waits name is a semaphore, or any lock, in the
 * others. */
static bool is_same(const struct ky_sync_wait *one, const struct ky_sync_wait *other,
		    bool has_names)
{
	if (one->what == KY_SYNC_LOCK || other->what == KY_SYNC_LOCK)
		return ky_sync_is_tokios_lock(one->what) && ky_sync_is_tokios_lock(other->what);
	return one->what == other->what ||
	       (!has_names && (one->what == KY_SYNC_SEMAPHORE || other->what == KY_SYNC_SEMAPHORE));
}

/* Who released it may have had it for no time, and got it from one that had it for long. */
static void find_blamed(struct ky_sync_waits *waits, bool has_names)
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
			    !is_same(&waits->list[before], one, has_names))
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
	bool is_named;

	for (uint32_t i = 0; i < trace->samples.stack_count; i++)
		whats[i] = NOT_ASKED;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		if (!collect(out, facts, whats, worker))
			return -ENOMEM;
	drop_work(out, trace);
	if (!out->count)
		return 0;
	ky_sort(out->list, out->count, sizeof(*out->list), is_before, NULL);
	for (uint32_t i = 0; i < out->count; i++)
		firsts[out->list[i].task + 1] = i + 1;
	for (uint32_t i = 1; i <= trace->task_count; i++)
		if (firsts[i] < firsts[i - 1])
			firsts[i] = firsts[i - 1];
	find_begins(out, trace, firsts);
	memset(whats, NOT_ASKED, trace->samples.stack_count);
	is_named = name_by_points(out, facts, firsts, whats);
	if (ky_pool_runs_make(&runs, trace, facts->report->shutdown_ns))
		return -ENOMEM;
	keep_long(out, &runs);
	find_blamed(out, !is_named);
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
