/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/switch_windows.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/random.h>
#include <probe/fault_stacks.h>
#include <probe/still_threads.h>
#include <errno.h>
#include <probe/perf_source.h>
#include <probe/switch_duty.h>
#include <probe/switch_pairs.h>
#include <probe/switch_wakes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define RECORDS_MAX 65536u
#define SECOND_NS UINT64_C(1000000000)
#define ONE_WEIGHT UINT64_C(0x100000000) /* 1 in parts of 2^32 */
#define WEIGHT_MAX UINT64_C(0x100000000) /* times 1 */
#define LENGTH_MAX_NS (10 * SECOND_NS)
/* A running thread's CPU time is brought up to date at the tick, every 10 ms at most. */
#define STILL_NS_MIN UINT64_C(12000000)
#define BUDGET_MAX 2000.0
#define CHECK_NS UINT64_C(20000000)
/* From a wake-up to the queue of a CPU that has to leave its sleep first. */
#define WAY_IN_NS UINT64_C(200000)
#define EVENTS_MAX 512u /* that windows open and close, some 5 us each */
#define RETRY_NS SECOND_NS
#define QUIET_PER_S UINT64_C(16)
#define STATES_MAX 4u /* of threads that are asked for at a reading, some 9 us each */

struct ky_switch_windows {
	struct ky_perf_options how;
	struct ky_perf *perf; /* NULL: none */
	int refusal;
	uint64_t record_ns; /* what a record takes in the kernel */
	struct ky_switch_duty duty;
	struct ky_switch_pairs pairs;
	struct ky_still_threads still;
	struct ky_switch_wakes wakes;
	struct ky_fault_stacks faults;
	struct ky_perf_switch *records; /* read, and not taken yet */
	uint32_t record_count;
	bool can_rest;
	bool is_watched;                     /* the caller waits for the rings, too */
	ky_switch_pid_fn pid;                /* NULL: events are open between windows, too */
	bool is_attached;                    /* threads have events */
	bool was_refused;                    /* at the last window */
	bool is_open;                        /* a window */
	bool is_resting;                     /* no time ends it */
	uint64_t window_ns, end_ns;          /* of it */
	uint64_t stretch_ns;                 /* the time that it stands for began */
	uint64_t busy_ns;                    /* what the process had run for at its beginning */
	uint64_t due_ns;                     /* of the next one; 0: as soon as there is a ring */
	uint64_t taken_count, cpu_ns;        /* what the window has cost so far */
	uint64_t copy_count;                 /* of stacks */
	uint64_t lost_reported, window_lost; /* records */
	uint64_t switch_count, rate;         /* of the window, and a second of the last one */
	uint64_t length_ns;                  /* T: shorter ones are kept by chance; 0: all are */
	double budget;                       /* intervals that may be reported */
	uint64_t put_ns;                     /* last time something was put */
	uint64_t random;
};

int ky_switch_windows_open(struct ky_switch_windows **out, const struct ky_perf_options *how,
			   bool can_rest)
{
	struct ky_switch_windows *switches = ky_alloc(sizeof(*switches));

	*out = switches;
	if (!switches)
		return -ENOMEM;
	switches->how = *how;
	switches->can_rest = can_rest;
	switches->records = ky_alloc(RECORDS_MAX * sizeof(*switches->records));
	if (!switches->records || ky_switch_pairs_init(&switches->pairs) != 0) {
		ky_switch_windows_close(switches);
		*out = NULL;
		return -ENOMEM;
	}
	ky_still_init(&switches->still);
	switches->budget = BUDGET_MAX;
	if (getrandom(&switches->random, sizeof(switches->random), 0) !=
	    (ssize_t)sizeof(switches->random))
		switches->random = ky_now_ns(CLOCK_MONOTONIC);
	switches->random |= 1;
	ky_switch_duty_init(&switches->duty, switches->random);
	switches->refusal = ky_perf_test_switches(&switches->how, &switches->record_ns);
	/* A process that watches itself has no descriptors to spare for them. */
	switches->faults.refusal = can_rest ? -EOPNOTSUPP : 0;
	if (!switches->refusal && !can_rest)
		switches->faults.refusal = ky_fault_stacks_test(&switches->how);
	return 0;
}

