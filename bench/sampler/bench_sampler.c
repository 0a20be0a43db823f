/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_sampler DIR - what one sample of the fallback source costs its thread: the very handler
 * that CPU-time timers call, from the signal to the return, with FRAMES frames, beside an empty
 * handler.
 *
 * A tick of the real timer is kept, and sent to ourselves again and again as it came. DIR: for the
 * ring. Prints one JSON object. */
#include <base/now.h>
#include <kymo/kymo.h>
#include <kymo/place.h>
#include <kymo/stack.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, used))
#define FRAMES 20u
#define FILES 8u
#define DEPTH_MAX 40u
#define ROUNDS 4000u
#define SETS 15u

static siginfo_t tick;
static volatile sig_atomic_t has_tick;
static volatile uint32_t sink;
static uint32_t frame_count;
static double empty_ns, sample_ns;
static struct sigaction sampler;
static uint32_t name;

static void on_first_tick(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code != SI_TIMER || has_tick)
		return;
	tick = *info;
	has_tick = 1;
}

static void on_count(int number, siginfo_t *info, void *context)
{
	uint64_t frames[64];
	struct kymo_stack stack = {.frames = frames, .frames_max = 64};

	(void)number;
	(void)info;
	kymo_stack_capture_context(&stack, context);
	frame_count = stack.end == KYMO_STACK_FIRST ? stack.count : 0;
}

static void on_nothing(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
}

static void handle_by(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler,
				   .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	sigaction(SIGPROF, &action, NULL);
}

static void send_ticks(uint32_t count)
{
	long pid = getpid(), tid = syscall(SYS_gettid);

	while (count--)
		(void)syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGPROF, &tick);
}

static void count_frames(void)
{
	handle_by(on_count);
	send_ticks(1);
}

/* Of this thread's processor: the machine may be busy. */
static double timed_ns(void)
{
	uint64_t began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	send_ticks(ROUNDS);
	return (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) / ROUNDS;
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

static void measure(void)
{
	double empty[SETS], sample[SETS];

	count_frames();
	for (uint32_t i = 0; i < SETS; i++) {
		handle_by(on_nothing);
		empty[i] = timed_ns();
		sigaction(SIGPROF, &sampler, NULL);
		sample[i] = timed_ns();
	}
	empty_ns = median(empty);
	sample_ns = median(sample);
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
LINK(0, link_3)

static void poll_once(void)
{
	kymo_poll_begin(1, name, KYMO_QUEUE_UNKNOWN);
	kymo_poll_end(0);
}

/* Or the library would not fall back: its events may have a quarter of these. */
static int deny_perf(void)
{
	const struct rlimit few = {FILES, FILES};

	return setrlimit(RLIMIT_NOFILE, &few);
}

static int open_recorder(struct kymo_recorder **out, const char *directory)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	int err;

	options.ring_directory = directory;
	options.sample_hz = 1; /* so that hardly any tick comes by itself */
	err = kymo_recorder_open(out, &options);
	if (err)
		return err;
	name = kymo_name_intern("bench::task", 11, 0, 0, 0);
	poll_once();
	return 0;
}

/* The timer's first tick, and the tables of the library's own thread. */
static bool get_ready(void)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	uint64_t begin_ns;

	/* The library's thread tries perf_event first, and tells the others. */
	for (int i = 0; i < 500 && !(sampler.sa_flags & SA_SIGINFO); i++) {
		nanosleep(&pause, NULL);
		poll_once();
		sigaction(SIGPROF, NULL, &sampler);
	}
	if (!(sampler.sa_flags & SA_SIGINFO))
		return false;
	handle_by(on_first_tick);
	begin_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (!has_tick && ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns < UINT64_C(3000000000))
		sink++;
	count_frames(); /* the first stack that is wanted makes somebody make tables */
	for (int i = 0; i < 500 && !kymo_place_is_ready((uintptr_t)&link_0); i++)
		nanosleep(&pause, NULL);
	return has_tick && kymo_place_is_ready((uintptr_t)&link_0);
}

int main(int argc, char **argv)
{
	struct kymo_recorder *recorder;
	uint32_t depth = 0;

	if (argc != 2 || deny_perf() || open_recorder(&recorder, argv[1]) != 0)
		return 1;
	if (!get_ready()) {
		fprintf(stderr, "bench_sampler: no timer, or no tables\n");
		return 1;
	}
	do
		link_0(count_frames, depth++);
	while (frame_count && frame_count < FRAMES && depth < DEPTH_MAX);
	/* measure() has another frame than count_frames(), which it calls first. */
	link_0(measure, depth - 1 - (frame_count >= FRAMES));
	if (frame_count != FRAMES) {
		fprintf(stderr, "bench_sampler: %u frames\n", frame_count);
		return 1;
	}
	printf("{\"frames\": %u, \"empty_ns\": %.0f, \"sample_ns\": %.0f}\n", frame_count, empty_ns,
	       sample_ns);
	return kymo_recorder_close(recorder) ? 1 : 0;
}
