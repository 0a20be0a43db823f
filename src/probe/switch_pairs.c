/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/switch_pairs.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <string.h>

/* A fault that took a device is reported this much after its wait, at the latest, without the times
 * in which the thread had lost its CPU. */
#define FAULT_NS UINT64_C(1000000)
/* The same fault reported by two events, one of them with the stack. */
#define SAME_FAULT_NS UINT64_C(100000)
/* A thread on its way out is off CPU this much after its wake-up, at the latest: one
 * from before that ended nothing. */
#define WAY_OUT_NS UINT64_C(100000)

_Static_assert(KY_PAIRS_THREADS <= UINT16_MAX + 1u, "places are numbered by 16 bits");

struct ky_pair_thread {
	uint32_t tid; /* 0: free */
	uint32_t pid;
	uint64_t out_ns;  /* off CPU since then; 0: on it */
	uint32_t last;    /* index + 1 of its last wait's interval here; 0: none */
	uint64_t lost_ns; /* preempted since then */
	uint32_t blamed;  /* as `last`: that one was a fault, reported at blamed_ns */
	uint64_t blamed_ns;
	/* Woken since it left the CPU, or before that; 0: not. */
	struct wake {
		uint64_t ns;
		uint32_t by_pid, by_tid;
		uint8_t by;
	} wake, early;
	bool is_preempted;
	bool is_seen; /* in this window, to switch */
	uint64_t in_count, waited_ns, preempted_ns;
};

int ky_switch_pairs_init(struct ky_switch_pairs *pairs)
{
	memset(pairs, 0, sizeof(*pairs));
	pairs->threads = ky_alloc(KY_PAIRS_THREADS * sizeof(*pairs->threads));
	pairs->used = ky_alloc(KY_PAIRS_THREADS * sizeof(*pairs->used));
	pairs->out = ky_alloc(KY_PAIRS_INTERVALS * sizeof(*pairs->out));
	if (pairs->threads && pairs->used && pairs->out)
		return 0;
	ky_switch_pairs_release(pairs);
	return -ENOMEM;
}

void ky_switch_pairs_release(struct ky_switch_pairs *pairs)
{
	ky_free(pairs->threads);
	ky_free(pairs->used);
	ky_free(pairs->out);
	memset(pairs, 0, sizeof(*pairs));
}

static void forget_threads(struct ky_switch_pairs *pairs)
{
	for (uint32_t i = 0; i < pairs->thread_count; i++)
		memset(&pairs->threads[pairs->used[i]], 0, sizeof(*pairs->threads));
	pairs->thread_count = 0;
	pairs->series++;
}

/* NULL: there is no room for it. A quarter stays free, so that readings are short. */
static struct ky_pair_thread *find(struct ky_switch_pairs *pairs, const struct ky_perf_switch *what)
{
	uint32_t at = (uint32_t)ky_hash_number(what->tid) % KY_PAIRS_THREADS;
	struct ky_pair_thread *thread;

	for (;; at = (at + 1) % KY_PAIRS_THREADS) {
		thread = &pairs->threads[at];
		if (thread->tid == what->tid)
			return thread;
		if (!thread->tid)
			break;
	}
	if (pairs->thread_count >= KY_PAIRS_THREADS / 4 * 3) {
		pairs->dropped_count++;
		return NULL;
	}
	pairs->used[pairs->thread_count++] = (uint16_t)at;
	thread->tid = what->tid;
	thread->pid = what->pid;
	return thread;
}

static void set_wake(struct ky_switch_interval *interval, const struct wake *wake)
{
	interval->by = wake->by;
	interval->by_pid = wake->by_pid;
	interval->by_tid = wake->by_tid;
}

/* What of a wait was blocked is up to its wake-up. Where none was reported nothing is known: the
 * kernel does not report all of them. */
static void split(const struct ky_pair_thread *thread, struct ky_switch_interval *interval)
{
	/* Off since before the window: what came then came while it was off. */
	const struct wake *wake = thread->out_ns ? &thread->wake : &thread->early;
	uint64_t ready_ns;

	if (!wake->ns && thread->out_ns && thread->early.ns &&
	    thread->out_ns - thread->early.ns < WAY_OUT_NS)
		wake = &thread->early;
	if (!wake->ns)
		return;
	ready_ns = wake->ns > interval->begin_ns ? wake->ns : interval->begin_ns;
	interval->runnable_min_ns = ready_ns < interval->end_ns ? interval->end_ns - ready_ns : 0;
	interval->runnable_max_ns = interval->runnable_min_ns;
	/* It waited, also where it is not known for what. */
	if (interval->reason == KY_OFF_CPU_UNKNOWN)
		interval->reason = KY_OFF_CPU_SYSCALL;
	set_wake(interval, wake);
}

