/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which task awaits a closure of the blocking pool: the one that the closure's end wakes. The wake
 * is issued on the closure's thread, between its last line and the record of its end. */
#include <read/load.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/thread_runs.h>

/* The run of this thread at that moment; NULL: none. order: of the runs, by thread and start. */
static struct ky_blocking_run *run_at(struct ky_trace *trace, const uint32_t *order, uint32_t tid,
				      uint64_t ns)
{
	uint32_t index = ky_thread_runs_at(trace, order, trace->blocking_count, tid, ns);
	struct ky_blocking_run *run;

	if (index == KY_NONE)
		return NULL;
	run = &trace->blocking_runs[index];
	return run->is_end_unproven || ns > run->start_ns + run->duration_ns ? NULL : run;
}

static void note_wakes(struct ky_trace *trace, const uint32_t *order, uint32_t worker)
{
	struct ky_cursor at;
	struct ky_wake wake;

	if (!ky_cursor_begin(&at, &trace->workers[worker].wakes, 0))
		return;
	do {
		const struct ky_wake_row *row = (const void *)at.at;
		struct ky_blocking_run *run;

		if (!(row->word >> 16 & 1) || !(row->word >> 8 & KY_WAKE_AT_END))
			continue;
		ky_trace_wake(trace, worker, at.row, &wake);
		run = wake.tid ? run_at(trace, order, wake.tid, wake.time_ns) : NULL;
		if (!run || (run->waiter != KY_NONE && run->woken_ns <= wake.time_ns))
			continue;
		run->waiter = wake.woken;
		run->woken_ns = wake.time_ns;
	} while (ky_cursor_next(&at));
}

int ky_run_waiters_finish(struct ky_trace *trace)
{
	uint32_t *order;

	if (!trace->blocking_count)
		return 0;
	order = ky_alloc(trace->blocking_count * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->blocking_count; i++)
		order[i] = i;
	ky_thread_runs_sort(trace, order, trace->blocking_count);
	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		note_wakes(trace, order, worker);
	ky_free(order);
	return 0;
}
