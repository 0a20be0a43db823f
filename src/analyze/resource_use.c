/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/resource_use.h>

#include <analyze/thread_counts.h>
#include <base/json_write.h>
#include <base/alloc.h>
#include <errno.h>
#include <base/text.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define NEAR_PERMILLE 900u
#define CPU_PRESSURE_PERMILLE 200u
#define OWN_DELAY_PERMILLE 50u
#define MEMORY_PRESSURE_PERMILLE 50u
#define IO_PRESSURE_PERMILLE 200u
#define MAJOR_FAULTS_A_SECOND 10u

static uint64_t times(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* The kernel counts a process's CPU time in ticks of 10 ms at worst: between a reading and the last
 * one, which comes whenever the process ends, one tick can be more than there are CPUs. */
#define RATE_NS_MIN UINT64_C(500000000)

static void take_rate(struct ky_growth *growth, uint64_t value, uint64_t ns)
{
	uint64_t permille;

	if (growth->rate_ns && growth->rate_ns < ns && value >= growth->rate_from) {
		if (ns - growth->rate_ns < RATE_NS_MIN)
			return;
		permille = times(value - growth->rate_from, 1000) / (ns - growth->rate_ns);
		if (permille > growth->max_permille)
			growth->max_permille = permille;
	}
	growth->rate_from = value;
	growth->rate_ns = ns;
}

static void grow(struct ky_growth *growth, uint64_t value, uint64_t ns)
{
	uint64_t by;

	if (value == KY_RESOURCE_NONE)
		return;
	/* Backwards: another process, or nonsense. */
	if (growth->last_ns && growth->last_ns < ns && value >= growth->last) {
		by = value - growth->last;
		growth->sum = growth->sum == KY_RESOURCE_NONE ? by : growth->sum + by;
	}
	take_rate(growth, value, ns);
	growth->last = value;
	growth->last_ns = ns;
}

static void gauge(struct ky_gauge *out, uint64_t value)
{
	if (value == KY_RESOURCE_NONE)
		return;
	if (out->first == KY_RESOURCE_NONE)
		out->first = out->max = value;
	out->last = value;
	if (value > out->max)
		out->max = value;
}

/* ---- one row ---- */

static void take_usage(struct ky_resource_use *use, const struct ky_trace_resource *row)
{
	const uint64_t *values = row->values;
	uint64_t ns = row->time_ns;

	grow(&use->user, values[KY_USAGE_USER_NS], ns);
	grow(&use->system, values[KY_USAGE_SYSTEM_NS], ns);
	if (values[KY_USAGE_USER_NS] != KY_RESOURCE_NONE &&
	    values[KY_USAGE_SYSTEM_NS] != KY_RESOURCE_NONE)
		grow(&use->cpu, values[KY_USAGE_USER_NS] + values[KY_USAGE_SYSTEM_NS], ns);
	gauge(&use->max_rss, values[KY_USAGE_MAX_RSS]);
	grow(&use->minor_faults, values[KY_USAGE_MINOR_FAULTS], ns);
	grow(&use->major_faults, values[KY_USAGE_MAJOR_FAULTS], ns);
	grow(&use->blocks_in, values[KY_USAGE_BLOCKS_IN], ns);
	grow(&use->blocks_out, values[KY_USAGE_BLOCKS_OUT], ns);
	grow(&use->voluntary, values[KY_USAGE_VOLUNTARY], ns);
	grow(&use->involuntary, values[KY_USAGE_INVOLUNTARY], ns);
	gauge(&use->rss, values[KY_USAGE_RSS]);
	gauge(&use->threads, values[KY_USAGE_THREADS]);
	gauge(&use->fds, values[KY_USAGE_FDS]);
	gauge(&use->fd_limit, values[KY_USAGE_FD_LIMIT]);
}

static void take_group(struct ky_group_use *group, const struct ky_trace_resource *row)
{
	const uint64_t *values = row->values;
	uint64_t ns = row->time_ns;

	grow(&group->cpu, values[KY_CGROUP_CPU_NS], ns);
	grow(&group->periods, values[KY_CGROUP_PERIODS], ns);
	grow(&group->throttled_periods, values[KY_CGROUP_THROTTLED_PERIODS], ns);
	grow(&group->throttled, values[KY_CGROUP_THROTTLED_NS], ns);
	grow(&group->high_events, values[KY_CGROUP_HIGH_EVENTS], ns);
	grow(&group->max_events, values[KY_CGROUP_MAX_EVENTS], ns);
	grow(&group->oom_kills, values[KY_CGROUP_OOM_KILLS], ns);
	gauge(&group->cpu_limit, values[KY_CGROUP_CPU_LIMIT_NS]);
	gauge(&group->memory, values[KY_CGROUP_MEMORY]);
	gauge(&group->memory_limit, values[KY_CGROUP_MEMORY_LIMIT]);
	gauge(&group->memory_high, values[KY_CGROUP_MEMORY_HIGH]);
}

static struct ky_queue_use *queue_of(struct ky_resource_use *use,
				     const struct ky_trace_resource *row)
{
	const uint64_t *values = row->values;
	struct ky_queue_use *queue;

	for (uint32_t i = 0; i < use->queue_count; i++) {
		queue = &use->queues[i];
		if (queue->cookie == values[KY_LISTENER_COOKIE] &&
		    queue->inode == values[KY_LISTENER_INODE])
			return queue;
	}
	if (use->queue_count == KY_RESOURCE_QUEUES_MAX) {
		use->queues_more = 1;
		return NULL;
	}
	queue = &use->queues[use->queue_count++];
	queue->cookie = values[KY_LISTENER_COOKIE];
	queue->inode = values[KY_LISTENER_INODE];
	queue->port = values[KY_LISTENER_PORT];
	queue->address = row->address;
	queue->version = row->scope;
	queue->pending.first = queue->limit.first = queue->dropped.sum = KY_RESOURCE_NONE;
	return queue;
}

/* A row of a queue comes when its length has changed, so the last one holds until now. */
static void add_wait(struct ky_queue_use *queue, uint64_t now_ns)
{
	if (queue->row_ns && now_ns > queue->row_ns && queue->pending.last != KY_RESOURCE_NONE)
		queue->waited_ns += queue->pending.last * (now_ns - queue->row_ns);
	queue->row_ns = now_ns;
}

static void take_queue(struct ky_resource_use *use, const struct ky_trace_resource *row)
{
	const uint64_t *values = row->values;
	struct ky_queue_use *queue = queue_of(use, row);

	if (!queue)
		return;
	add_wait(queue, row->time_ns);
	gauge(&queue->pending, values[KY_LISTENER_PENDING]);
	gauge(&queue->limit, values[KY_LISTENER_LIMIT]);
	grow(&queue->dropped, values[KY_LISTENER_DROPS], row->time_ns);
	/* The kernel lets one more in than the limit says. */
	if (!queue->full_ns && values[KY_LISTENER_LIMIT] != KY_RESOURCE_NONE &&
	    values[KY_LISTENER_PENDING] != KY_RESOURCE_NONE && values[KY_LISTENER_PENDING] &&
	    values[KY_LISTENER_PENDING] >= values[KY_LISTENER_LIMIT])
		queue->full_ns = row->time_ns;
}

/* ---- all of them ---- */

static void forget_gauge(struct ky_gauge *out)
{
	out->first = out->last = out->max = KY_RESOURCE_NONE;
}

static void forget_group(struct ky_group_use *group)
{
	group->cpu.sum = group->periods.sum = group->throttled_periods.sum = KY_RESOURCE_NONE;
	group->throttled.sum = group->high_events.sum = group->max_events.sum = KY_RESOURCE_NONE;
	group->oom_kills.sum = KY_RESOURCE_NONE;
	forget_gauge(&group->cpu_limit);
	forget_gauge(&group->memory);
	forget_gauge(&group->memory_limit);
	forget_gauge(&group->memory_high);
}

static void forget(struct ky_resource_use *use)
{
	struct ky_growth *const growths[] = {
		&use->user,         &use->system,    &use->cpu,        &use->minor_faults,
		&use->major_faults, &use->blocks_in, &use->blocks_out, &use->voluntary,
		&use->involuntary,  &use->overflows, &use->drops,
	};
	struct ky_gauge *const gauges[] = {&use->rss, &use->max_rss, &use->threads, &use->fds,
					   &use->fd_limit};

	memset(use, 0, sizeof(*use));
	for (size_t i = 0; i < sizeof(growths) / sizeof(*growths); i++)
		growths[i]->sum = KY_RESOURCE_NONE;
	for (size_t i = 0; i < sizeof(gauges) / sizeof(*gauges); i++)
		forget_gauge(gauges[i]);
	for (uint32_t i = 0; i < 12; i++)
		use->pressure[i / 6][i % 6].sum = KY_RESOURCE_NONE;
	forget_group(&use->group);
}

static bool is_more(const struct ky_growth *a, const struct ky_growth *b)
{
	return a->sum != KY_RESOURCE_NONE && (b->sum == KY_RESOURCE_NONE || a->sum > b->sum);
}

/* Which of two groups' memory is nearer to its limit. */
static bool is_nearer(const struct ky_group_use *a, const struct ky_group_use *b)
{
	if (a->memory.max == KY_RESOURCE_NONE || a->memory_limit.last == KY_RESOURCE_NONE)
		return b->memory.max == KY_RESOURCE_NONE && a->memory.max != KY_RESOURCE_NONE;
	if (b->memory.max == KY_RESOURCE_NONE || b->memory_limit.last == KY_RESOURCE_NONE)
		return true;
	return (double)a->memory.max * (double)b->memory_limit.last >
	       (double)b->memory.max * (double)a->memory_limit.last;
}

/* Limits of parents hold as well. */
static void merge(struct ky_group_use *into, const struct ky_group_use *group)
{
	if (is_more(&group->throttled, &into->throttled)) {
		into->throttled = group->throttled;
		into->periods = group->periods;
		into->throttled_periods = group->throttled_periods;
	}
	if (group->cpu_limit.last < into->cpu_limit.last) {
		into->cpu_limit = group->cpu_limit;
		into->cpu = group->cpu;
	}
	if (into->cpu.sum == KY_RESOURCE_NONE)
		into->cpu = group->cpu;
	if (is_nearer(group, into)) {
		into->memory = group->memory;
		into->memory_limit = group->memory_limit;
	}
	if (group->memory_high.last < into->memory_high.last)
		into->memory_high = group->memory_high;
	if (is_more(&group->high_events, &into->high_events))
		into->high_events = group->high_events;
	if (is_more(&group->max_events, &into->max_events))
		into->max_events = group->max_events;
	if (is_more(&group->oom_kills, &into->oom_kills))
		into->oom_kills = group->oom_kills;
}

#define LEVELS 8u

static void take_rows(const struct ky_trace *trace, struct ky_resource_use *use)
{
	struct ky_group_use groups[LEVELS];

	for (uint32_t i = 0; i < LEVELS; i++) {
		memset(&groups[i], 0, sizeof(groups[i]));
		forget_group(&groups[i]);
	}
	for (uint32_t i = 0; i < trace->resource_count; i++) {
		const struct ky_trace_resource *row = &trace->resources[i];

		if (row->time_ns < use->from_ns || row->time_ns > use->to_ns)
			continue;
		use->reading_count += !i || row->time_ns != trace->resources[i - 1].time_ns;
		if (row->kind == KY_RESOURCE_USAGE)
			take_usage(use, row);
		else if (row->kind == KY_RESOURCE_CGROUP && row->scope < LEVELS)
			take_group(&groups[row->scope], row);
		else if (row->kind == KY_RESOURCE_LISTENER)
			take_queue(use, row);
		for (uint32_t value = 0; row->kind == KY_RESOURCE_PRESSURE && value < 6; value++)
			grow(&use->pressure[row->scope != 0][value], row->values[value],
			     row->time_ns);
		if (row->kind == KY_RESOURCE_DROPS) {
			grow(&use->overflows, row->values[0], row->time_ns);
			grow(&use->drops, row->values[1], row->time_ns);
		}
	}
	for (uint32_t i = 0; i < LEVELS; i++)
		merge(&use->group, &groups[i]);
}

/* ---- what follows ---- */

static bool is_grown(const struct ky_growth *growth)
{
	return growth->sum != KY_RESOURCE_NONE && growth->sum > 0;
}

static bool is_near(uint64_t value, uint64_t limit)
{
	return value != KY_RESOURCE_NONE && limit != KY_RESOURCE_NONE && limit &&
	       (double)value * 1000.0 >= (double)limit * NEAR_PERMILLE;
}

static bool is_above(const struct ky_resource_use *use, uint32_t value, uint64_t permille)
{
	return use->pressure[0][value].max_permille >= permille ||
	       use->pressure[1][value].max_permille >= permille;
}

static void find(struct ky_resource_use *use)
{
	const struct ky_group_use *group = &use->group;
	bool is_found[KY_FOUND_COUNT] = {false};

	is_found[KY_FOUND_THROTTLED] = is_grown(&group->throttled) ||
				       is_grown(&group->throttled_periods);
	is_found[KY_FOUND_CPU_LIMIT] = group->cpu_limit.last != KY_RESOURCE_NONE &&
				       is_near(times(group->cpu.sum != KY_RESOURCE_NONE ?
							     group->cpu.max_permille :
							     use->cpu.max_permille,
						     SECOND_NS / 1000),
					       group->cpu_limit.last);
	/* That others wait is no cause here. */
	is_found[KY_FOUND_CPU_PRESSURE] = is_above(use, KY_PRESSURE_CPU_SOME,
						   CPU_PRESSURE_PERMILLE) &&
					  use->own_delay_permille != KY_RESOURCE_NONE &&
					  use->own_delay_permille >= OWN_DELAY_PERMILLE;
	is_found[KY_FOUND_MEMORY_PRESSURE] = is_above(use, KY_PRESSURE_MEMORY_SOME,
						      MEMORY_PRESSURE_PERMILLE);
	is_found[KY_FOUND_IO_PRESSURE] = is_above(use, KY_PRESSURE_IO_SOME, IO_PRESSURE_PERMILLE);
	is_found[KY_FOUND_MEMORY_LIMIT] = is_near(group->memory.max, group->memory_limit.last) ||
					  is_grown(&group->high_events) ||
					  is_grown(&group->max_events);
	is_found[KY_FOUND_OOM_KILL] = is_grown(&group->oom_kills);
	/* Of counts: in a second, 10^9 ns, so many. */
	is_found[KY_FOUND_MAJOR_FAULTS] = is_grown(&use->major_faults) &&
					  use->to_ns > use->from_ns &&
					  times(use->major_faults.sum, SECOND_NS) /
							  (use->to_ns - use->from_ns) >=
						  MAJOR_FAULTS_A_SECOND;
	for (uint32_t i = 0; i < use->queue_count; i++)
		is_found[KY_FOUND_QUEUE_FULL] |= use->queues[i].full_ns ||
						 is_grown(&use->queues[i].dropped);
	is_found[KY_FOUND_DESCRIPTORS] = is_near(use->fds.max, use->fd_limit.last);
	for (uint32_t i = 0; i < KY_FOUND_COUNT; i++)
		use->findings |= (uint32_t)is_found[i] << i;
}

/* Without memory it counts as not read. */
static uint64_t own_delay(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t delay_ns = 0, runnable_ns = 0;
	struct ky_thread_count *counts;
	uint32_t count;

	if (ky_thread_counts(trace, from_ns, to_ns, &counts, &count) || !count)
		return KY_RESOURCE_NONE;
	for (uint32_t i = 0; i < count; i++) {
		delay_ns += counts[i].run_delay_ns;
		runnable_ns += counts[i].run_delay_ns + counts[i].cpu_ns;
	}
	ky_free(counts);
	return runnable_ns ? times(delay_ns, 1000) / runnable_ns : 0;
}

/* Rows of one reading have one time. */
static void set_range(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		      struct ky_resource_use *use)
{
	uint32_t count = trace->resource_count;

	/* All of the trace: readings between which nothing was polled as well. */
	from_ns = from_ns <= trace->run_first_ns ? 0 : from_ns;
	to_ns = to_ns >= trace->run_last_ns ? 0 : to_ns;
	use->from_ns = trace->resources[0].time_ns;
	use->to_ns = trace->resources[count - 1].time_ns;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t ns = trace->resources[i].time_ns;

		if (ns <= from_ns)
			use->from_ns = ns;
		if (to_ns && ns >= to_ns) {
			use->to_ns = ns;
			break;
		}
	}
	if (use->from_ns > use->to_ns)
		use->from_ns = use->to_ns;
}

