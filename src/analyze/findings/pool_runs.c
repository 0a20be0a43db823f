/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/pool_runs.h>

#include <analyze/findings/finding.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/ascending.h>
#include <read/sort.h>

#define NEAR_NS UINT64_C(1000000) /* between the wake and the record of the run's end */

static bool is_run_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	const struct ky_blocking_run *one = &trace->blocking_runs[*(const uint32_t *)a];
	const struct ky_blocking_run *other = &trace->blocking_runs[*(const uint32_t *)b];

	return one->tid != other->tid ? one->tid < other->tid : one->start_ns < other->start_ns;
}

static uint32_t under_way(const struct ky_pool_runs *runs, uint64_t ns)
{
	return ky_ascending_up_to(runs->starts, runs->count, ns) -
	       ky_ascending_up_to(runs->ends, runs->count, ns);
}

int ky_pool_runs_make(struct ky_pool_runs *out, const struct ky_trace *trace)
{
	size_t room = trace->blocking_count + (size_t)1;

	*out = (struct ky_pool_runs){.trace = trace,
				     .by_thread = ky_alloc(room * sizeof(*out->by_thread)),
				     .starts = ky_alloc(room * sizeof(*out->starts)),
				     .ends = ky_alloc(room * sizeof(*out->ends))};
	if (!out->by_thread || !out->starts || !out->ends) {
		ky_pool_runs_release(out);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];

		if (run->is_end_unproven)
			continue;
		out->by_thread[out->count] = i;
		out->starts[out->count] = run->start_ns;
		out->ends[out->count++] = run->start_ns + run->duration_ns;
	}
	ky_sort(out->by_thread, out->count, sizeof(*out->by_thread), is_run_before, trace);
	ky_ascending_sort(out->starts, out->count);
	ky_ascending_sort(out->ends, out->count);
	for (uint32_t i = 0; i < out->count; i++)
		if (under_way(out, out->starts[i]) > out->most)
			out->most = under_way(out, out->starts[i]);
	return 0;
}

void ky_pool_runs_release(struct ky_pool_runs *runs)
{
	ky_free(runs->by_thread);
	ky_free(runs->starts);
	ky_free(runs->ends);
	*runs = (struct ky_pool_runs){0};
}

const struct ky_blocking_run *ky_pool_runs_at(const struct ky_pool_runs *runs, uint32_t tid,
					      uint64_t ns)
{
	const struct ky_blocking_run *run;
	uint32_t low = 0, high = runs->count;

	while (low < high) { /* the first run after this moment, or of a later thread */
		uint32_t middle = low + (high - low) / 2;

		run = &runs->trace->blocking_runs[runs->by_thread[middle]];
		if (run->tid < tid || (run->tid == tid && run->start_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	run = &runs->trace->blocking_runs[runs->by_thread[low - 1]];
	if (run->tid != tid || run->start_ns + run->duration_ns < ns ||
	    run->start_ns + run->duration_ns > ns + NEAR_NS)
		return NULL;
	return run;
}

bool ky_pool_runs_full_at(const struct ky_pool_runs *runs, uint64_t ns)
{
	return runs->most && under_way(runs, ns) >= runs->most;
}

/* Times in line; both ascending. */
struct pool_lines {
	uint64_t *starts, *ends;
	uint32_t count;
};

static void add_lines(struct pool_lines *lines, const struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];

		if (run->wait_ns == UINT64_MAX || run->wait_ns <= KY_FIND_LONG_NS ||
		    run->wait_ns > run->start_ns)
			continue;
		lines->starts[lines->count] = run->start_ns - run->wait_ns;
		lines->ends[lines->count++] = run->start_ns;
	}
	ky_ascending_sort(lines->starts, lines->count);
	ky_ascending_sort(lines->ends, lines->count);
}

static uint32_t most_of(const struct pool_lines *lines, const struct ky_pool_runs *runs,
			const uint64_t *times, uint32_t count, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t threads;

		if (times[i] < from_ns || times[i] > to_ns ||
		    ky_ascending_up_to(lines->starts, lines->count, times[i]) ==
			    ky_ascending_up_to(lines->ends, lines->count, times[i]))
			continue;
		threads = under_way(runs, times[i]);
		most = threads > most ? threads : most;
	}
	return most;
}

int ky_pool_threads_in_line(uint32_t *out, const struct ky_trace *trace, uint64_t from_ns,
			    uint64_t to_ns)
{
	size_t room = trace->blocking_count + (size_t)1;
	struct pool_lines lines = {.starts = ky_alloc(room * sizeof(uint64_t)),
				   .ends = ky_alloc(room * sizeof(uint64_t))};
	struct ky_pool_runs runs = {0};
	int result = -ENOMEM;
	uint32_t most;

	*out = 0;
	if (lines.starts && lines.ends)
		result = ky_pool_runs_make(&runs, trace);
	if (result == 0) {
		/* The number grows at the begin of a run alone, and counts from the first moment of
		 * a line on. */
		add_lines(&lines, trace);
		*out = most_of(&lines, &runs, runs.starts, runs.count, from_ns, to_ns);
		most = most_of(&lines, &runs, lines.starts, lines.count, from_ns, to_ns);
		*out = most > *out ? most : *out;
	}
	ky_pool_runs_release(&runs);
	ky_free(lines.starts);
	ky_free(lines.ends);
	return result;
}