static void put(struct ky_switch_pairs *pairs, struct ky_pair_thread *thread, uint64_t begin_ns,
		uint64_t end_ns, uint8_t flags)
{
	struct ky_switch_pair *pair = &pairs->out[pairs->out_count];
	bool is_lost = thread->is_preempted && !(flags & KY_SWITCH_BEGIN_UNSEEN);

	if (!is_lost)
		thread->last = thread->blamed = 0;
	else if (end_ns > begin_ns)
		thread->lost_ns += end_ns - begin_ns;
	if (end_ns < begin_ns || end_ns - begin_ns < KY_SWITCH_NS_MIN || !thread->pid)
		return;
	if (pairs->out_count == KY_PAIRS_INTERVALS) {
		pairs->dropped_count++;
		return;
	}
	pair->pid = thread->pid;
	pair->tid = thread->tid;
	pair->user = 0;
	pair->interval = (struct ky_switch_interval){.begin_ns = begin_ns,
						     .end_ns = end_ns,
						     .flags = flags,
						     .runnable_max_ns = end_ns - begin_ns};
	/* Why it left the CPU before the window is not known. */
	pair->interval.reason = flags & KY_SWITCH_BEGIN_UNSEEN ? KY_OFF_CPU_UNKNOWN :
				is_lost                        ? KY_OFF_CPU_PREEMPTED :
								 KY_OFF_CPU_SYSCALL;
	pairs->out_count++;
	if (is_lost) {
		pair->interval.runnable_min_ns = end_ns - begin_ns;
		return;
	}
	split(thread, &pair->interval);
	thread->last = pairs->out_count;
	thread->lost_ns = 0;
}

void ky_switch_pairs_begin(struct ky_switch_pairs *pairs, uint64_t ns, bool goes_on)
{
	/* What was gone through has no use any more; else the table fills with ended threads. */
	if (!goes_on || pairs->thread_count > KY_PAIRS_THREADS / 2)
		forget_threads(pairs);
	pairs->window_ns = ns;
	pairs->has_gap = goes_on;
}

/* On the CPU again. Who was not seen before in this window was off since its beginning. */
static void come_in(struct ky_switch_pairs *pairs, struct ky_pair_thread *thread, uint64_t ns)
{
	uint64_t begin_ns = thread->out_ns;

	thread->in_count++;
	if (begin_ns) {
		put(pairs, thread, begin_ns, ns, 0);
	} else if (!thread->is_seen && !pairs->has_gap) {
		begin_ns = pairs->window_ns;
		put(pairs, thread, begin_ns, ns, KY_SWITCH_BEGIN_UNSEEN);
	}
	if (begin_ns && begin_ns < ns && thread->out_ns && thread->is_preempted)
		thread->preempted_ns += ns - begin_ns;
	else if (begin_ns && begin_ns < ns)
		thread->waited_ns += ns - begin_ns;
	thread->out_ns = 0;
	thread->wake.ns = thread->early.ns = 0;
}

static void go_out(struct ky_pair_thread *thread, const struct ky_perf_switch *what)
{
	thread->out_ns = what->ns;
	thread->wake.ns = 0;
	/* Of another CPU, and its record was there first. */
	if (thread->early.ns > what->ns) {
		thread->wake = thread->early;
		thread->early.ns = 0;
	}
	thread->is_preempted = what->kind == KY_SWITCH_PREEMPTED;
}

/* Woken once, it is not woken again before it runs; what comes twice was reported twice. */
static void wake_up(struct ky_pair_thread *thread, const struct ky_perf_switch *what)
{
	struct wake *wake = thread->out_ns ? &thread->wake : &thread->early;

	if (thread->out_ns && wake->ns)
		return;
	/* On a CPU, on its way into a wait: the last one is the one that ended it. Off it
	 * since before the window: there is only one. */
	if (!thread->out_ns && !thread->is_seen && wake->ns)
		return;
	wake->ns = what->ns;
	wake->by = what->is_by_interrupt ? KY_WOKEN_BY_INTERRUPT : KY_WOKEN_BY_THREAD;
	wake->by_pid = what->by_pid;
	wake->by_tid = what->by_tid;
}

