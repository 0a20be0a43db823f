/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/thread_uses.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <errno.h>
#include <read/sort.h>

#define THREADS_MAX 1024u

/* Sums so far, and what the counters said last. */
struct making {
	struct ky_thread_use use;
	uint64_t cpu_ns, run_delay_ns;
};

static bool is_worker(const struct ky_trace *trace, uint32_t tid)
{
	for (uint32_t i = 0; i < trace->thread_cpu_count; i++)
		if (trace->thread_cpus[i].tid == tid)
			return true;
	for (uint32_t i = 0; i < trace->worker_count; i++)
		if (!trace->workers[i].is_thread_lane && trace->workers[i].tid == tid)
			return true;
	return false;
}

static struct making *find(struct making *list, uint32_t *count, const struct ky_trace *trace,
			   const struct ky_trace_thread_use *reading)
{
	for (uint32_t i = 0; i < *count; i++)
		if (list[i].use.tid == reading->tid)
			return &list[i];
	if (*count == THREADS_MAX || is_worker(trace, reading->tid))
		return NULL;
	/* A reading in the middle of its life has counts from before; the process's first reading
	 * says from where on. */
	list[*count] = (struct making){
		.use = {.tid = reading->tid, .name = reading->name, .from_ns = reading->time_ns},
		.cpu_ns = reading->cpu_ns,
		.run_delay_ns = reading->run_delay_ns};
	return &list[(*count)++];
}

static void add(struct making *one, const struct ky_trace_thread_use *reading)
{
	/* Backwards: another thread under the same number. */
	if (reading->cpu_ns >= one->cpu_ns && reading->run_delay_ns >= one->run_delay_ns) {
		one->use.cpu_ns += reading->cpu_ns - one->cpu_ns;
		one->use.run_delay_ns += reading->run_delay_ns - one->run_delay_ns;
	}
	one->cpu_ns = reading->cpu_ns;
	one->run_delay_ns = reading->run_delay_ns;
	one->use.to_ns = reading->time_ns;
	one->use.name = reading->name;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_thread_use *one = a, *other = b;

	(void)ctx;
	return one->cpu_ns != other->cpu_ns ? one->cpu_ns > other->cpu_ns : one->tid < other->tid;
}

int ky_thread_uses(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		   struct ky_thread_use **out, uint32_t *count)
{
	struct making *list;
	uint64_t first_ns = trace->thread_use_count ? trace->thread_uses[0].time_ns : 0;

	*out = NULL;
	*count = 0;
	if (!trace->thread_use_count || trace->has_processes)
		return 0;
	list = ky_alloc(THREADS_MAX * sizeof(*list));
	*out = ky_alloc(THREADS_MAX * sizeof(**out));
	if (!list || !*out) {
		ky_free(list);
		ky_free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < trace->thread_use_count; i++) {
		const struct ky_trace_thread_use *reading = &trace->thread_uses[i];
		uint32_t before = *count;
		struct making *one;

		if (reading->time_ns < from_ns || (to_ns && reading->time_ns > to_ns))
			continue;
		one = find(list, count, trace, reading);
		/* It was not there at the first reading: all that it counted was meanwhile. */
		if (one && *count > before && reading->time_ns > first_ns && from_ns <= first_ns)
			one->cpu_ns = one->run_delay_ns = 0;
		if (one)
			add(one, reading);
	}
	for (uint32_t i = 0; i < *count; i++)
		(*out)[i] = list[i].use;
	ky_free(list);
	ky_sort(*out, *count, sizeof(**out), is_before, NULL);
	return 0;
}

void ky_thread_uses_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			 uint64_t to_ns)
{
	struct ky_thread_use *uses;
	uint32_t count;

	if (ky_thread_uses(trace, from_ns, to_ns, &uses, &count) || !count) {
		ky_free(uses);
		return;
	}
	ky_json_open(out, "threads", "[");
	for (uint32_t i = 0; i < count; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", uses[i].tid);
		ky_json_text(out, "name", ky_trace_name(trace, uses[i].name));
		ky_json_number(out, "cpu_ns", uses[i].cpu_ns);
		ky_json_number(out, "run_delay_ns", uses[i].run_delay_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_free(uses);
}