static bool covers(void *ctx, uint32_t tid, uint64_t from_ns)
{
	const struct ky_switch_wakes *wakes = ctx;

	return ky_wakes_covers(wakes->wakes, tid, from_ns);
}

void ky_switch_windows_add_wakes(struct ky_switch_windows *switches, ky_switch_pid_fn pid)
{
	if (!switches || switches->refusal)
		return;
	ky_switch_wakes_open(&switches->wakes, pid);
	if (!switches->wakes.wakes)
		return;
	switches->pairs.covers = covers;
	switches->pairs.covers_ctx = &switches->wakes;
}

void ky_switch_windows_leave_between(struct ky_switch_windows *switches, ky_switch_pid_fn pid)
{
	if (!switches || switches->refusal)
		return;
	switches->pid = pid;
	switches->how.is_held = true;
}

void ky_switch_windows_close(struct ky_switch_windows *switches)
{
	if (!switches)
		return;
	ky_perf_close(switches->perf);
	ky_fault_stacks_close(&switches->faults);
	ky_switch_wakes_close(&switches->wakes);
	ky_still_release(&switches->still);
	ky_switch_pairs_release(&switches->pairs);
	ky_free(switches->records);
	ky_free(switches);
}

static int open_switches(struct ky_switch_windows *switches, pid_t pid, bool is_running)
{
	bool is_at_once = is_running && !switches->how.is_held;
	int err = is_at_once ? ky_perf_add_all(&switches->perf, &switches->how, pid) :
			       ky_perf_open(&switches->perf, &switches->how, pid);

	if (err) {
		ky_perf_close(switches->perf);
		switches->perf = NULL;
	}
	return err;
}

/* Do the rings of switches have all the room that they want? */
static bool has_room(const struct ky_switch_windows *switches)
{
	uint32_t wanted = switches->how.ring_bytes_max;
	struct ky_perf_about about = {0};

	if (switches->perf)
		ky_perf_about(switches->perf, &about);
	return about.ring_bytes >= (wanted ? wanted : KY_PERF_SWITCH_RING_BYTES);
}

/* Stacks of faults first, see fault_stacks.h; where that leaves too little of the memory that one
 * may lock, switches alone. */
static void open_events(struct ky_switch_windows *switches, pid_t pid, bool is_running)
{
	if (!switches || switches->refusal)
		return;
	ky_fault_stacks_open(&switches->faults, &switches->how, pid, is_running);
	switches->refusal = open_switches(switches, pid, is_running);
	if (!switches->faults.perf || (!switches->refusal && has_room(switches)))
		return;
	ky_fault_stacks_close(&switches->faults);
	switches->faults.refusal = -ENOMEM;
	ky_perf_close(switches->perf);
	switches->perf = NULL;
	switches->refusal = open_switches(switches, pid, is_running);
}

void ky_switch_windows_start(struct ky_switch_windows *switches, pid_t pid)
{
	open_events(switches, pid, false);
}

void ky_switch_windows_attach(struct ky_switch_windows *switches, pid_t pid)
{
	open_events(switches, pid, true);
}

void ky_switch_windows_describe(const struct ky_switch_windows *switches,
				struct ky_sample_class_head *head)
{
	uint32_t sources = 1u << KY_SOURCE_SWITCHES;