/* What it waited for last was a page. */
static void blame_fault(struct ky_switch_pairs *pairs, struct ky_pair_thread *thread,
			const struct ky_perf_switch *what)
{
	struct ky_switch_interval *interval;

	if (thread->last) {
		interval = &pairs->out[thread->last - 1].interval;
		thread->blamed = 0;
		if (what->ns - interval->end_ns < FAULT_NS + thread->lost_ns) {
			interval->reason = KY_OFF_CPU_FAULT;
			thread->blamed = thread->last;
			thread->blamed_ns = what->ns;
		}
		thread->last = 0;
	}
	if (what->user && thread->blamed && what->ns - thread->blamed_ns < SAME_FAULT_NS &&
	    !pairs->out[thread->blamed - 1].user)
		pairs->out[thread->blamed - 1].user = what->user;
}

void ky_switch_pairs_take(struct ky_switch_pairs *pairs, const struct ky_perf_switch *what)
{
	struct ky_pair_thread *thread = what->tid ? find(pairs, what) : NULL;

	if (!thread)
		return;
	if (what->kind == KY_SWITCH_WOKEN) {
		wake_up(thread, what);
		return;
	}
	if (what->pid)
		thread->pid = what->pid;
	switch (what->kind) {
	case KY_SWITCH_IN:
		come_in(pairs, thread, what->ns);
		break;
	case KY_SWITCH_OUT:
	case KY_SWITCH_PREEMPTED:
		go_out(thread, what);
		break;
	default:
		blame_fault(pairs, thread, what);
		break;
	}
	thread->is_seen = true;
}

void ky_switch_pairs_lost(struct ky_switch_pairs *pairs)
{
	forget_threads(pairs);
	pairs->has_gap = true;
}

static const struct ky_pair_thread *known(const struct ky_switch_pairs *pairs, uint32_t tid)
{
	uint32_t at = (uint32_t)ky_hash_number(tid) % KY_PAIRS_THREADS;

	for (; pairs->threads[at].tid; at = (at + 1) % KY_PAIRS_THREADS)
		if (pairs->threads[at].tid == tid)
			return &pairs->threads[at];
	return NULL;
}

bool ky_switch_pairs_has_seen(const struct ky_switch_pairs *pairs, uint32_t tid)
{
	const struct ky_pair_thread *thread = known(pairs, tid);

	return thread && thread->is_seen;
}

bool ky_switch_pairs_sums(const struct ky_switch_pairs *pairs, uint32_t tid,
			  struct ky_switch_sums *out)
{
	const struct ky_pair_thread *thread = known(pairs, tid);

	memset(out, 0, sizeof(*out));
	out->series = pairs->series;
	if (!thread)
		return false;
	out->in_count = thread->in_count;
	out->waited_ns = thread->waited_ns;
	out->preempted_ns = thread->preempted_ns;
	return true;
}

void ky_switch_pairs_put_whole(struct ky_switch_pairs *pairs, uint32_t pid, uint32_t tid,
			       uint64_t end_ns, uint8_t reason)
{
	struct ky_switch_pair *pair = &pairs->out[pairs->out_count];
	uint64_t length = end_ns - pairs->window_ns;
	const struct ky_pair_thread *thread = known(pairs, tid);

	if (pairs->out_count == KY_PAIRS_INTERVALS) {
		pairs->dropped_count++;
		return;
	}
	*pair = (struct ky_switch_pair){pid,
					tid,
					{.begin_ns = pairs->window_ns,
					 .end_ns = end_ns,
					 .reason = reason,
					 .flags = KY_SWITCH_BEGIN_UNSEEN | KY_SWITCH_END_UNSEEN,
					 .runnable_max_ns = length},
					.user = 0};
	/* It waits still, so it was never ready. */
	if (reason == KY_OFF_CPU_SYSCALL) {
		pair->interval.runnable_max_ns = 0;
	} else if (pairs->covers) {
		/* It is ready now: since when is up to its wake-up. */
		pair->interval.reason = KY_OFF_CPU_UNKNOWN;
		if (thread)
			split(thread, &pair->interval);
	}
	pairs->out_count++;
}

void ky_switch_pairs_taken(struct ky_switch_pairs *pairs)
{
	for (uint32_t i = 0; pairs->out_count && i < pairs->thread_count; i++)
		pairs->threads[pairs->used[i]].last = pairs->threads[pairs->used[i]].blamed = 0;
	pairs->out_count = 0;
}

void ky_switch_pairs_end(struct ky_switch_pairs *pairs, uint64_t ns)
{
	for (uint32_t i = 0; i < pairs->thread_count; i++) {
		struct ky_pair_thread *thread = &pairs->threads[pairs->used[i]];

		if (thread->out_ns)
			put(pairs, thread, thread->out_ns, ns, KY_SWITCH_END_UNSEEN);
		thread->out_ns = 0;
	}
}
