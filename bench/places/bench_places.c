/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What await places cost: a clone of a waker inside a poll, whose chain is
 * recognized, and what a poll costs more once there is a table.
 *
 *     bench_places
 *     bench_places --loop bare|off|first|again TURNS
 *
 * Prints one JSON object of nanoseconds. A stand-in for Tokio is patched; recorder, ring and tables
 * are the real ones. --loop runs one kind of clone alone, for a counter of instructions.
 */
#include <base/now.h>
#include <kymo/recorder.h>
#include <record/emit/emit_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind/unwind_keeper.h>

#include "../../adapters/tokio/hooks.h"
#include "../../test/unit/tokio/fake_tokio.h"

#define KEPT __attribute__((noinline, noclone, used))
#define ROUNDS 20000u
#define SETS 9u
#define DEPTH 12u

enum what {
	CLONE_BARE,  /* the function that stood in the slot */
	CLONE_OFF,   /* gate shut */
	CLONE_FIRST, /* the first one of a poll */
	CLONE_AGAIN, /* another one of the same poll */
	WHAT_COUNT
};

static const char *const names[WHAT_COUNT] = {"bare", "off", "first", "again"};

static enum what what;
static double results[WHAT_COUNT];
static uint32_t rounds = ROUNDS;
static volatile uint32_t sink;

/* Of this thread's processor: the machine may be busy. */
static uint64_t now(void)
{
	return ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *values)
{
	qsort(values, SETS, sizeof(values[0]), by_size);
	return values[SETS / 2];
}

/* As fake_clone(), which goes through the slot. */
KEPT static void clone_bare(struct fake_task *task)
{
	struct ky_tokio_raw_waker waker = ky_tokio_wakers[0].clone(task);

	if (waker.words[0] != (uintptr_t)task || waker.words[1] != 17)
		abort();
}

KEPT static void clone_it(struct fake_task *task)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	double sets[SETS];

	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < rounds; i++) {
			if (what == CLONE_FIRST)
				self->place.poll.count = 0;
			what == CLONE_BARE ? clone_bare(task) : fake_clone(task);
		}
		sets[set] = (double)(now() - began_ns) / rounds;
	}
	results[what] = median(sets);
}

/* Callers that are not all the same one. */
#define LINK(n, next)                                                                              \
	KEPT static void link_##n(struct fake_task *task, uint32_t depth)                          \
	{                                                                                          \
		volatile uint8_t room[16 + 24 * n];                                                \
                                                                                                   \
		room[0] = 1;                                                                       \
		if (depth > 0)                                                                     \
			next(task, depth - 1);                                                     \
		else                                                                               \
			clone_it(task);                                                            \
		sink += room[0];                                                                   \
	}
KEPT static void link_0(struct fake_task *task, uint32_t depth);
LINK(1, link_0)
LINK(2, link_1)
LINK(3, link_2)
LINK(0, link_3)

static void body(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
	link_0(task, DEPTH - 2); /* with clone_it(), this and the poll itself: 15 frames */
}

static void idle(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
}

static void run(struct fake_task *task)
{
	task->state = (task->state | FAKE_NOTIFIED) & ~(uint64_t)FAKE_RUNNING;
	fake_poll(task);
}

static double polls(struct fake_task *task)
{
	double sets[SETS];

	fake_poll_body = idle;
	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < ROUNDS; i++)
			run(task);
		sets[set] = (double)(now() - began_ns) / ROUNDS;
	}
	return median(sets);
}

/* ---- tables of this process, in its own ring ---- */

static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	memcpy(ky_engine.ring->unwind + offset, bytes, count);
	return 0;
}

static int make_tables(void)
{
	struct ky_unwind_target target = {.pid = (uint32_t)getpid(),
					  .area_bytes = ky_engine.ring->unwind_bytes,
					  .write = put};
	struct ky_unwind_keeper *keeper;

	if (ky_unwind_keeper_open(&keeper, &target) != 0)
		return 1;
	atomic_store(&ky_engine.ring->header->unwind_ready, 1);
	return ky_unwind_keeper_scan(keeper) < 0;
}

static const uint64_t TASK = 41;

static void run_what(enum what next)
{
	struct fake_task task = fake_task(FAKE_MULTI, TASK);

	what = next;
	kymo_recorder_gates(what <= CLONE_OFF ? 0 : KYMO_GATE_PLACE,
			    what <= CLONE_OFF ? KYMO_GATE_PLACE : 0);
	fake_poll_body = body;
	run(&task);
}

static void print(double before, double after, double asleep)
{
	printf("{");
	for (uint32_t i = 0; i < WHAT_COUNT; i++)
		printf("\"clone_%s_ns\": %.2f, ", names[i], results[i]);
	printf("\"poll_before_ns\": %.2f, \"poll_after_ns\": %.2f, \"poll_off_ns\": %.2f}\n",
	       before, after, asleep);
}

static int measure_loop(const char *name, const char *turns)
{
	for (uint32_t i = 0; i < WHAT_COUNT; i++)
		if (strcmp(names[i], name) == 0) {
			rounds = 1;
			if (i >= CLONE_FIRST)
				run_what(CLONE_FIRST); /* walked */
			rounds = (uint32_t)strtoul(turns, NULL, 10);
			run_what((enum what)i);
			return 0;
		}
	return 2;
}

static void measure_all(struct fake_task *task)
{
	double before = polls(task), after;

	for (uint32_t i = 0; i < WHAT_COUNT; i++)
		run_what((enum what)i);
	after = polls(task);
	kymo_recorder_gates(0, UINT32_MAX);
	print(before, after, polls(task));
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct fake_task task = fake_task(FAKE_MULTI, TASK);
	struct kymo_recorder *recorder;
	char directory[] = "/tmp/kymo-bench-XXXXXX";
	int result = 0;

	options.flags = KYMO_RECORDER_NO_DRAIN;
	options.ring_directory = mkdtemp(directory);
	if (!options.ring_directory || kymo_recorder_open(&recorder, &options) != 0)
		return 1;
	fake_patch();
	fake_poll_body = idle;
	run(&task);
	if (make_tables() != 0)
		return 1;
	if (argc == 4 && strcmp(argv[1], "--loop") == 0)
		result = measure_loop(argv[2], argv[3]);
	else
		measure_all(&task);
	(void)unlink(ky_engine.ring->path);
	kymo_recorder_close(recorder);
	(void)rmdir(directory);
	return result;
}