	if (switches->refusal) {
		atomic_store_explicit(&head->refusals[KY_SOURCE_SWITCHES],
				      (uint32_t)-switches->refusal, memory_order_relaxed);
		return;
	}
	/* Of page faults: stacks. */
	if (switches->faults.perf)
		sources |= 1u << KY_SOURCE_PERF;
	else
		atomic_store_explicit(&head->refusals[KY_SOURCE_PERF],
				      (uint32_t)-switches->faults.refusal, memory_order_relaxed);
	if (switches->wakes.wakes)
		sources |= 1u << KY_SOURCE_WAKES;
	if (access("/proc/self/schedstat", R_OK) == 0)
		sources |= 1u << KY_SOURCE_DELAY;
	atomic_fetch_or_explicit(&head->source, sources, memory_order_relaxed);
}

int ky_switch_windows_refusal(const struct ky_switch_windows *switches)
{
	return switches->refusal;
}

bool ky_switch_windows_is_resting(const struct ky_switch_windows *switches)
{
	return switches->is_open && switches->is_resting;
}

uint32_t ky_switch_windows_fds(const struct ky_switch_windows *switches, int *out, uint32_t max)
{
	return switches->perf ? ky_perf_fds(switches->perf, out, max) : 0;
}

uint32_t ky_switch_windows_watch(struct ky_switch_windows *switches, int *out, uint32_t max)
{
	struct ky_perf_about about;

	if (!switches || !switches->perf || !switches->pid)
		return 0;
	ky_perf_about(switches->perf, &about);
	switches->is_watched = about.cpu_count <= max;
	if (!switches->is_watched || switches->duty.window_ns <= KY_DUTY_WINDOW_NS_MAX)
		return 0;
	return ky_perf_fds(switches->perf, out, about.cpu_count);
}

const struct ky_still_threads *ky_switch_windows_still(const struct ky_switch_windows *switches)
{
	return &switches->still;
}

/* ---- reading ---- */

static void on_switch(void *ctx, const struct ky_perf_switch *what)
{
	struct ky_switch_windows *switches = ctx;

	ky_switch_wakes_note(&switches->wakes, what->tid);
	/* Else there will be no room for others. */
	if (what->is_swollen)
		ky_fault_stacks_close(&switches->faults);
	if (what->kind == KY_SWITCH_FAULT)
		ky_fault_stacks_note(&switches->faults, what->ns);
	if (switches->record_count < RECORDS_MAX)
		switches->records[switches->record_count++] = *what;
	else
		switches->window_lost++;
}

static int by_time(const void *a, const void *b)
{
	const struct ky_perf_switch *one = a, *other = b;

	return (one->ns > other->ns) - (one->ns < other->ns);
}

static void read_records(struct ky_switch_windows *switches, const struct ky_switch_places *places)
{
	uint64_t lost_before = switches->window_lost, lost;
	struct ky_perf_about about;
	uint32_t count = ky_perf_read_switches(switches->perf, on_switch, switches);

	switches->taken_count += count;
	switches->switch_count += count;
	switches->copy_count += ky_fault_stacks_read(&switches->faults, places, on_switch,
						     switches);
	ky_perf_about(switches->perf, &about);
	switches->window_lost += about.lost_count - switches->lost_reported;
	switches->lost_reported = about.lost_count;
	switches->taken_count += ky_switch_wakes_read(&switches->wakes, on_switch, switches, &lost);
	switches->window_lost += lost;
	if (switches->window_lost != lost_before)
		ky_switch_pairs_lost(&switches->pairs);
	/* Of several CPUs, each in its order. */
	qsort(switches->records, switches->record_count, sizeof(*switches->records), by_time);
}

/* Those up to a moment from which on records may still be missing. */
static void take_records(struct ky_switch_windows *switches, uint64_t until_ns)
{
	uint32_t i = 0;

	while (i < switches->record_count && switches->records[i].ns <= until_ns) {
		if (switches->records[i].ns >= switches->window_ns)
			ky_switch_pairs_take(&switches->pairs, &switches->records[i]);
		i++;
	}
	memmove(switches->records, switches->records + i,
		(switches->record_count - i) * sizeof(*switches->records));
	switches->record_count -= i;
}

