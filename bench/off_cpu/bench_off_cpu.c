/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What it costs to know what a poll waited for.
 *
 *     bench_off_cpu
 *
 * Prints one JSON object, nanoseconds of the processor: what a call of the C library that does not
 * block costs more, outside polls and inside one; an interval that is told with its stack; a look
 * at what the kernel has counted for a thread.
 */
#include <base/now.h>
#include <kymo/emit.h>
#include <kymo/off_cpu.h>
#include <kymo/recorder.h>
#include <proc/proc_reader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../adapters/tokio/blocking.h"
#include "../../adapters/tokio/waits.h"

#define KEPT __attribute__((noinline, used))
#define ROUNDS 20000u
#define SETS 15u
#define FRAMES 30u
#define FRAMES_MAX 128u
#define TABLES_SECONDS_MAX 20u

static int (*patched_flock)(int, int);
static uint64_t report_ticks;
static uint32_t frame_count;
static volatile uint32_t sink;

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

/* ---- calls ---- */

static double time_calls(int (*call)(int, int))
{
	uint64_t began_ns = now();

	for (uint32_t i = 0; i < ROUNDS; i++)
		(void)call(-1, LOCK_UN); /* there is no such descriptor */
	return (double)(now() - began_ns) / ROUNDS;
}

/* More than the call itself, side by side. */
static double added(uint32_t depth)
{
	double sets[SETS];

	for (uint32_t set = 0; set < SETS; set++) {
		double plain = time_calls(flock);

		ky_tokio_self.depth = depth;
		sets[set] = time_calls(patched_flock) - plain;
		ky_tokio_self.depth = 0;
	}
	return median(sets);
}

/* ---- intervals ---- */

static double emit(void)
{
	struct kymo_off_cpu wait = {
		.begin_ticks = 1, .end_ticks = 1 + report_ticks, .descriptor = -1};
	uint64_t frames[FRAMES_MAX];
	struct kymo_stack stack = {.frames = frames, .frames_max = FRAMES_MAX};
	double sets[SETS];

	KYMO_STACK_HERE(&wait.from);
	kymo_stack_capture(&stack, &wait.from);
	if (stack.end != KYMO_STACK_FIRST || stack.count != FRAMES)
		abort();
	kymo_stack_capture(&stack, &wait.from);
	if (stack.end != KYMO_STACK_FIRST || stack.count != FRAMES)
		abort();
	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < ROUNDS / 10; i++)
			if (!kymo_off_cpu_emit(&wait))
				abort();
		sets[set] = (double)(now() - began_ns) / (ROUNDS / 10.0);
	}
	return median(sets);
}

KEPT static double deeper(uint32_t depth)
{
	double result = depth > 0 ? deeper(depth - 1) : emit();

	sink++;
	return result;
}

/* The recorder's thread makes tables once somebody has asked. */
static uint32_t wait_for_tables(void)
{
	uint64_t frames[FRAMES_MAX];
	struct kymo_stack stack = {.frames = frames, .frames_max = FRAMES_MAX};
	struct kymo_stack_start start;

	for (uint32_t i = 0; i < TABLES_SECONDS_MAX * 100; i++) {
		KYMO_STACK_HERE(&start);
		kymo_stack_capture(&stack, &start);
		if (stack.end == KYMO_STACK_FIRST)
			return stack.count;
		usleep(10000);
	}
	fprintf(stderr, "no unwind tables within %u s\n", TABLES_SECONDS_MAX);
	exit(1);
}

/* ---- looks ---- */

static double time_readings(void)
{
	static struct ky_proc_reader reader;
	struct ky_thread_cpu cpu;
	double sets[SETS];

	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < ROUNDS / 100; i++)
			if (!ky_proc_reader_counts(&reader, (uint32_t)syscall(SYS_gettid), &cpu))
				abort();
		sets[set] = (double)(now() - began_ns) / (ROUNDS / 100.0);
	}
	ky_proc_reader_close(&reader);
	return median(sets);
}

int main(void)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	uintptr_t address = ky_tokio_wait_address(KY_TOKIO_GOT_CALL_flock);
	struct kymo_recorder *recorder;
	double outside, inside, reported;

	options.flags = KYMO_RECORDER_EAGER; /* flight mode: nothing is written */
	if (kymo_recorder_open(&recorder, &options) != 0) {
		fprintf(stderr, "the recorder could not be opened\n");
		return 1;
	}
	memcpy(&patched_flock, &address, sizeof(address));
	kymo_poll_begin(1, 0, KYMO_QUEUE_UNKNOWN);
	outside = added(0);
	inside = added(1);
	frame_count = wait_for_tables();
	report_ticks = 120 * kymo_off_cpu_ticks_min(); /* so long that none is left out */
	reported = deeper(FRAMES - frame_count - 2);
	kymo_poll_end(0);
	printf("{\"outside_ns\": %.2f, \"inside_ns\": %.2f, \"reported_ns\": %.1f, ", outside,
	       inside, reported);
	printf("\"check_ns\": %.0f}\n", time_readings());
	kymo_recorder_close(recorder);
	return 0;
}
