/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/thread_runs.h>

#include <read/sort.h>

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	const struct ky_blocking_run *one = &trace->blocking_runs[*(const uint32_t *)a];
	const struct ky_blocking_run *other = &trace->blocking_runs[*(const uint32_t *)b];

	return one->tid != other->tid ? one->tid < other->tid : one->start_ns < other->start_ns;
}

void ky_thread_runs_sort(const struct ky_trace *trace, uint32_t *runs, uint32_t count)
{
	ky_sort(runs, count, sizeof(*runs), is_before, trace);
}

uint32_t ky_thread_runs_at(const struct ky_trace *trace, const uint32_t *runs, uint32_t count,
			   uint32_t tid, uint64_t ns)
{
	uint32_t low = 0, high = count;

	while (low < high) { /* the first run after it, or of a later thread */
		uint32_t middle = low + (high - low) / 2;
		const struct ky_blocking_run *run = &trace->blocking_runs[runs[middle]];

		if (run->tid < tid || (run->tid == tid && run->start_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && trace->blocking_runs[runs[low - 1]].tid == tid ? runs[low - 1] : KY_NONE;
}