/* ---- putting ---- */

/* With p = min(1, length / T). T is what earlier readings made it. Returns how many are kept. */
static uint32_t thin_out(struct ky_switch_windows *switches)
{
	struct ky_switch_pair *pairs = switches->pairs.out;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < switches->pairs.out_count; i++) {
		uint64_t ns = pairs[i].interval.end_ns - pairs[i].interval.begin_ns;

		if (ns >= switches->length_ns ||
		    ky_random_next(&switches->random) >> 32 <
			    (uint64_t)((double)ns / (double)switches->length_ns *
				       (double)ONE_WEIGHT))
			pairs[kept++] = pairs[i];
	}
	return kept;
}

/* By what is left of the budget: bursts are kept whole, what continues is not. */
static void adapt_length(struct ky_switch_windows *switches, uint64_t now_ns, uint32_t kept)
{
	uint64_t ns = switches->put_ns && now_ns > switches->put_ns ? now_ns - switches->put_ns : 0;
	double budget = switches->budget + (double)ns / (double)SECOND_NS * KY_SWITCHES_HZ_MAX;
	uint64_t length = switches->length_ns;

	budget = (budget < BUDGET_MAX ? budget : BUDGET_MAX) - kept;
	switches->budget = budget > -BUDGET_MAX ? budget : -BUDGET_MAX;
	if (budget < BUDGET_MAX / 4)
		length = (length > KY_SWITCH_NS_MIN ? length : KY_SWITCH_NS_MIN) * 2;
	else if (budget > BUDGET_MAX / 2)
		length = length / 2 > KY_SWITCH_NS_MIN ? length / 2 : 0;
	switches->length_ns = length < LENGTH_MAX_NS ? length : LENGTH_MAX_NS;
	switches->put_ns = now_ns;
}

static int by_thread(const void *a, const void *b)
{
	const struct ky_switch_pair *one = a, *other = b;

	if (one->pid != other->pid)
		return one->pid < other->pid ? -1 : 1;
	if (one->tid != other->tid)
		return one->tid < other->tid ? -1 : 1;
	return (one->interval.begin_ns > other->interval.begin_ns) -
	       (one->interval.begin_ns < other->interval.begin_ns);
}

static uint64_t weight_of(const struct ky_switch_windows *switches)
{
	double weight = (double)(switches->end_ns - switches->stretch_ns) /
			(double)(switches->end_ns - switches->window_ns);

	return (uint64_t)((weight < (double)WEIGHT_MAX ? weight : (double)WEIGHT_MAX) *
			  (double)ONE_WEIGHT);
}

/* By wake-ups, all of them. */
static bool is_known(const struct ky_switch_pair *pairs, uint32_t count)
{
	uint32_t i = 0;

	while (i < count && pairs[i].interval.runnable_min_ns == pairs[i].interval.runnable_max_ns)
		i++;
	return i == count;
}

/* The kernel counts from the queue on, a wake-up is reported before the way there. */
static void loosen(struct ky_switch_interval *interval)
{
	uint64_t length = interval->end_ns - interval->begin_ns;

	interval->runnable_max_ns += WAY_IN_NS;
	if (interval->runnable_max_ns > length)
		interval->runnable_max_ns = length;
}

/* It continues, and no wake-up was reported. Where it waits even now, it did all the time. */
static void split_last(struct ky_switch_windows *switches, const struct ky_still_thread *thread,
		       struct ky_switch_interval *interval, uint32_t *states)
{
	if (!switches->pairs.covers || !(interval->flags & KY_SWITCH_END_UNSEEN) ||
	    interval->runnable_min_ns == interval->runnable_max_ns || *states == STATES_MAX)
		return;
	(*states)++;
	if (ky_still_waits(thread))
		interval->runnable_max_ns = 0;
}