/* Counted in some readings and not in others: the growth is of the least of the time. */
static void drop_missing(const struct ky_trace *trace, struct ky_resource_use *use)
{
	const char *missing = trace->metadata_count ?
				      ky_trace_metadata(trace, "resources.missing") :
				      NULL;

	if (missing && ky_text_contains(missing, "context switches"))
		use->voluntary.sum = use->involuntary.sum = KY_RESOURCE_NONE;
}

int ky_resource_use(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		    struct ky_resource_use **out)
{
	struct ky_resource_use *use;

	*out = NULL;
	if (!trace->resource_count || trace->has_processes)
		return 0;
	use = ky_alloc(sizeof(*use));
	if (!use)
		return -ENOMEM;
	forget(use);
	set_range(trace, from_ns, to_ns, use);
	take_rows(trace, use);
	drop_missing(trace, use);
	use->own_delay_permille = own_delay(trace, from_ns, to_ns ? to_ns + 1 : 0);
	find(use);
	*out = use;
	return 0;
}

const char *ky_resource_finding_name(uint32_t finding)
{
	static const char *const names[KY_FOUND_COUNT] = {
		[KY_FOUND_THROTTLED] = "throttled",
		[KY_FOUND_CPU_LIMIT] = "cpu_limit",
		[KY_FOUND_CPU_PRESSURE] = "cpu_pressure",
		[KY_FOUND_MEMORY_PRESSURE] = "memory_pressure",
		[KY_FOUND_IO_PRESSURE] = "io_pressure",
		[KY_FOUND_MEMORY_LIMIT] = "memory_limit",
		[KY_FOUND_OOM_KILL] = "oom_kill",
		[KY_FOUND_MAJOR_FAULTS] = "major_faults",
		[KY_FOUND_QUEUE_FULL] = "accept_queue_full",
		[KY_FOUND_DESCRIPTORS] = "descriptors",
	};

	return finding < KY_FOUND_COUNT ? names[finding] : "";
}

