/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/resource_text.h>

#include <analyze/resource_use.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define QUEUES_SHOWN 8u
#define FEW_READINGS 4u
#define SECOND_NS UINT64_C(1000000000)

struct use_view {
	struct ky_buf *out;
	const struct ky_trace *trace;
	const struct ky_resource_use *use;
	uint64_t span_ns;
};

static bool is_known(uint64_t value)
{
	return value != KY_RESOURCE_NONE;
}

static void name(const struct use_view *view, const char *what)
{
	ky_out_format(view->out, "  %-16s ", what);
}

/* ns of CPU in ns of time: "1.52 cores". */
static void cores(const struct use_view *view, uint64_t cpu_ns, uint64_t span_ns)
{
	ky_out_format(view->out, "%.2f", span_ns ? (double)cpu_ns / (double)span_ns : 0.0);
}

static void cpu(const struct use_view *view)
{
	const struct ky_resource_use *use = view->use;
	const struct ky_gauge *limit = &use->group.cpu_limit;
	char cell[KY_OUT_CELL_BYTES];

	if (!is_known(use->cpu.sum))
		return;
	name(view, "CPU");
	cores(view, use->cpu.sum, view->span_ns);
	if (is_known(limit->last)) {
		ky_out_text(view->out, " of ");
		cores(view, limit->last, SECOND_NS);
	}
	ky_out_text(view->out, " cores");
	if (use->cpu.max_permille)
		ky_out_format(view->out, ", at most %.2f between two readings",
			      (double)use->cpu.max_permille / 1000.0);
	if (is_known(use->system.sum) && use->cpu.sum)
		ky_out_format(view->out, "; %s in the kernel",
			      ky_out_permille(cell, use->system.sum * 1000 / use->cpu.sum));
	ky_out_text(view->out, "\n");
}

static void memory(const struct use_view *view)
{
	const struct ky_resource_use *use = view->use;
	const struct ky_group_use *group = &use->group;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	if (is_known(use->rss.last)) {
		uint64_t first = use->rss.first, last = use->rss.last;

		name(view, "Resident");
		ky_out_format(view->out, "%s at the end, %s%s", ky_out_bytes(a, last),
			      last < first ? "-" : "+",
			      ky_out_bytes(b, last < first ? first - last : last - first));
		ky_out_format(view->out, "; at most %s\n",
			      ky_out_bytes(a, is_known(use->max_rss.max) ? use->max_rss.max :
									   use->rss.max));
	}
	if (is_known(group->memory.max)) {
		name(view, "Cgroup memory");
		ky_out_text(view->out, ky_out_bytes(a, group->memory.max));
		if (is_known(group->memory_limit.last))
			ky_out_format(view->out, " of %s",
				      ky_out_bytes(a, group->memory_limit.last));
		else
			ky_out_text(view->out, ", no limit");
		ky_out_text(view->out, "\n");
	}
}

/* ", 12 voluntary": where it is known. */
static bool count(const struct use_view *view, const struct ky_growth *growth, const char *what,
		  bool is_first)
{
	char cell[KY_OUT_CELL_BYTES];

	if (!is_known(growth->sum))
		return is_first;
	ky_out_format(view->out, "%s%s %s", is_first ? "" : ", ", ky_out_count(cell, growth->sum),
		      what);
	return false;
}

static void counts(const struct use_view *view)
{
	const struct ky_resource_use *use = view->use;

	if (is_known(use->minor_faults.sum)) {
		name(view, "Page faults");
		(void)count(view, &use->minor_faults, "minor", true);
		(void)count(view, &use->major_faults, "major", false);
		ky_out_text(view->out, "\n");
	}
	if (is_known(use->voluntary.sum)) {
		name(view, "Switches");
		(void)count(view, &use->voluntary, "voluntary", true);
		(void)count(view, &use->involuntary, "involuntary", false);
		ky_out_text(view->out, "\n");
	}
	if (is_known(use->blocks_in.sum) && use->blocks_in.sum + use->blocks_out.sum > 0) {
		name(view, "Blocks");
		(void)count(view, &use->blocks_in, "read", true);
		(void)count(view, &use->blocks_out, "written", false);
		ky_out_text(view->out, "\n");
	}
	if (is_known(use->fds.last)) {
		char cell[KY_OUT_CELL_BYTES];

		name(view, "Descriptors");
		ky_out_text(view->out, ky_out_count(cell, use->fds.max));
		if (is_known(use->fd_limit.last))
			ky_out_format(view->out, " of %s", ky_out_count(cell, use->fd_limit.last));
		if (is_known(use->threads.max))
			ky_out_format(view->out, "; %s thread%s",
				      ky_out_count(cell, use->threads.max),
				      use->threads.max == 1 ? "" : "s");
		ky_out_text(view->out, "\n");
	}
}