/* Those of one thread: blocked, or ready to run? states: how many were asked for theirs. */
static void split(struct ky_switch_windows *switches, struct ky_switch_pair *pairs, uint32_t count,
		  uint32_t *states)
{
	struct ky_still_thread *thread = ky_still_note(&switches->still, pairs->pid, pairs->tid);
	struct ky_still_growth growth;
	struct ky_switch_sums sums;

	if (!thread || is_known(pairs, count) ||
	    !ky_switch_pairs_sums(&switches->pairs, pairs->tid, &sums) ||
	    !ky_still_grow(thread, &sums, &growth))
		return;
	for (uint32_t i = 0; i < count; i++) {
		struct ky_switch_interval *interval = &pairs[i].interval;
		bool is_exact = interval->runnable_min_ns == interval->runnable_max_ns;

		ky_still_bound(&growth, interval);
		if (!is_exact && switches->pairs.covers)
			loosen(interval);
	}
	split_last(switches, thread, &pairs[count - 1].interval, states);
}

static void split_all(struct ky_switch_windows *switches, uint32_t count)
{
	struct ky_switch_pair *pairs = switches->pairs.out;
	uint32_t states = 0, next;

	for (uint32_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && pairs[next].pid == pairs[i].pid &&
				   pairs[next].tid == pairs[i].tid;
		     next++)
			;
		split(switches, pairs + i, next - i, &states);
	}
}

/* Some of one thread; one alone, if it has a stack of the program. */
static void put(const struct ky_switch_windows *switches, const struct ky_sample_ring *ring,
		const struct ky_switch_pair *pairs, uint32_t count)
{
	const struct ky_fault_stack *stack = ky_fault_stacks_find(&switches->faults, pairs->user);
	uint64_t frames[KY_SAMPLE_FRAMES_MAX], *at = frames;
	bool has_waker = switches->wakes.wakes != NULL;
	struct ky_sample sample = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .tid = pairs->tid,
				   .stamp = pairs->interval.begin_ns,
				   .value = switches->length_ns,
				   .weight = weight_of(switches),
				   .frames = frames};

	if (has_waker)
		sample.flags |= KY_SAMPLE_HAS_WAKER;
	for (uint32_t i = 0; i < count; i++) {
		ky_switch_enc(&pairs[i].interval, sample.stamp, at);
		at += KY_SWITCH_FRAMES;
		if (has_waker)
			*at++ = ky_switch_enc_waker(&pairs[i].interval);
	}
	if (stack) {
		sample.flags |= KY_SAMPLE_HAS_STACK;
		sample.flags |= stack->is_truncated ? KY_SAMPLE_TRUNCATED : 0;
		memcpy(at, stack->frames, stack->count * sizeof(*at));
		at += stack->count;
	}
	sample.frame_count = (uint32_t)(at - frames);
	(void)ky_sample_put(ring, &sample);
}

static void put_all(struct ky_switch_windows *switches, const struct ky_switch_places *places,
		    uint64_t now_ns)
{
	struct ky_switch_pair *pairs = switches->pairs.out;
	uint32_t count = thin_out(switches), next, most;

	most = KY_SAMPLE_FRAMES_MAX / (KY_SWITCH_FRAMES + (switches->wakes.wakes != NULL));
	qsort(pairs, count, sizeof(*pairs), by_thread);
	split_all(switches, count);
	for (uint32_t i = 0; i < count; i = next) {
		const struct ky_sample_ring *ring = places->find(places->ctx, pairs[i].pid,
								 pairs[i].interval.end_ns);

		for (next = i + 1;
		     next < count && next - i < most && pairs[next].pid == pairs[i].pid &&
		     pairs[next].tid == pairs[i].tid && !pairs[i].user && !pairs[next].user;
		     next++)
			;
		if (!ring)
			continue;
		ky_switch_wakes_name(&switches->wakes, ring, pairs + i, next - i, now_ns);
		put(switches, ring, pairs + i, next - i);
	}
	ky_switch_pairs_taken(&switches->pairs);
	adapt_length(switches, now_ns, count);
}

