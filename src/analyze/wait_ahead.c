/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/wait_ahead.h>

#include <read/stops.h>

#define STEPS_MAX 4096u /* polls looked back over, for one wait */

/* The first wake of a task in [from, to]; false: none. */
static bool find_wake(const struct ky_trace *trace, uint32_t task, uint64_t from_ns, uint64_t to_ns,
		      struct ky_wake *out)
{
	struct ky_wake wake;
	bool is_found = false;
	uint32_t lane;
	uint64_t row;

	for (lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *wakes = &trace->workers[lane].wakes;

		for (row = ky_column_find(wakes, from_ns); row < wakes->row_count; row++) {
			ky_trace_wake(trace, lane, row, &wake);
			if (wake.time_ns > to_ns || (is_found && wake.time_ns >= out->time_ns))
				break;
			if (wake.woken != task)
				continue;
			*out = wake;
			is_found = true;
		}
	}
	return is_found;
}

/* Start of the task's poll that ended at this moment; the moment itself when there is none. */
static uint64_t find_poll_start(const struct ky_trace *trace, uint32_t task, uint64_t end_ns)
{
	struct ky_poll poll;
	uint32_t lane;
	uint64_t row;

	for (lane = 0; lane < trace->worker_count; lane++) {
		row = ky_column_find(&trace->workers[lane].polls, end_ns);
		if (row == 0)
			continue;
		ky_trace_poll(trace, lane, row - 1, &poll);
		if (poll.task == task && poll.start_ns + poll.duration_ns == end_ns)
			return poll.start_ns;
	}
	return end_ns;
}

/* The wake at the very moment the delay counts from, or, where that is the end of its own poll, the
 * first wake during that poll. */
void ky_wait_find_waker(const struct ky_trace *trace, struct ky_worst *worst)
{
	uint64_t ready_ns = worst->poll.start_ns - worst->poll.delay_ns;
	uint32_t task = worst->poll.task;
	struct ky_wake wake = {0};

	worst->wake_worker = KY_NONE;
	if (!find_wake(trace, task, ready_ns, ready_ns, &wake) &&
	    !find_wake(trace, task, find_poll_start(trace, task, ready_ns), ready_ns, &wake))
		return;
	worst->waker = wake.waker;
	worst->wake = wake;
	if (trace->workers[wake.worker].is_worker)
		worst->wake_worker = wake.worker;
}

static void take_polls(struct ky_wait_ahead *out, const struct ky_trace *trace, uint32_t lane,
		       const struct ky_worst *worst)
{
	uint64_t to_ns = worst->poll.start_ns, from_ns = to_ns - worst->poll.delay_ns;
	uint64_t row = ky_column_find(&trace->workers[lane].polls, to_ns);
	struct ky_poll poll;

	*out = (struct ky_wait_ahead){.worker = lane};
	for (uint32_t steps = 0; row-- > 0 && steps < STEPS_MAX; steps++) {
		uint64_t end_ns, start_ns;

		ky_trace_poll(trace, lane, row, &poll);
		end_ns = poll.start_ns + poll.duration_ns;
		start_ns = poll.start_ns > from_ns ? poll.start_ns : from_ns;
		if (end_ns <= from_ns)
			return;
		if (end_ns > to_ns)
			end_ns = to_ns;
		if (end_ns <= start_ns || poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
			continue;
		out->busy_ns += end_ns - start_ns - ky_trace_stopped_ns(trace, start_ns, end_ns);
		poll.duration_ns -= ky_trace_stopped_ns(trace, poll.start_ns,
							poll.start_ns + poll.duration_ns);
		if (!out->count++ || poll.duration_ns > out->longest.duration_ns)
			out->longest = poll;
	}
}

bool ky_wait_ahead(struct ky_wait_ahead *out, const struct ky_trace *trace,
		   const struct ky_worst *worst)
{
	struct ky_wait_ahead queue = {0};

	take_polls(out, trace, worst->poll.worker, worst);
	if (worst->wake_worker != KY_NONE && worst->wake_worker != worst->poll.worker)
		take_polls(&queue, trace, worst->wake_worker, worst);
	if (queue.busy_ns > out->busy_ns)
		*out = queue;
	return out->count && out->busy_ns >= ky_worst_delay_ns(worst) / 2;
}

void ky_worst_find_stops(const struct ky_trace *trace, struct ky_worst *worst)
{
	const struct ky_poll *poll = &worst->poll;

	worst->stopped_ns = worst->delay_stopped_ns = 0;
	if (!trace->stop_count)
		return;
	worst->stopped_ns = ky_trace_stopped_ns(trace, poll->start_ns,
						poll->start_ns + poll->duration_ns);
	if (!poll->delay_state)
		worst->delay_stopped_ns = ky_trace_stopped_ns(
			trace, poll->start_ns - poll->delay_ns, poll->start_ns);
}
