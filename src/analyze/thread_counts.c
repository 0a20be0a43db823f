/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/thread_counts.h>

#include <base/alloc.h>
#include <errno.h>

/* The reading before, by thread: in a table with open addresses. */
struct last {
	uint32_t tid; /* 0: free */
	uint32_t at;  /* in trace->thread_cpus */
};

struct counts_making {
	const struct ky_trace *trace;
	struct last *lasts;
	uint32_t mask;
	struct ky_thread_count *counts;
	uint32_t count;
};

static struct last *last_of(struct counts_making *making, uint32_t tid)
{
	uint32_t at = (tid * 2654435761u) & making->mask;

	while (making->lasts[at].tid && making->lasts[at].tid != tid)
		at = (at + 1) & making->mask;
	return &making->lasts[at];
}

/* In its place by worker id: there are few. */
static struct ky_thread_count *count_of(struct counts_making *making, uint64_t worker_id)
{
	uint32_t at = making->count;

	for (uint32_t i = 0; i < making->count; i++)
		if (making->counts[i].worker_id == worker_id)
			return &making->counts[i];
	for (making->count++; at && making->counts[at - 1].worker_id > worker_id; at--)
		making->counts[at] = making->counts[at - 1];
	making->counts[at] = (struct ky_thread_count){.worker_id = worker_id, .has_switches = true};
	return &making->counts[at];
}

#define NO_WORKER 255u

/* Backwards: another thread under the same number, or nonsense. */
static bool goes_on(const struct ky_trace_thread_cpu *a, const struct ky_trace_thread_cpu *b)
{
	return a->worker_id == b->worker_id && a->worker_id != NO_WORKER &&
	       a->time_ns < b->time_ns && a->cpu_ns <= b->cpu_ns &&
	       a->run_delay_ns <= b->run_delay_ns;
}

static void add(struct counts_making *making, const struct ky_trace_thread_cpu *a,
		const struct ky_trace_thread_cpu *b)
{
	struct ky_thread_count *count = count_of(making, b->worker_id);
	uint64_t span = b->time_ns - a->time_ns;
	uint64_t cpu = b->cpu_ns - a->cpu_ns, delay = b->run_delay_ns - a->run_delay_ns;

	/* Two threads under one worker: one blocks in place, and the other serves it. */
	if (a->time_ns < count->counted_to_ns)
		return;
	count->counted_to_ns = b->time_ns;
	count->reading_count++;
	count->span_ns += span;
	count->cpu_ns += cpu;
	count->run_delay_ns += delay;
	/* The kernel brings its counters up to date now and then: the rest may be below zero. */
	if (span > cpu && span - cpu > delay)
		count->blocked_ns += span - cpu - delay;
	if (span > count->apart_max_ns)
		count->apart_max_ns = span;
	if (a->voluntary > b->voluntary || a->involuntary > b->involuntary ||
	    b->voluntary == UINT64_MAX || b->involuntary == UINT64_MAX) {
		count->has_switches = false;
		return;
	}
	count->voluntary += b->voluntary - a->voluntary;
	count->involuntary += b->involuntary - a->involuntary;
}

int ky_thread_counts(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		     struct ky_thread_count **out, uint32_t *count)
{
	struct counts_making making = {.trace = trace, .mask = 15};
	uint32_t total = trace->thread_cpu_count;

	*out = NULL;
	*count = 0;
	if (!total)
		return 0;
	while (making.mask < 2 * (uint64_t)total)
		making.mask = making.mask * 2 + 1;
	making.lasts = ky_alloc(((size_t)making.mask + 1) * sizeof(*making.lasts));
	making.counts = ky_alloc(total * sizeof(*making.counts));
	if (!making.lasts || !making.counts) {
		ky_free(making.lasts);
		ky_free(making.counts);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < total; i++) {
		const struct ky_trace_thread_cpu *reading = &trace->thread_cpus[i];
		struct last *last;

		if (!reading->tid || reading->time_ns < from_ns ||
		    (to_ns && reading->time_ns >= to_ns))
			continue;
		last = last_of(&making, reading->tid);
		if (last->tid && goes_on(&trace->thread_cpus[last->at], reading))
			add(&making, &trace->thread_cpus[last->at], reading);
		*last = (struct last){reading->tid, i};
	}
	ky_free(making.lasts);
	if (!making.count) { /* readings, but no two of one thread */
		ky_free(making.counts);
		return 0;
	}
	*out = making.counts;
	*count = making.count;
	return 0;
}