/* What was watched up to end_ns, for every process alike. */
static void put_window(const struct ky_switch_windows *switches,
		       const struct ky_switch_places *places, uint64_t end_ns, uint64_t observed_ns)
{
	struct ky_sample sample = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .stamp = end_ns,
				   .value = observed_ns,
				   .more = end_ns - switches->stretch_ns,
				   .other = (switches->taken_count & UINT32_MAX) |
					    switches->window_lost << 32};

	for (uint32_t i = 0; i < places->count; i++) {
		const struct ky_sample_ring *ring = places->at(places->ctx, i);

		if (ring)
			(void)ky_sample_put(ring, &sample);
	}
}

/* ---- windows ---- */

/* Of processes that want times; one with two rings has its threads once. */
static int attach_all(struct ky_switch_windows *switches, const struct ky_switch_places *places,
		      bool is_of_faults)
{
	int err = 0;

	for (uint32_t i = 0; i < places->count && !err; i++) {
		uint32_t pid = switches->pid(places->ctx, i), j = 0;

		while (j < i &&
		       (switches->pid(places->ctx, j) != pid || !places->at(places->ctx, j)))
			j++;
		if (j < i || !places->at(places->ctx, i))
			continue;
		err = is_of_faults ? ky_fault_stacks_attach(&switches->faults, (pid_t)pid) :
				     ky_perf_add_all(&switches->perf, NULL, (pid_t)pid);
	}
	return err;
}

static void leave_all(struct ky_switch_windows *switches, uint32_t most)
{
	if (!switches->pid || !ky_perf_leave(switches->perf, most))
		return;
	switches->is_attached = false;
	if (switches->faults.perf)
		(void)ky_perf_leave(switches->faults.perf, UINT32_MAX);
}

static void say_refusal(struct ky_switch_windows *switches, const struct ky_switch_places *places,
			int err)
{
	for (uint32_t i = 0; i < places->count && (err || switches->was_refused); i++) {
		const struct ky_sample_ring *ring = places->at(places->ctx, i);

		if (ring)
			atomic_store_explicit(&ring->head->refusals[KY_SOURCE_SWITCHES],
					      (uint32_t)-err, memory_order_relaxed);
	}
	switches->was_refused = err != 0;
}

/* The threads that there are now; those they make meanwhile inherit it. Stacks of faults first,
 * also where they are not wanted yet: in the middle of a window they could not be added.
 * Returns false where that is refused, which is tried again. */
static bool attach(struct ky_switch_windows *switches, const struct ky_switch_places *places)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	int err = 0;

	if (!switches->pid || switches->is_attached)
		return true;
	if (switches->faults.perf)
		err = attach_all(switches, places, true);
	if (!err)
		err = attach_all(switches, places, false);
	if (err) {
		leave_all(switches, UINT32_MAX);
		switches->due_ns = now_ns + RETRY_NS;
	}
	switches->is_attached = !err;
	say_refusal(switches, places, err);
	return !err;
}

