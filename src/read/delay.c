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

#define IDLE UINT64_MAX
#define STEPS_MAX 4096u /* rows between two looks at the round */

/* What a poll or wake touches of its task: one cache line, copied to the table at the end. */
struct task_state {
	uint64_t ready_ns;   /* IDLE: nothing woke it yet */
	uint64_t busy_to_ns; /* end of its last poll; 0: not polled yet */
	uint64_t first_ns;
	uint64_t busy_ns;
	uint64_t poll_max_ns;
	uint64_t delay_ns;
	uint32_t poll_count, wake_count;
	uint32_t name;
	uint32_t is_spawn_seen : 1;
	uint32_t is_end_known : 1; /* of its last poll */
	uint32_t redundant_count : 30;
};

#define REDUNDANT_MAX ((1u << 30) - 1)

_Static_assert(sizeof(struct task_state) == 64, "one cache line");

/* Polls or wakes of one lane. */
struct delay_feed {
	struct ky_cursor cursor;
	uint32_t lane;
	bool is_poll;
	bool has_ended;
};

/* A feed's next row in the tournament. */
struct delay_entry {
	uint64_t key; /* time since base_ns << RANK_BITS | rank */
	uint32_t feed;
};

struct delay_pass {
	struct ky_trace *trace;
	struct task_state *states;
	struct delay_feed *feeds;
	uint32_t feed_count;
	/* Tournament over leaf_count (a power of two) feeds: losers[n] is who lost at inner node
	 * n, so a feed that moves on only meets the losers on its way to the root.
	 *
	 * Equal times: a wake precedes the poll it may have caused, unless the task woke itself
	 * (rank); then the lower feed, who is the left one wherever the two meet. Rows later than
	 * the key can say wait for the next round (there are at most four), with its own base. */
	struct delay_entry *losers;
	uint32_t leaf_count;
	uint64_t base_ns;
	struct delay_entry first;
	/* Only with losses and several runtimes, else NULL. Per loss: the one runtime whose workers
	 * its thread carried, KY_NONE: the trace does not report. Per runtime: all its workers'
	 * threads are known and none ever changed. */
	uint32_t *loss_runtimes;
	bool *is_settled;
};

#define RANK_BITS 2
#define ROUND_NS (UINT64_MAX >> RANK_BITS)
#define WORKERS_MAX (1u << 28)
#define LOSSES_CHECKED_MAX 64u /* per poll; after more of them nothing is measured */
#define SEVERAL_RUNTIMES UINT32_MAX
#define ROW_PREFETCH_BYTES 256u

/* After every row, and one more than it is still a number. */
#define NO_KEY (UINT64_MAX - 1)

/* The row's task is needed when its turn comes, some rows of other feeds later: fetch it now. */
static inline struct delay_entry entry_of(const struct delay_pass *pass, uint32_t index)
{
	const struct delay_feed *feed = &pass->feeds[index];
	const struct ky_wake_row *wake = (const void *)feed->cursor.at;
	const struct ky_poll_row *poll = (const void *)feed->cursor.at;
	uint64_t since_ns = feed->cursor.time_ns - pass->base_ns;
	struct delay_entry entry = {since_ns << RANK_BITS, index};

	/* More streams than the CPU follows by itself; beyond the block it does nothing. */
	__builtin_prefetch((const void *)((uintptr_t)feed->cursor.at + ROW_PREFETCH_BYTES));
	if (feed->is_poll) {
		entry.key |= 1;
		__builtin_prefetch(&pass->states[poll->task], 1);
	} else {
		entry.key |= wake->woken == wake->waker ? 2 : 0;
		__builtin_prefetch(&pass->states[wake->woken], 1);
	}
	if (since_ns >= ROUND_NS)
		entry.key = NO_KEY;
	return entry;
}

/* The feed that stood first plays again with its next row. An exchange without a branch: who wins
 * is a matter of chance. */
static inline void replay(struct delay_pass *pass, struct delay_entry entry)
{
	uint32_t place = pass->leaf_count + entry.feed;

	for (; place > 1; place /= 2) {
		struct delay_entry *loser = &pass->losers[place / 2];
		uint64_t is_beaten = 0 - (uint64_t)(loser->key < entry.key + (place & 1));
		uint64_t key = (loser->key ^ entry.key) & is_beaten;
		uint32_t feed = (loser->feed ^ entry.feed) & (uint32_t)is_beaten;

		loser->key ^= key;
		entry.key ^= key;
		loser->feed ^= feed;
		entry.feed ^= feed;
	}
	pass->first = entry;
}

/* Begins a round at the earliest row of all feeds. Returns false when none is left. winners:
 * 2 * leaf_count entries of scratch. */
