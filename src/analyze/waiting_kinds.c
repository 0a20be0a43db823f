/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* How long tasks of each name waited, by their polls, and how much of it has an await point. */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>

struct waiting_task {
	uint32_t name;
	uint64_t ns, known_ns;
};

static bool is_name_before(const void *a, const void *b, const void *ctx)
{
	const struct waiting_task *one = a, *other = b;

	(void)ctx;
	return one->name < other->name;
}

static bool is_longer(const void *a, const void *b, const void *ctx)
{
	const struct ky_waiting_kind *one = a, *other = b;

	(void)ctx;
	return one->ns != other->ns ? one->ns > other->ns : one->name < other->name;
}

/* Of one of the points that a task waits at, and not of samples. */
static bool is_counted(const struct ky_stack_row *row)
{
	return row->kind == KY_STACK_PLACE && row->task != KY_NONE && row->stack != KY_NONE &&
	       ky_place_has_time(row) && row->reason != KY_PLACE_CAPTURED;
}

static void fill(struct waiting_task *tasks, const struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->task_count; i++) {
		tasks[i].name = trace->tasks[i].name;
		tasks[i].ns = trace->tasks[i].long_wait_ns;
	}
	for (uint32_t i = 0; i < trace->samples.row_count; i++)
		if (is_counted(&trace->samples.rows[i]))
			tasks[trace->samples.rows[i].task].known_ns += trace->samples.rows[i].value;
	/* Polls inside polls are in no worker's list; their waits are known by the points alone. */
	for (uint32_t i = 0; i < trace->task_count; i++)
		if (tasks[i].ns < tasks[i].known_ns)
			tasks[i].ns = tasks[i].known_ns;
}

int ky_waiting_kinds_make(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	struct waiting_task *tasks;
	uint32_t count = 0, at = 0;

	/* The polls' sums are of the whole trace. */
	if (profile->from_ns > 0 || profile->to_ns != UINT64_MAX)
		return 0;
	tasks = ky_alloc(((size_t)trace->task_count + 1) * sizeof(*tasks));
	if (!tasks)
		return -ENOMEM;
	fill(tasks, trace);
	ky_sort(tasks, trace->task_count, sizeof(*tasks), is_name_before, NULL);
	for (uint32_t i = 0; i < trace->task_count; i++)
		count += i == 0 || tasks[i].name != tasks[i - 1].name;
	profile->waiting_kinds = ky_alloc(((size_t)count + 1) * sizeof(*profile->waiting_kinds));
	if (!profile->waiting_kinds) {
		ky_free(tasks);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < trace->task_count; i++) {
		struct ky_waiting_kind *kind;

		at += i > 0 && tasks[i].name != tasks[i - 1].name;
		kind = &profile->waiting_kinds[at];
		kind->name = tasks[i].name;
		kind->task_count += tasks[i].ns > 0;
		kind->ns += tasks[i].ns;
		kind->known_ns += tasks[i].known_ns;
		profile->waited_ns += tasks[i].ns;
		profile->waited_known_ns += tasks[i].known_ns;
	}
	ky_free(tasks);
	ky_sort(profile->waiting_kinds, count, sizeof(*profile->waiting_kinds), is_longer, NULL);
	while (count > 0 && !profile->waiting_kinds[count - 1].ns)
		count--;
	profile->waiting_kind_count = count;
	return 0;
}