static void open_window(struct ky_switch_windows *switches, uint64_t now_ns, bool goes_on)
{
	switches->window_ns = now_ns;
	switches->end_ns = now_ns + switches->duty.window_ns;
	if (!goes_on)
		switches->record_count = 0;
	ky_switch_pairs_begin(&switches->pairs, now_ns, goes_on);
	switches->is_open = true;
	ky_fault_stacks_follow(&switches->faults, true, now_ns);
	if (switches->can_rest)
		switches->busy_ns = ky_now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void begin_window(struct ky_switch_windows *switches, const struct ky_switch_places *places)
{
	/* What came between the last one's end and the pause. */
	read_records(switches, places);
	if (!attach(switches, places))
		return;
	ky_switch_wakes_window(&switches->wakes, places, ky_now_ns(CLOCK_MONOTONIC));
	/* Before the switches: a thread that was seen to wait was then seen to be woken. */
	ky_switch_wakes_pause(&switches->wakes, false);
	(void)ky_switch_wakes_passed_ns(&switches->wakes);
	if (ky_perf_pause(switches->perf, false) != 0) {
		ky_switch_wakes_pause(&switches->wakes, true);
		return;
	}
	open_window(switches, ky_now_ns(CLOCK_MONOTONIC), false);
	ky_still_begin(&switches->still, switches->pairs.series);
	if (!switches->stretch_ns)
		switches->stretch_ns = switches->window_ns;
}

/* Records from `now` on may be missing: the count is read before them. */
static void read_windows(struct ky_switch_windows *switches, const struct ky_switch_places *places)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	read_records(switches, places);
	ky_fault_stacks_follow(&switches->faults, switches->is_open, now_ns);
	take_records(switches, now_ns < switches->end_ns ? now_ns : switches->end_ns);
	put_all(switches, places, now_ns);
}

void ky_switch_windows_fetch(struct ky_switch_windows *switches,
			     const struct ky_switch_places *places)
{
	uint64_t start_ns;

	if (!switches || !switches->is_open)
		return;
	start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	read_windows(switches, places);
	switches->cpu_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
}

/* Who did not run in it at all. */
static void add_still(struct ky_switch_windows *switches)
{
	uint8_t reason;

	if (switches->window_lost || switches->end_ns - switches->window_ns < STILL_NS_MIN)
		return;
	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		const struct ky_still_thread *thread = &switches->still.threads[i];

		if (thread->tid && !ky_switch_pairs_has_seen(&switches->pairs, thread->tid) &&
		    ky_still_is_still(thread, &reason))
			ky_switch_pairs_put_whole(&switches->pairs, thread->pid, thread->tid,
						  switches->end_ns, reason);
	}
}

/* No thread came and none went. A thread that runs all the time may be stopped at any
 * moment. */
static bool was_quiet(const struct ky_switch_windows *switches)
{
	return !switches->taken_count && !switches->window_lost &&
	       ky_now_ns(CLOCK_PROCESS_CPUTIME_ID) - switches->busy_ns <
		       (switches->end_ns - switches->window_ns) / 2;
}

/* So few records that a later reading misses little, and the caller hears of more. */
static bool is_quiet(const struct ky_switch_windows *switches, uint64_t count)
{
	return switches->is_watched &&
	       count * SECOND_NS <= QUIET_PER_S * (switches->end_ns - switches->window_ns);
}

/* Returns false when nothing is watched from now on. */
static bool end_window(struct ky_switch_windows *switches, const struct ky_switch_places *places,
		       bool is_last)
{
	uint64_t count = switches->taken_count + switches->window_lost;
	uint64_t cost_ns = switches->cpu_ns + count * switches->record_ns +
			   switches->copy_count * KY_FAULT_COPY_NS +
			   (switches->faults.is_counting ? count * KY_FAULT_SWITCH_NS : 0) +
			   ky_switch_wakes_passed_ns(&switches->wakes);
	uint64_t gap_ns;

	switches->duty.most_ns = is_quiet(switches, count) ? KY_DUTY_WINDOW_NS_QUIET :
							     KY_DUTY_WINDOW_NS_MAX;
	gap_ns = ky_switch_duty_after(&switches->duty, switches->end_ns - switches->window_ns,
				      cost_ns);
	switches->faults.has_gaps = gap_ns != 0;
	if (gap_ns || is_last) {
		(void)ky_perf_pause(switches->perf, true);
		ky_fault_stacks_follow(&switches->faults, false, switches->end_ns);
		leave_all(switches, EVENTS_MAX);
		ky_switch_wakes_pause(&switches->wakes, true);
		add_still(switches);
		ky_switch_pairs_end(&switches->pairs, switches->end_ns);
		put_all(switches, places, switches->end_ns);
	}
	put_window(switches, places, switches->end_ns, switches->end_ns - switches->window_ns);
	switches->is_resting = switches->can_rest && !gap_ns && was_quiet(switches);
	switches->stretch_ns = switches->end_ns;
	if (switches->end_ns > switches->window_ns)
		switches->rate = (uint64_t)((double)(switches->switch_count +
						     switches->window_lost) *
					    (double)SECOND_NS /
					    (double)(switches->end_ns - switches->window_ns));
	switches->taken_count = switches->cpu_ns = switches->window_lost = 0;
	switches->switch_count = switches->copy_count = 0;
	switches->is_open = false;
	switches->due_ns = switches->end_ns + gap_ns;
	return gap_ns == 0 && !is_last;
}

