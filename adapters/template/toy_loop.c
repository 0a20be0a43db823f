/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "toy_loop.h"

#include <stdatomic.h>

struct task {
	toy_loop_fn fn; /* NULL: done */
	void *ctx;
	bool is_woken;
};

static struct task tasks[TOY_LOOP_TASKS_MAX];
static uint32_t task_count;
static uint32_t queue[TOY_LOOP_TASKS_MAX];
static uint32_t first;
static atomic_size_t depth;
static const struct toy_loop_hooks *_Atomic hooks;

void toy_loop_set_hooks(const struct toy_loop_hooks *wanted)
{
	hooks = wanted;
}

size_t toy_loop_depth(void)
{
	return depth;
}

void toy_loop_wake(uint32_t task)
{
	const struct toy_loop_hooks *told = hooks;

	if (!task || task > task_count || !tasks[task - 1].fn)
		return;
	if (told)
		told->woken(task);
	if (tasks[task - 1].is_woken)
		return;
	tasks[task - 1].is_woken = true;
	queue[(first + depth++) % TOY_LOOP_TASKS_MAX] = task;
}

uint32_t toy_loop_spawn(const char *name, toy_loop_fn fn, void *ctx)
{
	const struct toy_loop_hooks *told = hooks;

	if (task_count == TOY_LOOP_TASKS_MAX)
		return 0;
	tasks[task_count++] = (struct task){fn, ctx, false};
	if (told)
		told->spawned(task_count, name);
	toy_loop_wake(task_count);
	return task_count;
}

void toy_loop_run(void)
{
	const struct toy_loop_hooks *told = hooks;

	if (told)
		told->begins();
	while (depth) {
		uint32_t task = queue[first];
		struct task *next = &tasks[task - 1];
		bool is_done;

		first = (first + 1) % TOY_LOOP_TASKS_MAX;
		depth--;
		next->is_woken = false;
		told = hooks;
		if (told)
			told->polls(task, depth);
		is_done = next->fn(next->ctx, task);
		if (told)
			told->polled(task, is_done);
		if (is_done)
			next->fn = NULL;
	}
	told = hooks;
	if (told)
		told->ends();
}
