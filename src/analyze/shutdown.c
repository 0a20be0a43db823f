/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/shutdown.h>

#include <analyze/report.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/ascending.h>

#define APART_NS UINT64_C(10000000)
#define TOLD_NS UINT64_C(100000000) /* that lasts so long at most */

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

/* Before a runtime is dropped a program may tell its tasks to end: their ends, too, with no task's
 * begin after them. Returns the first of those. */
static uint64_t told_to_end(const struct ky_trace *trace, uint64_t *ends, uint64_t cancel_ns)
{
	uint64_t from_ns = cancel_ns > TOLD_NS ? cancel_ns - TOLD_NS : 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->task_count; i++)
		if (trace->tasks[i].first_ns > from_ns && trace->tasks[i].first_ns < cancel_ns)
			from_ns = trace->tasks[i].first_ns;
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		if (task->flags & KY_TASK_ENDED && task->end_ns > from_ns &&
		    task->end_ns < cancel_ns)
			ends[count++] = task->end_ns;
	}
	ky_ascending_sort(ends, count);
	while (count && cancel_ns - ends[count - 1] <= APART_NS)
		cancel_ns = ends[--count];
	return cancel_ns;
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
		*out_ns = told_to_end(trace, ends, ends[count - 1]);
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
