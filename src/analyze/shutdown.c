/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/shutdown.h>

#include <analyze/report.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/ascending.h>

#define APART_NS UINT64_C(10000000)

/* Does a poll begin in (from, to)? */
static bool is_polled(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *polls = &trace->workers[lane].polls;

		if (ky_column_find(polls, from_ns + 1) < ky_column_find(polls, to_ns))
			return true;
	}
	return false;
}

int ky_shutdown_find(const struct ky_trace *trace, uint64_t *out_ns)
{
	uint64_t *ends = ky_alloc((trace->task_count + 1u) * sizeof(*ends));
	uint32_t count = 0;

	*out_ns = 0;
	if (!ends)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		if (task->flags & KY_TASK_CANCELLED && task->end_ns &&
		    task->end_ns < UINT64_MAX / 2)
			ends[count++] = task->end_ns;
	}
	ky_ascending_sort(ends, count);
	if (count && !is_polled(trace, ends[count - 1] + APART_NS, UINT64_MAX)) {
		while (count > 1 && (ends[count - 1] - ends[count - 2] <= APART_NS ||
				     !is_polled(trace, ends[count - 2], ends[count - 1])))
			count--;
		*out_ns = ends[count - 1];
	}
	ky_free(ends);
	return 0;
}

bool ky_report_lives(const struct ky_report *report, const struct ky_task *task)
{
	uint64_t at_ns = report->shutdown_ns ? report->shutdown_ns : report->to_ns;

	if (report->shutdown_ns && task->first_ns > at_ns)
		return false;
	return !(task->flags & KY_TASK_ENDED) || task->end_ns >= at_ns;
}
