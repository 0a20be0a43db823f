/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The stage of convert.c as its callers see it: opened and closed, and its parts. */
#include <drain/convert_stage.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define TASKS_DEFAULT (1u << 20)
#define TASKS_LIMIT (1u << 26)

int ky_convert_open(struct ky_convert **out, struct ky_drain_common *common,
		    const struct ky_drain_options *options)
{
	struct ky_convert *convert = ky_alloc(sizeof(*convert));
	uint32_t tasks = options->tracked_tasks_max ? options->tracked_tasks_max : TASKS_DEFAULT;
	int err;

	*out = convert;
	if (!convert)
		return -ENOMEM;
	convert->common = common;
	err = ky_chunk_init(&convert->chunk, &common->timeline);
	if (!err)
		err = ky_task_table_init(&convert->tasks,
					 tasks < TASKS_LIMIT ? tasks : TASKS_LIMIT);
	return err ? err : ky_retain_init(convert, options->retain);
}

void ky_convert_close(struct ky_convert *convert)
{
	if (!convert)
		return;
	ky_retain_release(convert);
	ky_task_table_release(&convert->tasks);
	ky_root_list_release(&convert->roots);
	ky_worker_release(&convert->workers);
	ky_chunk_release(&convert->chunk);
	ky_free(convert);
}

struct ky_open_chunk *ky_convert_chunk(struct ky_convert *convert)
{
	return &convert->chunk;
}

struct ky_worker_table *ky_convert_workers(struct ky_convert *convert)
{
	return &convert->workers;
}

struct ky_task_table *ky_convert_tasks(struct ky_convert *convert)
{
	return &convert->tasks;
}

struct ky_counter_news *ky_convert_counters(struct ky_convert *convert)
{
	return &convert->counters;
}

uint64_t ky_convert_merged_ns(const struct ky_convert *convert)
{
	return convert->merged_ns;
}

uint64_t ky_convert_late_wakes(const struct ky_convert *convert)
{
	return convert->late_wakes;
}

void ky_convert_take_sums(struct ky_convert *convert, struct ky_event_sums *out)
{
	*out = convert->sums;
	out->ready_count = convert->tasks.ready_count;
	out->alive_count = convert->tasks.count + convert->tasks.untracked_count;
	memset(&convert->sums, 0, sizeof(convert->sums));
}

bool ky_convert_was_short(struct ky_convert *convert)
{
	bool was_short = convert->is_out_of_memory || convert->common->runtimes.is_out_of_memory;

	convert->is_out_of_memory = convert->common->runtimes.is_out_of_memory = false;
	return was_short;
}