static void pressure(const struct use_view *view, uint32_t scope, const char *what)
{
	static const char *const names[] = {"CPU", "memory", "I/O"};
	const struct ky_growth *all = view->use->pressure[scope];
	char cell[KY_OUT_CELL_BYTES];
	bool is_first = true;

	for (uint32_t i = 0; i < 3; i++) {
		const struct ky_growth *some = &all[2 * i];

		if (!is_known(some->sum))
			continue;
		if (is_first)
			name(view, what);
		ky_out_format(view->out, "%s%s %s", is_first ? "at most " : ", ", names[i],
			      ky_out_permille(cell, some->max_permille));
		is_first = false;
	}
	if (!is_first)
		ky_out_text(view->out, " of the time between two readings\n");
}

static void queue_name(const struct use_view *view, const struct ky_queue_use *queue)
{
	const char *address = ky_trace_name(view->trace, queue->address);

	if (queue->version == 6)
		ky_out_text(view->out, "[");
	ky_out_safe(view->out, address, strlen(address));
	ky_out_format(view->out, "%s:%" PRIu64, queue->version == 6 ? "]" : "", queue->port);
}

static void queues(const struct use_view *view)
{
	const struct ky_resource_use *use = view->use;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < use->queue_count && i < QUEUES_SHOWN; i++) {
		const struct ky_queue_use *queue = &use->queues[i];

		if (!is_known(queue->pending.max) || !is_known(queue->limit.last))
			continue;
		name(view, i ? "" : "Accept queue");
		ky_out_format(view->out, "at most %s of %s at ",
			      ky_out_count(a, queue->pending.max),
			      ky_out_count(b, queue->limit.last));
		queue_name(view, queue);
		if (is_known(queue->dropped.sum) && queue->dropped.sum)
			ky_out_format(view->out, ", %s dropped",
				      ky_out_count(a, queue->dropped.sum));
		ky_out_text(view->out, "\n");
	}
	if (use->queue_count > QUEUES_SHOWN || use->queues_more)
		ky_out_format(view->out, "  %-16s ... and more; --json has %u of them\n", "",
			      use->queue_count);
}

/* ---- in words ---- */

static void throttled(const struct use_view *view)
{
	const struct ky_group_use *group = &view->use->group;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	ky_out_format(view->out, "  ! throttled %s in %s",
		      ky_out_duration(a, is_known(group->throttled.sum) ? group->throttled.sum : 0),
		      ky_out_duration(b, view->span_ns));
	if (is_known(group->periods.sum) && is_known(group->throttled_periods.sum))
		ky_out_format(view->out, ", in %s of %s periods",
			      ky_out_count(a, group->throttled_periods.sum),
			      ky_out_count(b, group->periods.sum));
	if (is_known(group->cpu_limit.last))
		ky_out_format(view->out,
			      ": its cgroup may use %.2f cores, and all its threads stand "
			      "when they are used up",
			      (double)group->cpu_limit.last / (double)SECOND_NS);
	ky_out_text(view->out, "\n");
}

static void full_queues(const struct use_view *view)
{
	const struct ky_resource_use *use = view->use;
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < use->queue_count; i++) {
		const struct ky_queue_use *queue = &use->queues[i];
		bool is_dropping = is_known(queue->dropped.sum) && queue->dropped.sum;

		if (!queue->full_ns && !is_dropping)
			continue;
		ky_out_text(view->out, "  ! the accept queue of ");
		queue_name(view, queue);
		if (queue->full_ns)
			ky_out_text(view->out, " was full: accept() is not called often enough");
		if (is_dropping)
			ky_out_format(view->out, "%s %s connections",
				      queue->full_ns ? ", and it dropped" : " dropped",
				      ky_out_count(cell, queue->dropped.sum));
		ky_out_text(view->out, "\n");
	}
}

static void memory_limit(const struct use_view *view)
{
	const struct ky_group_use *group = &view->use->group;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	ky_out_text(view->out, "  ! memory of the cgroup");
	if (is_known(group->memory.max) && is_known(group->memory_limit.last))
		ky_out_format(view->out, ": %s of %s", ky_out_bytes(a, group->memory.max),
			      ky_out_bytes(b, group->memory_limit.last));
	if (is_known(group->high_events.sum) && group->high_events.sum)
		ky_out_format(view->out, "; threads were slowed down %s times",
			      ky_out_count(a, group->high_events.sum));
	if (is_known(group->max_events.sum) && group->max_events.sum)
		ky_out_format(view->out, "; at the limit %s times",
			      ky_out_count(a, group->max_events.sum));
	ky_out_text(view->out, "\n");
}