static bool begin_round(struct delay_pass *pass, struct delay_entry *winners)
{
	uint32_t i, leaves = pass->leaf_count;
	bool is_any = false;

	for (i = 0; i < pass->feed_count; i++) {
		const struct delay_feed *feed = &pass->feeds[i];

		if (!feed->has_ended && (!is_any || feed->cursor.time_ns < pass->base_ns)) {
			pass->base_ns = feed->cursor.time_ns;
			is_any = true;
		}
	}
	for (i = 0; i < leaves; i++) {
		struct delay_entry none = {NO_KEY, i};

		winners[leaves + i] = i < pass->feed_count && !pass->feeds[i].has_ended ?
					      entry_of(pass, i) :
					      none;
	}
	for (i = leaves - 1; i > 0; i--) {
		bool is_right = winners[2 * i + 1].key < winners[2 * i].key;

		winners[i] = winners[2 * i + is_right];
		pass->losers[i] = winners[2 * i + !is_right];
	}
	pass->first = winners[1];
	return is_any;
}

static void on_wake(struct delay_pass *pass, const struct delay_feed *feed)
{
	const struct ky_wake_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->woken];
	uint64_t time_ns = feed->cursor.time_ns;

	state->wake_count += state->wake_count < UINT32_MAX;
	if (time_ns < state->first_ns && !state->is_spawn_seen)
		state->first_ns = time_ns;
	if (state->ready_ns != IDLE) {
		pass->trace->wakes_redundant++;
		if (state->redundant_count < REDUNDANT_MAX)
			state->redundant_count++;
	} else if (time_ns < state->busy_to_ns) {
		pass->trace->wakes_in_own_poll++;
		state->ready_ns = state->busy_to_ns;
	} else {
		state->ready_ns = time_ns;
	}
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

