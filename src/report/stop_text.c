/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <report/stop_text.h>

#include <base/out_text.h>
#include <read/stops.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX 5u

static uint64_t since_start(const struct ky_trace *trace, uint64_t ns)
{
	return ns > trace->run_first_ns ? ns - trace->run_first_ns : 0;
}

/* "+1.204512 to +1.904871" */
static void put_moments(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			uint64_t to_ns)
{
	ky_out_format(out, "from +%.6f to +%.6f", (double)since_start(trace, from_ns) / 1e9,
		      (double)since_start(trace, to_ns) / 1e9);
}

static void print_stop(struct ky_buf *out, const struct ky_trace *trace,
		       const struct ky_trace_stop *stop)
{
	const char *name = stop->signal_number ? sigabbrev_np((int)stop->signal_number) : NULL;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "! The process was stopped ");
	put_moments(out, trace, stop->from_ns, stop->to_ns);
	ky_out_format(out, ", %s", ky_out_duration(cell, stop->to_ns - stop->from_ns));
	if (name)
		ky_out_format(out, " (SIG%s)", name);
	else if (stop->source == KY_STATE_SEEN)
		ky_out_text(out, " (by a signal or a debugger)");
	else if (stop->source == KY_STATE_WITH_READER)
		ky_out_text(out, " (and kymo with it)");
	if (stop->is_open)
		ky_out_text(out, "; it did not continue in this trace");
	if (stop->source == KY_STATE_WITH_READER)
		ky_out_text(out, "; at most: it is the longest silence around it");
	else if (stop->unsure_ns)
		ky_out_format(out, "; it may be shorter by %s",
			      ky_out_duration(cell, stop->unsure_ns));
	ky_out_text(out, "\n");
}

static void print_stops(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_report *report)
{
	uint64_t more_ns = 0;
	uint32_t count = 0;
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < trace->stop_count; i++) {
		const struct ky_trace_stop *stop = &trace->stops[i];

		if (stop->to_ns <= report->from_ns || stop->from_ns >= report->to_ns)
			continue;
		if (count++ < LINES_MAX)
			print_stop(out, trace, stop);
		else
			more_ns += stop->to_ns - stop->from_ns;
	}
	if (count > LINES_MAX)
		ky_out_format(out, "! and %u times more, %s in all\n", count - LINES_MAX,
			      ky_out_duration(cell, more_ns));
}

static void print_throttles(struct ky_buf *out, const struct ky_trace *trace,
			    const struct ky_report *report)
{
	const struct ky_trace_throttle *longest = NULL;
	uint64_t sum_ns = 0;
	uint32_t count = 0;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < trace->throttle_count; i++) {
		const struct ky_trace_throttle *throttle = &trace->throttles[i];

		if (throttle->to_ns <= report->from_ns || throttle->from_ns >= report->to_ns)
			continue;
		count++;
		sum_ns += throttle->throttled_ns;
		if (!longest || throttle->throttled_ns > longest->throttled_ns)
			longest = throttle;
	}
	if (!longest)
		return;
	ky_out_format(
		out,
		"! The CPU limit of its cgroup stopped its threads, %s in all (sum over CPUs); "
		"most ",
		ky_out_duration(a, sum_ns));
	put_moments(out, trace, longest->from_ns, longest->to_ns);
	ky_out_format(out, ": %s", ky_out_duration(b, longest->throttled_ns));
	if (count > 1)
		ky_out_format(out, "; %u intervals", count);
	ky_out_text(out, "\n");
}

void ky_stop_text(struct ky_buf *out, const struct ky_trace *trace, const struct ky_report *report)
{
	print_stops(out, trace, report);
	print_throttles(out, trace, report);
}