static void most_pressure(const struct use_view *view, uint32_t value, const char *what)
{
	const struct ky_resource_use *use = view->use;
	uint64_t machine = use->pressure[0][value].max_permille;
	uint64_t group = use->pressure[1][value].max_permille;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(view->out, "  ! threads %s waited for %s %s of the time between two readings",
		      group >= machine ? "of the cgroup" : "of the machine", what,
		      ky_out_permille(cell, group >= machine ? group : machine));
	if (value == KY_PRESSURE_CPU_SOME)
		ky_out_format(view->out, "; this process's workers %s of the time they could run",
			      ky_out_permille(cell, use->own_delay_permille));
	ky_out_text(view->out, "\n");
}

static void finding(const struct use_view *view, uint32_t which)
{
	const struct ky_resource_use *use = view->use;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	switch (which) {
	case KY_FOUND_THROTTLED:
		throttled(view);
		break;
	case KY_FOUND_CPU_LIMIT:
		ky_out_format(view->out, "  ! the CPU limit of %.2f cores was used up nearly\n",
			      (double)use->group.cpu_limit.last / (double)SECOND_NS);
		break;
	case KY_FOUND_CPU_PRESSURE:
		most_pressure(view, KY_PRESSURE_CPU_SOME, "a CPU");
		break;
	case KY_FOUND_MEMORY_PRESSURE:
		most_pressure(view, KY_PRESSURE_MEMORY_SOME, "memory");
		break;
	case KY_FOUND_IO_PRESSURE:
		most_pressure(view, KY_PRESSURE_IO_SOME, "input and output");
		break;
	case KY_FOUND_MEMORY_LIMIT:
		memory_limit(view);
		break;
	case KY_FOUND_OOM_KILL:
		ky_out_format(view->out,
			      "  ! the kernel killed %s process%s of the cgroup for lack of "
			      "memory\n",
			      ky_out_count(a, use->group.oom_kills.sum),
			      use->group.oom_kills.sum == 1 ? "" : "es");
		break;
	case KY_FOUND_MAJOR_FAULTS:
		ky_out_format(view->out,
			      "  ! %s major page faults in %s: threads waited for the disk "
			      "where they touched memory\n",
			      ky_out_count(a, use->major_faults.sum),
			      ky_out_duration(b, view->span_ns));
		break;
	case KY_FOUND_QUEUE_FULL:
		full_queues(view);
		break;
	case KY_FOUND_DESCRIPTORS:
		ky_out_format(view->out,
			      "  ! %s of %s descriptors are open: accept() and open() fail "
			      "beyond\n",
			      ky_out_count(a, use->fds.max), ky_out_count(b, use->fd_limit.last));
		break;
	default:
		break;
	}
}

static void print(struct use_view *view)
{
	const char *missing = ky_trace_metadata(view->trace, "resources.missing");
	const struct ky_resource_use *use = view->use;

	if (use->reading_count < FEW_READINGS)
		ky_out_text(view->out, "  Few readings: rates are averages over the whole time "
				       "between two of them\n");
	cpu(view);
	memory(view);
	counts(view);
	if (is_known(use->own_delay_permille)) {
		char cell[KY_OUT_CELL_BYTES];

		name(view, "Waits, workers");
		ky_out_format(view->out, "CPU %s of the time that they could run\n",
			      ky_out_permille(cell, use->own_delay_permille));
	}
	pressure(view, 0, "Waits, machine");
	pressure(view, 1, "Waits, cgroup");
	queues(view);
	for (uint32_t i = 0; i < KY_FOUND_COUNT; i++)
		if (view->use->findings & 1u << i)
			finding(view, i);
	if (missing && missing[0]) {
		ky_out_text(view->out, "  Not seen: ");
		ky_out_safe(view->out, missing, strlen(missing));
		ky_out_text(view->out, "\n");
	}
	ky_out_text(view->out, "\n");
}

void ky_resource_text(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_report *report, bool is_coloured)
{
	struct ky_resource_use *use;
	char cell[KY_OUT_CELL_BYTES], heading[96];
	struct use_view view = {.out = out, .trace = trace};

	/* Without memory there is no such part, as without readings. */
	if (ky_resource_use(trace, report->from_ns, report->to_ns, &use) || !use)
		return;
	view.use = use;
	view.span_ns = use->to_ns - use->from_ns;
	(void)snprintf(heading, sizeof(heading), "Resources, %u reading%s in %s",
		       use->reading_count, use->reading_count == 1 ? "" : "s",
		       ky_out_duration(cell, view.span_ns));
	ky_out_heading(out, is_coloured, heading);
	print(&view);
	ky_free(use);
}
