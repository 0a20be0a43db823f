/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a stack costs: captured by a function, captured by a signal handler, and making the tables.
 *
 *     bench_unwind [FILE...]
 *
 * Prints one JSON object: nanoseconds of a capture of 15 frames and of a frame more; of a signal
 * whose handler does nothing and of one whose handler captures 20 frames; for each FILE the
 * processor's time for its tables, their bytes and the bytes of code.
 */
#include <base/now.h>
#include <fcntl.h>
#include <record/sample/stack_walk.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_object.h>

#include "../../test/lib/own_tables.h"

#define KEPT __attribute__((noinline, used))
#define FRAMES_MAX 256u
#define ROUNDS 20000u
#define SETS 9u

static struct own_tables tables;
static uint64_t frames[FRAMES_MAX];
static struct ky_walk walk;
static uint32_t wanted_frames;
static volatile uint32_t sink;
static double result_ns;
static bool has_capture;

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

/* The innermost function: its own stack, again and again. */
static void measure_captures(void)
{
	struct kymo_stack_start start;
	double sets[SETS];

	KYMO_STACK_HERE(&start);
	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < ROUNDS; i++) {
			walk.frames = frames;
			walk.frames_max = wanted_frames;
			ky_stack_capture_by(&walk, &tables.view, &start, true);
		}
		sets[set] = (double)(now() - began_ns) / ROUNDS;
	}
	if (walk.count != wanted_frames)
		abort();
	result_ns = median(sets);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!has_capture)
		return;
	walk.frames = frames;
	walk.frames_max = wanted_frames;
	ky_stack_context_by(&walk, &tables.view, context, true);
}

static void measure_signals(void)
{
	long pid = getpid(), tid = syscall(SYS_gettid);
	double sets[SETS];

	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < ROUNDS / 4; i++)
			(void)syscall(SYS_tgkill, pid, tid, SIGUSR1);
		sets[set] = (double)(now() - began_ns) / (ROUNDS / 4.0);
	}
	result_ns = median(sets);
}

/* Callers that are not all the same one. */
#define LINK(n, next)                                                                              \
	KEPT static void link_##n(void (*work)(void), uint32_t depth)                              \
	{                                                                                          \
		volatile uint8_t room[16 + 24 * n];                                                \
                                                                                                   \
		room[0] = 1;                                                                       \
		if (depth > 0)                                                                     \
			next(work, depth - 1);                                                     \
		else                                                                               \
			work();                                                                    \
		sink += room[0];                                                                   \
	}
KEPT static void link_0(void (*work)(void), uint32_t depth);
LINK(1, link_0)
LINK(2, link_1)
LINK(3, link_2)
LINK(4, link_3)
LINK(5, link_4)
LINK(6, link_5)
LINK(7, link_6)
LINK(0, link_7)

static double run(void (*work)(void), uint32_t count)
{
	wanted_frames = count;
	link_0(work, count);
	return result_ns;
}

static int drop(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	uint64_t *written = ctx;

	(void)offset;
	(void)bytes;
	*written += count;
	return 0;
}

static void measure_file(const char *path, bool is_first)
{
	static struct ky_unwind_object object;
	static struct ky_unwind_builder builder;
	struct ky_unwind_built built;
	uint64_t began_ns, start = 0, end = 0, written = 0;
	struct rusage usage;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ky_unwind_object_init(&object, ky_unwind_read_file, &fd, false, 0) != 0)
		exit(2);
	for (uint32_t i = 0; i < object.segment_count; i++) {
		const struct ky_unwind_segment *segment = &object.segments[i];

		if (!segment->is_code)
			continue;
		start = end ? start : segment->address;
		end = segment->address + segment->memory_bytes;
	}
	began_ns = now();
	if (ky_unwind_build(&builder, &object.source, start, end, 65536, UINT64_MAX / 2, drop,
			    &written, &built) != 0)
		exit(2);
	began_ns = now() - began_ns;
	getrusage(RUSAGE_SELF, &usage);
	printf("%s{\"file\": \"%s\", \"ms\": %.1f, \"bytes\": %llu, \"code_bytes\": %llu, "
	       "\"functions\": %u, \"unknown\": %u, \"peak_kib\": %ld}",
	       is_first ? "" : ", ", path, (double)began_ns / 1e6, (unsigned long long)written,
	       (unsigned long long)(end - start), built.function_count, built.unknown_count,
	       usage.ru_maxrss);
	close(fd);
}

int main(int count, char **arguments)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	double few, many, empty, whole;

	if (own_tables_open(&tables) != 0)
		return 1;
	few = run(measure_captures, 15);
	many = run(measure_captures, 65);
	sigaction(SIGUSR1, &action, NULL);
	empty = run(measure_signals, 20);
	has_capture = true;
	whole = run(measure_signals, 20);
	if (walk.count != 20)
		return 1;
	printf("{\"capture_15_ns\": %.0f, \"frame_ns\": %.1f, \"empty_signal_ns\": %.0f, "
	       "\"signal_20_ns\": %.0f, \"files\": [",
	       few, (many - few) / 50, empty, whole);
	for (int i = 1; i < count; i++)
		measure_file(arguments[i], i == 1);
	printf("]}\n");
	return 0;
}