/* ---- JSON ---- */

static void known(struct ky_buf *out, const char *key, uint64_t value)
{
	ky_json_number_or_null(out, key, value != KY_RESOURCE_NONE, value);
}

static void gauge_json(struct ky_buf *out, const char *key, const struct ky_gauge *value)
{
	ky_json_open(out, key, "{");
	known(out, "first", value->first);
	known(out, "last", value->last);
	known(out, "max", value->max);
	ky_json_close(out, "}");
}

static void growth_json(struct ky_buf *out, const char *key, const struct ky_growth *growth)
{
	known(out, key, growth->sum);
}

static void group_json(struct ky_buf *out, const struct ky_group_use *group)
{
	ky_json_open(out, "cgroup", "{");
	growth_json(out, "cpu_ns", &group->cpu);
	known(out, "cpu_limit_ns_per_second", group->cpu_limit.last);
	growth_json(out, "periods", &group->periods);
	growth_json(out, "throttled_periods", &group->throttled_periods);
	growth_json(out, "throttled_ns", &group->throttled);
	gauge_json(out, "memory_bytes", &group->memory);
	known(out, "memory_limit_bytes", group->memory_limit.last);
	known(out, "memory_high_bytes", group->memory_high.last);
	growth_json(out, "memory_high_events", &group->high_events);
	growth_json(out, "memory_max_events", &group->max_events);
	growth_json(out, "oom_kills", &group->oom_kills);
	ky_json_close(out, "}");
}

