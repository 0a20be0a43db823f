/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/own_parts.h>

#include <analyze/poll_parts.h>
#include <base/earlier.h>
#include <read/turns.h>
#include <read/stops.h>

#define COUNTS_APART_NS UINT64_C(2000000000) /* two readings lie in a poll of this length */

const char *ky_own_part_key(enum ky_own_part part)
{
	static const char *const keys[KY_OWN_PARTS] = {
		[KY_OWN_GAP] = "gap",
		[KY_OWN_STOPPED] = "process_stopped",
		[KY_OWN_NESTED] = "nested",
		[KY_OWN_CPU] = "own_on_cpu",
		[KY_OWN_BLOCKED] = "own_blocked",
		[KY_OWN_RUNNABLE] = "own_runnable",
		[KY_OWN_UNSPLIT] = "own_unsplit",
	};

	return part < KY_OWN_PARTS ? keys[part] : "own_unsplit";
}

/* Times off CPU of the worker in [from, to), where it was in no poll inside. */
static void split_rows(struct ky_own_poll *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns, bool is_on_cpu)
{
	const struct ky_samples *samples = &trace->samples;
	uint64_t left_ns = to_ns - from_ns, stopped_ns = ky_trace_stopped_ns(trace, from_ns, to_ns);
	uint32_t at = ky_samples_of_from(samples, KY_STACK_OFF_CPU, out->poll.start_ns);

	left_ns -= stopped_ns;
	out->sums[KY_OWN_STOPPED] += stopped_ns;
	for (; at < samples->row_count && samples->rows[at].time_ns < to_ns && left_ns; at++) {
		const struct ky_stack_row *row = &samples->rows[at];
		uint64_t end_ns = row->time_ns + row->value, ready_ns = end_ns, begin_ns, ns;

		if (row->kind != KY_STACK_OFF_CPU || row->worker != out->poll.worker ||
		    end_ns <= from_ns)
			continue;
		if (row->reason == KY_WAIT_PREEMPTED)
			ready_ns = row->time_ns;
		else if (row->woken_ns >= row->time_ns && row->woken_ns < end_ns)
			ready_ns = row->woken_ns;
		begin_ns = ky_later(row->time_ns, from_ns);
		ready_ns = ky_earlier(ky_later(ready_ns, begin_ns), to_ns);
		ns = ky_earlier(ready_ns - begin_ns, left_ns);
		out->sums[KY_OWN_BLOCKED] += ns;
		left_ns -= ns;
		ns = ky_earlier(ky_earlier(end_ns, to_ns) - ready_ns, left_ns);
		out->sums[KY_OWN_RUNNABLE] += ns;
		left_ns -= ns;
	}
	out->sums[is_on_cpu ? KY_OWN_CPU : KY_OWN_UNSPLIT] += left_ns;
}

/* Polls inside of the thread's: the outermost of them cover the rest. */
static void split_around_nested(struct ky_own_poll *out, const struct ky_trace *trace,
				uint32_t lane, bool is_on_cpu)
{
	uint64_t at_ns = out->poll.start_ns, end_ns = at_ns + out->poll.duration_ns, row;
	const struct ky_column *polls = lane != KY_NONE ? &trace->workers[lane].polls : NULL;
	struct ky_poll inner;

	for (row = polls ? ky_column_find(polls, at_ns) : 0; polls && row < polls->row_count;
	     row++) {
		ky_trace_poll(trace, lane, row, &inner);
		if (inner.start_ns >= end_ns)
			break;
		inner.duration_ns = ky_earlier(inner.start_ns + inner.duration_ns, end_ns);
		if (inner.duration_ns <= at_ns) /* its end by now */
			continue;
		if (inner.start_ns > at_ns)
			split_rows(out, trace, at_ns, inner.start_ns, is_on_cpu);
		out->sums[KY_OWN_NESTED] += inner.duration_ns - ky_later(inner.start_ns, at_ns);
		at_ns = inner.duration_ns;
	}
	if (at_ns < end_ns)
		split_rows(out, trace, at_ns, end_ns, is_on_cpu);
}

/* Once a second the kernel's counters of each thread are read: between the first and the last
 * reading inside a poll they tell what the thread did, also of one that never ends. */
static void split_by_counts(struct ky_own_poll *out, const struct ky_trace *trace, uint32_t tid)
{
	const struct ky_trace_thread_cpu *first = NULL, *last = NULL;
	uint64_t end_ns = out->poll.start_ns + out->poll.duration_ns, span_ns, ns;

	for (uint32_t i = 0; i < trace->thread_cpu_count; i++) {
		const struct ky_trace_thread_cpu *one = &trace->thread_cpus[i];

		if (one->tid != tid || one->time_ns < out->poll.start_ns || one->time_ns > end_ns ||
		    one->cpu_ns == UINT64_MAX || one->run_delay_ns == UINT64_MAX)
			continue;
		first = first ? first : one;
		last = one;
	}
	if (!first || first == last || last->cpu_ns < first->cpu_ns ||
	    last->run_delay_ns < first->run_delay_ns)
		return;
	span_ns = ky_earlier(last->time_ns - first->time_ns, out->sums[KY_OWN_UNSPLIT]);
	out->sums[KY_OWN_UNSPLIT] -= span_ns;
	ns = ky_earlier(last->cpu_ns - first->cpu_ns, span_ns);
	out->sums[KY_OWN_CPU] += ns;
	span_ns -= ns;
	ns = last->run_delay_ns - first->run_delay_ns;
	ns = ky_earlier(ns - ky_earlier(ns, out->sums[KY_OWN_RUNNABLE]), span_ns);
	out->sums[KY_OWN_RUNNABLE] += ns;
	out->sums[KY_OWN_BLOCKED] += span_ns - ns;
}

void ky_own_split(struct ky_own_poll *out, const struct ky_trace *trace, const struct ky_poll *poll)
{
	uint32_t tid = ky_trace_thread_at(trace, poll->worker, poll->start_ns), lane = KY_NONE;
	struct ky_poll_parts parts;
	bool is_known = ky_poll_parts(trace, poll, &parts);

	*out = (struct ky_own_poll){.poll = *poll};
	if (poll->flags & (KY_POLL_GAP | KY_POLL_END_UNPROVEN)) {
		out->sums[KY_OWN_GAP] = poll->duration_ns;
		return;
	}
	if (is_known && parts.cost->tid)
		tid = parts.cost->tid;
	if (tid && !trace->workers[poll->worker].is_thread_lane)
		lane = ky_trace_worker(trace, UINT64_MAX - tid);
	split_around_nested(out, trace, lane, is_known && parts.cost->is_on_cpu);
	if (out->sums[KY_OWN_UNSPLIT] > COUNTS_APART_NS && !out->sums[KY_OWN_NESTED] && tid)
		split_by_counts(out, trace, tid);
	if (!is_known || out->sums[KY_OWN_NESTED] || parts.blocked_ns == UINT64_MAX)
		return;
	/* Nothing was inside: what the poll cost is its own. */
	out->sums[KY_OWN_CPU] = parts.cpu_ns;
	out->sums[KY_OWN_RUNNABLE] = parts.delay_ns;
	out->sums[KY_OWN_STOPPED] = parts.stopped_ns;
	out->sums[KY_OWN_BLOCKED] = poll->duration_ns - parts.cpu_ns - parts.delay_ns -
				    parts.stopped_ns;
	out->sums[KY_OWN_UNSPLIT] = 0;
}