/* A process ends: no further window comes that would stand for the time since the last one. */
void ky_switch_windows_report_gap(const struct ky_switch_windows *switches,
				  const struct ky_switch_places *places)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (switches && switches->stretch_ns && !switches->is_open && now_ns > switches->stretch_ns)
		put_window(switches, places, now_ns, 0);
}

void ky_switch_windows_stop(struct ky_switch_windows *switches,
			    const struct ky_switch_places *places)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (!switches)
		return;
	if (switches->is_open) {
		/* Its records continue until now, however late this comes. */
		switches->end_ns = now_ns;
		read_windows(switches, places);
		(void)end_window(switches, places, true);
	}
	switches->stretch_ns = switches->rate = 0;
}

uint64_t ky_switch_windows_rate(const struct ky_switch_windows *switches)
{
	return switches ? switches->rate : 0;
}

/* Still nothing came: the window continues, but for a second at most, so that a dump has it. */
static bool rests_on(struct ky_switch_windows *switches, uint64_t now_ns)
{
	if (!switches->is_resting || switches->taken_count || switches->window_lost ||
	    now_ns - switches->window_ns >= SECOND_NS)
		return false;
	switches->end_ns = now_ns + switches->duty.window_ns;
	return true;
}

static void follow(struct ky_switch_windows *switches, const struct ky_switch_places *places)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	uint32_t wanted = 0;

	for (uint32_t i = 0; i < places->count; i++)
		wanted += places->at(places->ctx, i) != NULL;
	if (!wanted) {
		ky_switch_windows_stop(switches, places);
		return;
	}
	if (!switches->is_open && now_ns >= switches->due_ns)
		begin_window(switches, places);
	/* What a rule dumps in the middle of a window shall have it. */
	if (switches->is_open && now_ns < switches->end_ns && now_ns - switches->put_ns >= CHECK_NS)
		read_windows(switches, places);
	/* Read late, windows that continue have ended meanwhile, one after the other. */
	while (switches->is_open && now_ns >= switches->end_ns) {
		if (switches->is_resting)
			switches->end_ns = now_ns;
		read_windows(switches, places);
		ky_switch_wakes_window(&switches->wakes, places, now_ns);
		if (rests_on(switches, now_ns) || !end_window(switches, places, false))
			break;
		open_window(switches, switches->end_ns, true);
	}
}

uint64_t ky_switch_windows_step(struct ky_switch_windows *switches,
				const struct ky_switch_places *places)
{
	uint64_t start_ns, until_ns, now_ns;

	if (!switches || !switches->perf || !places->count)
		return UINT64_MAX;
	start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	follow(switches, places);
	if (switches->is_resting && (switches->taken_count || switches->window_lost))
		switches->is_resting = false;
	switches->cpu_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	if ((!switches->stretch_ns && !switches->was_refused) ||
	    ky_switch_windows_is_resting(switches))
		return UINT64_MAX;
	until_ns = switches->is_open ? switches->end_ns : switches->due_ns;
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	return until_ns > now_ns ? until_ns - now_ns : 0;
}