static void pressure_json(struct ky_buf *out, const struct ky_resource_use *use)
{
	static const char *const scopes[] = {"machine", "cgroup"};
	static const char *const names[] = {"cpu_some",    "cpu_full", "memory_some",
					    "memory_full", "io_some",  "io_full"};

	ky_json_open(out, "pressure", "{");
	for (uint32_t scope = 0; scope < 2; scope++) {
		ky_json_open(out, scopes[scope], "{");
		for (uint32_t i = 0; i < 6; i++) {
			const struct ky_growth *one = &use->pressure[scope][i];
			bool is_known = one->sum != KY_RESOURCE_NONE;

			ky_json_open(out, names[i], "{");
			ky_json_number_or_null(out, "ns", is_known, one->sum);
			ky_json_number_or_null(out, "max_permille", is_known, one->max_permille);
			ky_json_close(out, "}");
		}
		ky_json_close(out, "}");
	}
	ky_json_close(out, "}");
}

static void queues_json(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_resource_use *use)
{
	ky_json_open(out, "accept_queues", "[");
	for (uint32_t i = 0; i < use->queue_count; i++) {
		const struct ky_queue_use *queue = &use->queues[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "address", ky_trace_name(trace, queue->address));
		known(out, "port", queue->port);
		known(out, "inode", queue->inode);
		known(out, "pending_max", queue->pending.max);
		known(out, "limit", queue->limit.last);
		growth_json(out, "dropped", &queue->dropped);
		ky_json_number_or_null(out, "full_ns", queue->full_ns != 0, queue->full_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

void ky_resource_use_json(struct ky_buf *out, const struct ky_trace *trace,
			  const struct ky_resource_use *use)
{
	ky_text(out, "{");
	ky_json_number(out, "from_ns", use->from_ns);
	ky_json_number(out, "to_ns", use->to_ns);
	ky_json_number(out, "looks", use->reading_count);
	ky_json_open(out, "findings", "[");
	for (uint32_t i = 0; i < KY_FOUND_COUNT; i++)
		if (use->findings & 1u << i)
			ky_json_text(out, NULL, ky_resource_finding_name(i));
	ky_json_close(out, "]");
	growth_json(out, "user_cpu_ns", &use->user);
	growth_json(out, "system_cpu_ns", &use->system);
	ky_json_number_or_null(out, "cpu_max_permille", use->cpu.sum != KY_RESOURCE_NONE,
			       use->cpu.max_permille);
	growth_json(out, "minor_faults", &use->minor_faults);
	growth_json(out, "major_faults", &use->major_faults);
	growth_json(out, "block_input_ops", &use->blocks_in);
	growth_json(out, "block_output_ops", &use->blocks_out);
	growth_json(out, "voluntary_context_switches", &use->voluntary);
	growth_json(out, "involuntary_context_switches", &use->involuntary);
	gauge_json(out, "rss_bytes", &use->rss);
	gauge_json(out, "max_rss_bytes", &use->max_rss);
	gauge_json(out, "threads", &use->threads);
	gauge_json(out, "open_fds", &use->fds);
	known(out, "fd_limit", use->fd_limit.last);
	group_json(out, &use->group);
	pressure_json(out, use);
	known(out, "own_run_delay_permille", use->own_delay_permille);
	growth_json(out, "listen_overflows", &use->overflows);
	growth_json(out, "listen_drops", &use->drops);
	queues_json(out, trace, use);
	ky_json_close(out, "}");
}
