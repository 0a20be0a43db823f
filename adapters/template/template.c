/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What an adapter has: a function for each callback of the runtime, which says it to kymo by
 * emit.h; and a source, whose begin and end install them, with what is read from time to time. */
#include "template.h"

#include <errno.h>
#include <kymo/counter.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <kymo/source.h>
#include <string.h>

#include "toy_loop.h"

/* Any number that stays the same while the runtime lives, and is of no other one. */
#define RUNTIME 1u
#define WORKER 1u
#define LAUNCH (TOY_LOOP_TASKS_MAX + 1) /* the task that a worker itself is, where it is one */
#define SAMPLE_NS UINT64_C(10000000)

static uint32_t names[TOY_LOOP_TASKS_MAX + 1]; /* by task; 0: not known */
static uint32_t depth_counter;

/* A name is interned once, where the task is made: that takes a lock. */
static void spawned(uint32_t task, const char *name)
{
	names[task] = kymo_name_intern(name, strlen(name), 0, 0, 0);
	kymo_spawn(task, names[task]);
}

/* The calling thread is a worker of the runtime until ends(). */
static void begins(void)
{
	kymo_worker_begin(LAUNCH, 0, RUNTIME, WORKER);
}

static void ends(void)
{
	kymo_worker_end();
}

static void polls(uint32_t task, size_t depth)
{
	kymo_poll_begin(task, names[task], (uint32_t)depth);
}

static void polled(uint32_t task, bool is_done)
{
	(void)task;
	kymo_poll_end(is_done ? KYMO_POLL_READY : 0);
}

static void woken(uint32_t task)
{
	kymo_wake(task, 0, KYMO_WAKE_BY_VALUE);
}

static const struct toy_loop_hooks hooks = {begins, spawned, polls, polled, woken, ends};

/* ---- the source ---- */

/* On the thread that adds it: events that follow are recorded. */
static int begin(void *ctx)
{
	(void)ctx;
	depth_counter = kymo_counter_register("loop.depth", 0);
	if (!depth_counter)
		return KYMO_E_LIMIT;
	kymo_runtime_describe(RUNTIME, "toy", KYMO_RUNTIME_CURRENT_THREAD, 0);
	toy_loop_set_hooks(&hooks);
	return 0;
}

/* On the recorder's thread: only what another thread may read. */
static uint64_t sample(void *ctx, uint64_t now_ns)
{
	(void)ctx;
	(void)now_ns;
	kymo_counter_set(depth_counter, (int64_t)toy_loop_depth());
	return SAMPLE_NS;
}

/* Last: the runtime runs on without being recorded. */
static void end(void *ctx)
{
	(void)ctx;
	toy_loop_set_hooks(NULL);
}

int template_start(void)
{
	const struct kymo_event_source source = {sizeof(source), "toy", NULL, begin, sample, end};
	int number = kymo_event_source_add(&source);

	return number < 0 ? number : 0;
}
