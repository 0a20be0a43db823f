/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What long polls cost: a list in the order of their begins. */
#include <read/load.h>

#define LIST_MAX (1u << 22)

bool ky_load_poll_cost(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_poll_cost cost = {
		.start_ns = ky_frame_number(frame, KY_F_POLL_COST_start_ns, 0),
		.worker_id = ky_frame_number(frame, KY_F_POLL_COST_worker_id, 255),
		.tid = (uint32_t)ky_frame_number(frame, KY_F_POLL_COST_tid, 0),
		.is_on_cpu = ky_frame_number(frame, KY_F_POLL_COST_is_on_cpu, 0) != 0,
		.cpu_ns = ky_frame_number(frame, KY_F_POLL_COST_cpu_time_ns, 0),
		.gap_ns = ky_frame_number(frame, KY_F_POLL_COST_gap_ns, 0),
	};
	static const uint32_t fields[KY_COST_VALUES] = {
		[KY_COST_DELAY_NS] = KY_F_POLL_COST_run_delay_ns,
		[KY_COST_MINOR_FAULTS] = KY_F_POLL_COST_minor_faults,
		[KY_COST_MAJOR_FAULTS] = KY_F_POLL_COST_major_faults,
		[KY_COST_VOLUNTARY] = KY_F_POLL_COST_voluntary_switches,
		[KY_COST_INVOLUNTARY] = KY_F_POLL_COST_involuntary_switches,
		[KY_COST_COUNTS_GAP_NS] = KY_F_POLL_COST_counts_gap_ns,
		[KY_COST_WAKES] = KY_F_POLL_COST_wake_count,
		[KY_COST_NESTED] = KY_F_POLL_COST_nested_count,
	};
	uint32_t at;

	for (uint32_t i = 0; i < KY_COST_VALUES; i++)
		cost.values[i] = ky_frame_number(frame, fields[i], UINT64_MAX);
	if (trace->poll_cost_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->poll_costs, &trace->poll_cost_capacity,
			    trace->poll_cost_count + 1, sizeof(cost)))
		return false;
	for (at = trace->poll_cost_count++;
	     at && trace->poll_costs[at - 1].start_ns > cost.start_ns; at--)
		trace->poll_costs[at] = trace->poll_costs[at - 1];
	trace->poll_costs[at] = cost;
	return true;
}

const struct ky_trace_poll_cost *ky_trace_poll_cost(const struct ky_trace *trace, uint32_t worker,
						    uint64_t start_ns)
{
	uint32_t low = 0, high = trace->poll_cost_count;

	if (worker >= trace->worker_count)
		return NULL;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->poll_costs[middle].start_ns < start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < trace->poll_cost_count && trace->poll_costs[low].start_ns == start_ns; low++)
		if (trace->workers[worker].is_thread_lane ?
			    trace->poll_costs[low].tid == trace->workers[worker].tid :
			    trace->poll_costs[low].worker_id == trace->workers[worker].id)
			return &trace->poll_costs[low];
	return NULL;
}
