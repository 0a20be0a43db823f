/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/poll_parts.h>

#include <base/json_write.h>
#include <read/stops.h>

#define SURE_NS UINT64_C(100000)
#define SURE_PARTS 50u /* 2 % */

bool ky_poll_parts(const struct ky_trace *trace, const struct ky_poll *poll,
		   struct ky_poll_parts *out)
{
	const struct ky_trace_poll_cost *cost = ky_trace_poll_cost(trace, poll->worker,
								   poll->start_ns);
	uint64_t duration_ns = poll->duration_ns, delay_ns, sure_ns = duration_ns / SURE_PARTS;
	uint64_t stopped_ns = trace->stop_count ?
				      ky_trace_stopped_ns(trace, poll->start_ns,
							  poll->start_ns + duration_ns) :
				      0;

	if (!cost || poll->flags & KY_POLL_OPEN)
		return false;
	*out = (struct ky_poll_parts){
		.cost = cost, .delay_ns = UINT64_MAX, .blocked_ns = UINT64_MAX};
	out->cpu_ns = cost->is_on_cpu || cost->cpu_ns > duration_ns ? duration_ns : cost->cpu_ns;
	out->off_ns = duration_ns - out->cpu_ns;
	out->stopped_ns = stopped_ns < out->off_ns ? stopped_ns : out->off_ns;
	out->off_ns -= out->stopped_ns;
	delay_ns = cost->is_on_cpu ? 0 : cost->values[KY_COST_DELAY_NS];
	if (delay_ns != UINT64_MAX) {
		out->delay_ns = delay_ns < out->off_ns ? delay_ns : out->off_ns;
		out->blocked_ns = out->off_ns - out->delay_ns;
	}
	if (sure_ns < SURE_NS)
		sure_ns = SURE_NS;
	if (!cost->is_on_cpu && cost->gap_ns > sure_ns)
		out->unsure_ns = cost->gap_ns;
	return true;
}

void ky_poll_parts_json(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_poll *poll)
{
	static const struct {
		const char *key;
		uint32_t value;
	} counts[] = {
		{"minor_faults", KY_COST_MINOR_FAULTS},
		{"major_faults", KY_COST_MAJOR_FAULTS},
		{"voluntary_context_switches", KY_COST_VOLUNTARY},
		{"involuntary_context_switches", KY_COST_INVOLUNTARY},
		{"counts_gap_ns", KY_COST_COUNTS_GAP_NS},
		{"wakes", KY_COST_WAKES},
		{"nested_polls", KY_COST_NESTED},
	};
	struct ky_poll_parts parts;

	if (!trace->poll_cost_count)
		return;
	if (!ky_poll_parts(trace, poll, &parts)) {
		ky_json_number_or_null(out, "cost", false, 0);
		return;
	}
	ky_json_open(out, "cost", "{");
	ky_json_flag(out, "exact", parts.cost->is_on_cpu);
	ky_json_number(out, "cpu_ns", parts.cpu_ns);
	ky_json_number_or_null(out, "run_delay_ns", parts.delay_ns != UINT64_MAX, parts.delay_ns);
	ky_json_number_or_null(out, "blocked_ns", parts.blocked_ns != UINT64_MAX, parts.blocked_ns);
	if (trace->stop_count)
		ky_json_number(out, "stopped_ns", parts.stopped_ns);
	ky_json_number(out, "gap_ns", parts.cost->is_on_cpu ? 0 : parts.cost->gap_ns);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		uint64_t value = parts.cost->values[counts[i].value];

		ky_json_number_or_null(out, counts[i].key, value != UINT64_MAX, value);
	}
	ky_json_close(out, "}");
}
