/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/switch_pairs.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <string.h>

/* A fault that took a device is told this much behind its wait, at the latest. */
#define FAULT_NS UINT64_C(1000000)

_Static_assert(KY_PAIRS_THREADS <= UINT16_MAX + 1u, "places are numbered by 16 bits");

struct ky_pair_thread {
	uint32_t tid; /* 0: free */
	uint32_t pid;
	uint64_t out_ns; /* off the processor since then; 0: on it */
	uint32_t last;   /* index + 1 of its last interval here; 0: none */
	bool is_preempted;
	bool is_seen; /* in this window */
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

/* NULL: there is no room for it. A quarter stays free, so that looks are short. */
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

static void put(struct ky_switch_pairs *pairs, struct ky_pair_thread *thread, uint64_t begin_ns,
		uint64_t end_ns, uint8_t flags)
{
	struct ky_switch_pair *pair = &pairs->out[pairs->out_count];

	thread->last = 0;
	if (end_ns < begin_ns || end_ns - begin_ns < KY_SWITCH_NS_MIN)
		return;
	if (pairs->out_count == KY_PAIRS_INTERVALS) {
		pairs->dropped_count++;
		return;
	}
	pair->pid = thread->pid;
	pair->tid = thread->tid;
	pair->interval.begin_ns = begin_ns;
	pair->interval.end_ns = end_ns;
	pair->interval.flags = flags;
	pair->interval.runnable_min_ns = 0;
	pair->interval.runnable_max_ns = end_ns - begin_ns;
	/* Why it left the processor before the window is not known. */
	pair->interval.reason = flags & KY_SWITCH_BEGIN_UNSEEN ? KY_OFF_CPU_UNKNOWN :
				thread->is_preempted           ? KY_OFF_CPU_PREEMPTED :
								 KY_OFF_CPU_SYSCALL;
	if (pair->interval.reason == KY_OFF_CPU_PREEMPTED)
		pair->interval.runnable_min_ns = end_ns - begin_ns;
	thread->last = ++pairs->out_count;
}

void ky_switch_pairs_begin(struct ky_switch_pairs *pairs, uint64_t ns, bool goes_on)
{
	/* What was gone through has no use any more; else the table fills with ended threads. */
	if (!goes_on || pairs->thread_count > KY_PAIRS_THREADS / 2)
		forget_threads(pairs);
	pairs->window_ns = ns;
	pairs->has_gap = goes_on;
}

/* On the processor again. Who was not seen before in this window was off since its beginning. */
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
}

/* What it waited for last was a page. */
static void blame_fault(struct ky_switch_pairs *pairs, struct ky_pair_thread *thread, uint64_t ns)
{
	struct ky_switch_interval *interval;

	if (!thread->last)
		return;
	interval = &pairs->out[thread->last - 1].interval;
	if (interval->reason != KY_OFF_CPU_PREEMPTED && ns - interval->end_ns < FAULT_NS)
		interval->reason = KY_OFF_CPU_FAULT;
	thread->last = 0;
}

void ky_switch_pairs_take(struct ky_switch_pairs *pairs, const struct ky_perf_switch *what)
{
	struct ky_pair_thread *thread = what->tid ? find(pairs, what) : NULL;

	if (!thread)
		return;
	switch (what->kind) {
	case KY_SWITCH_IN:
		come_in(pairs, thread, what->ns);
		break;
	case KY_SWITCH_OUT:
	case KY_SWITCH_PREEMPTED:
		thread->out_ns = what->ns;
		thread->is_preempted = what->kind == KY_SWITCH_PREEMPTED;
		break;
	default:
		blame_fault(pairs, thread, what->ns);
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

	if (pairs->out_count == KY_PAIRS_INTERVALS) {
		pairs->dropped_count++;
		return;
	}
	*pair = (struct ky_switch_pair){pid,
					tid,
					{pairs->window_ns, end_ns, reason,
					 KY_SWITCH_BEGIN_UNSEEN | KY_SWITCH_END_UNSEEN, 0,
					 end_ns - pairs->window_ns}};
	/* It waits still, so it was never ready; else nobody knows since when it was. */
	if (reason == KY_OFF_CPU_SYSCALL)
		pair->interval.runnable_max_ns = 0;
	pairs->out_count++;
}

void ky_switch_pairs_taken(struct ky_switch_pairs *pairs)
{
	for (uint32_t i = 0; pairs->out_count && i < pairs->thread_count; i++)
		pairs->threads[pairs->used[i]].last = 0;
	pairs->out_count = 0;
}

void ky_switch_pairs_end(struct ky_switch_pairs *pairs, uint64_t ns)
{
	for (uint32_t i = 0; i < pairs->thread_count; i++) {
		struct ky_pair_thread *thread = &pairs->threads[pairs->used[i]];

		if (thread->out_ns)
			put(pairs, thread, thread->out_ns, ns, KY_SWITCH_END_UNSEEN);
	}
	forget_threads(pairs);
}
