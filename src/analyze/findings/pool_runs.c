/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/pool_runs.h>

#include <analyze/crate_name.h>
#include <analyze/findings/finding.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/ascending.h>
#include <read/thread_runs.h>

#define NEAR_NS UINT64_C(1000000) /* between the wake and the record of the run's end */

static uint32_t under_way(const struct ky_pool_runs *runs, uint64_t ns)
{
	return ky_ascending_up_to(runs->starts, runs->count, ns) -
	       ky_ascending_up_to(runs->ends, runs->count, ns);
}

int ky_pool_runs_make(struct ky_pool_runs *out, const struct ky_trace *trace, uint64_t to_ns)
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

		if (run->is_end_unproven || (to_ns && run->start_ns >= to_ns))
			continue;
		out->by_thread[out->count] = i;
		out->starts[out->count] = run->start_ns;
		out->ends[out->count++] = run->start_ns + run->duration_ns;
	}
	ky_thread_runs_sort(trace, out->by_thread, out->count);
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
	uint32_t index = ky_thread_runs_at(runs->trace, runs->by_thread, runs->count, tid, ns);
	const struct ky_blocking_run *run;

	if (index == KY_NONE)
		return NULL;
	run = &runs->trace->blocking_runs[index];
	if (run->start_ns + run->duration_ns < ns ||
	    run->start_ns + run->duration_ns > ns + NEAR_NS)
		return NULL;
	return run;
}

bool ky_pool_run_is_workers(const struct ky_trace *trace, const struct ky_blocking_run *run)
{
	const char *name = ky_trace_name(trace, run->name);

	for (uint32_t i = 0; i < trace->worker_count; i++)
		if (!trace->workers[i].is_thread_lane && trace->workers[i].tid == run->tid)
			return true;
	return name && ky_crate_name_is_runtime_task(name);
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
		result = ky_pool_runs_make(&runs, trace, 0);
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
