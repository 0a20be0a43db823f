/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/handovers.h>

#include <read/load.h>

#define LIST_MAX (1u << 24)

bool ky_load_handover(struct ky_load *load, const struct ky_trace_handover *handover)
{
	struct ky_trace *trace = load->trace;

	if (trace->handover_count == LIST_MAX)
		return true;
	if (!ky_pages_array(&trace->pages, &trace->handovers, &trace->handover_capacity,
			    trace->handover_count + 1, sizeof(*handover)))
		return false;
	trace->handovers[trace->handover_count++] = *handover;
	return true;
}

static bool is_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_trace_handover *a = first, *b = second;

	(void)ctx;
	return a->from_tid != b->from_tid ? a->from_tid < b->from_tid : a->time_ns < b->time_ns;
}

void ky_handovers_sort(struct ky_trace *trace)
{
	ky_sort(trace->handovers, trace->handover_count, sizeof(*trace->handovers), is_before,
		NULL);
}

/* The last one from this thread at this moment or before it. */
static struct ky_trace_handover *last_from(const struct ky_trace *trace, uint32_t tid, uint64_t ns)
{
	uint32_t low = 0, high = trace->handover_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_trace_handover *one = &trace->handovers[middle];

		if (one->from_tid < tid || (one->from_tid == tid && one->time_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && trace->handovers[low - 1].from_tid == tid ? &trace->handovers[low - 1] : NULL;
}

void ky_handovers_end(struct ky_trace *trace, uint32_t tid, uint64_t start_ns, uint64_t end_ns)
{
	struct ky_trace_handover *one = last_from(trace, tid, start_ns);

	if (one && one->time_ns == start_ns)
		one->until_ns = end_ns > start_ns ? end_ns : start_ns + 1;
}

bool ky_trace_is_handed_over(const struct ky_trace *trace, const struct ky_poll *poll)
{
	const struct ky_trace_handover *one;

	if (!trace->handover_count || !(poll->flags & KY_POLL_NESTED))
		return false;
	one = last_from(trace, trace->workers[poll->worker].tid, poll->start_ns);
	return one && poll->start_ns < one->until_ns;
}

const struct ky_trace_handover *ky_trace_handover(const struct ky_trace *trace,
						  const struct ky_poll *poll)
{
	const struct ky_worker *worker = &trace->workers[poll->worker];
	uint64_t end_ns = poll->start_ns + poll->duration_ns;

	if (worker->is_thread_lane || poll->flags & KY_POLL_OPEN)
		return NULL;
	for (uint32_t i = 0; i < trace->handover_count; i++) {
		const struct ky_trace_handover *one = &trace->handovers[i];

		if (one->launched_ns == end_ns && one->worker_id == worker->id && one->until_ns)
			return one;
	}
	return NULL;
}