static uint64_t ready_of(const struct task_state *state, uint64_t start_ns)
{
	uint64_t ready_ns = state->ready_ns;

	if (state->busy_to_ns == 0 && state->is_spawn_seen && state->first_ns <= start_ns &&
	    state->first_ns < ready_ns)
		ready_ns = state->first_ns;
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

static bool measure(struct delay_pass *pass, const struct delay_feed *feed,
		    struct task_state *state)
{
	struct ky_trace *trace = pass->trace;
	uint32_t *extra = &feed->cursor.extra[feed->cursor.place];
	uint64_t start_ns = feed->cursor.time_ns, ready_ns;

	ready_ns = ready_of(state, start_ns);
	if (*extra != KY_DELAY_NO_WAKE) { /* the writer measured it */
		trace->delays_recorded++;
		trace->delays_measured++;
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
		trace->delays_no_wake++;
		return true;
	}
	if (!is_whole(pass, feed, ready_ns, start_ns)) {
		*extra = KY_DELAY_WITHHELD;
		trace->delays_withheld++;
		return true;
	}
	trace->delays_measured++;
	state->delay_ns += start_ns - ready_ns;
	return set_delay(pass, feed, start_ns - ready_ns);
}

/* Few waits are long. */
static void add_wait(struct delay_pass *pass, const struct delay_feed *feed, uint32_t task,
		     const struct task_state *state, uint64_t start_ns)
{
	if (state->is_end_known && start_ns > state->busy_to_ns &&
	    start_ns - state->busy_to_ns >= KY_LONG_WAIT_NS &&
	    is_whole(pass, feed, state->busy_to_ns, start_ns))
		pass->trace->tasks[task].long_wait_ns += start_ns - state->busy_to_ns;
}

static bool on_poll(struct delay_pass *pass, const struct delay_feed *feed)
{
	const struct ky_poll_row *row = (const void *)feed->cursor.at;
	struct task_state *state = &pass->states[row->task];
	uint64_t start_ns = feed->cursor.time_ns, duration_ns = row->duration_ns;
	uint32_t name = row->site & 0xffffffu, flags = row->site >> 24;

	if (flags & KY_POLL_LONG)
		duration_ns = pass->trace->private->long_durations[row->duration_ns];
	if (state->name == KY_NONE && name != 0xffffffu)
		state->name = name;
	if (start_ns < state->first_ns && !state->is_spawn_seen)
		state->first_ns = start_ns;
	if (!measure(pass, feed, state))
		return false;
	add_wait(pass, feed, row->task, state, start_ns);
	state->ready_ns = IDLE;
	state->poll_count += state->poll_count < UINT32_MAX;
	/* It is not known when it ended: a wake after its start counts from itself. */
	state->busy_to_ns = start_ns;
	state->is_end_known = 0;
	if (flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
		return true;
	state->busy_to_ns = start_ns + duration_ns;
	state->is_end_known = 1;
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
		pass->states[i].first_ns = task->first_ns;
		pass->states[i].name = task->name;
		pass->states[i].is_spawn_seen = (task->flags & KY_TASK_SPAWN_SEEN) != 0;
	}
	for (i = 0; i + 1 < private->live_ready_count; i += 2)
		pass->states[private->live_ready[i]].ready_ns = private->live_ready[i + 1];
}

static void store_states(const struct delay_pass *pass)
{
	uint64_t end_ns; /* of its last wait: its end without a poll, or the trace's */
	uint32_t i;

	for (i = 0; i < pass->trace->task_count; i++) {
		struct ky_task *task = &pass->trace->tasks[i];
		const struct task_state *state = &pass->states[i];

		task->first_ns = state->first_ns;
		task->name = state->name;
		task->poll_count = state->poll_count;
		task->wake_count = state->wake_count;
		task->redundant_count = state->redundant_count;
		task->busy_ns = state->busy_ns;
		task->poll_max_ns = state->poll_max_ns;
		task->delay_ns = state->delay_ns;
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

	if (!ky_cursor_begin(&feed->cursor, column, 0))
		return;
	feed->lane = lane;
	feed->is_poll = is_poll;
	feed->has_ended = false;
	pass->feed_count++;
}

/* The next rows of a round. A function of its own, called often: an engine for WebAssembly replaces
 * its first, slow code of a function when that is called again, never inside its loop. */
__attribute__((noinline)) static bool walk_some(struct delay_pass *pass)
{
	for (uint32_t left = STEPS_MAX; left && pass->first.key != NO_KEY; left--) {
		struct delay_entry next = {NO_KEY, pass->first.feed};
		struct delay_feed *feed = &pass->feeds[next.feed];

		if (!feed->is_poll)
			on_wake(pass, feed);
		else if (!on_poll(pass, feed))
			return false;
		if (ky_cursor_next(&feed->cursor))
			next = entry_of(pass, next.feed);
		else
			feed->has_ended = true;
		replay(pass, next);
	}
	return true;
}

static int run(struct delay_pass *pass, struct delay_entry *winners)
{
	struct ky_trace *trace = pass->trace;
	uint32_t i;

	if (pass->loss_runtimes && !place_losses(pass))
		return trace->pages.failed;
	load_states(pass);
	for (i = 0; i < trace->worker_count; i++) {
		add_feed(pass, &trace->workers[i].polls, i, true);
		add_feed(pass, &trace->workers[i].wakes, i, false);
	}
	while (begin_round(pass, winners))
		while (pass->first.key != NO_KEY)
			if (!walk_some(pass))
				return trace->pages.failed;
	store_states(pass);
	return 0;
}

static int measure_all(struct delay_pass *pass)
{
	struct ky_trace *trace = pass->trace;
	size_t feed_bytes = 2 * (size_t)trace->worker_count * sizeof(*pass->feeds);
	size_t loser_bytes = (size_t)pass->leaf_count * sizeof(*pass->losers);
	size_t winner_bytes = 2 * loser_bytes;
	size_t state_bytes = (size_t)trace->task_count * sizeof(*pass->states);
	struct delay_entry *winners;
	int result;

	pass->feeds = ky_pages_alloc(&trace->pages, feed_bytes);
	pass->losers = ky_pages_alloc(&trace->pages, loser_bytes);
	winners = ky_pages_alloc(&trace->pages, winner_bytes);
	pass->states = ky_pages_alloc(&trace->pages, state_bytes);
	if (pass->feeds && pass->losers && winners && pass->states)
		result = run(pass, winners);
	else
		result = trace->pages.failed;
	ky_pages_free(&trace->pages, pass->feeds, feed_bytes);
	ky_pages_free(&trace->pages, pass->losers, loser_bytes);
	ky_pages_free(&trace->pages, winners, winner_bytes);
	ky_pages_free(&trace->pages, pass->states, state_bytes);
	return result;
}

int ky_delay(struct ky_trace *trace)
{
	struct delay_pass pass = {.trace = trace, .leaf_count = 2};
	size_t loss_bytes = (size_t)trace->loss_count * sizeof(*pass.loss_runtimes);
	size_t settled_bytes = (size_t)trace->runtime_count * sizeof(*pass.is_settled);
	int result;

	if (trace->worker_count == 0 || trace->task_count == 0)
		return 0;
	if (trace->worker_count > WORKERS_MAX)
		return KYMO_E_LIMIT;
	while (pass.leaf_count < 2 * trace->worker_count)
		pass.leaf_count *= 2;
	if (trace->loss_count > 0 && trace->runtime_count > 1) {
		pass.loss_runtimes = ky_pages_alloc(&trace->pages, loss_bytes);
		pass.is_settled = ky_pages_alloc(&trace->pages, settled_bytes);
	}
	result = trace->pages.failed ? trace->pages.failed : measure_all(&pass);
	ky_pages_free(&trace->pages, pass.loss_runtimes, loss_bytes);
	ky_pages_free(&trace->pages, pass.is_settled, settled_bytes);
	return result;
}
