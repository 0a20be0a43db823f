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

static const struct toy_loop_hooks *told_now(void)
{
	return atomic_load_explicit(&hooks, memory_order_acquire);
}

void toy_loop_set_hooks(const struct toy_loop_hooks *wanted)
{
	atomic_store_explicit(&hooks, wanted, memory_order_release);
}

size_t toy_loop_depth(void)
{
	return atomic_load_explicit(&depth, memory_order_relaxed);
}

void toy_loop_wake(uint32_t task)
{
	const struct toy_loop_hooks *told = told_now();

	if (!task || task > task_count || !tasks[task - 1].fn)
		return;
	if (told)
		told->woken(task);
	if (tasks[task - 1].is_woken)
		return;
	tasks[task - 1].is_woken = true;
	queue[(first + atomic_fetch_add_explicit(&depth, 1, memory_order_relaxed)) %
	      TOY_LOOP_TASKS_MAX] = task;
}

uint32_t toy_loop_spawn(const char *name, toy_loop_fn fn, void *ctx)
{
	const struct toy_loop_hooks *told = told_now();

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
	const struct toy_loop_hooks *told = told_now();

	if (told)
		told->begins();
	while (toy_loop_depth()) {
		uint32_t task = queue[first];
		struct task *next = &tasks[task - 1];
		bool is_done;

		first = (first + 1) % TOY_LOOP_TASKS_MAX;
		atomic_fetch_sub_explicit(&depth, 1, memory_order_relaxed);
		next->is_woken = false;
		told = told_now();
		if (told)
			told->polls(task, toy_loop_depth());
		is_done = next->fn(next->ctx, task);
		if (told)
			told->polled(task, is_done);
		if (is_done)
			next->fn = NULL;
	}
	told = told_now();
	if (told)
		told->ends();
}
