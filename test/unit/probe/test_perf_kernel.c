/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_event on a child that burns what it is asked to: counts and weights, never wall time. */
#include "../../lib/burn.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <pthread.h>
#include <probe/perf_source.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define RATE 500u
#define DOZES 50u
#define MARKS 384u
#define MARK(i) (UINT64_C(0x6b796d6f00000000) | (i))

struct burner {
	pid_t pid;
	int to, from;
};

struct tally {
	pid_t pid;
	uint64_t count, weight_ns, with_stack, foreign;
	uint64_t tids[8];
	uint32_t tid_count;
};

static struct {
	_Atomic uint64_t pauses;
} * burnt; /* by the child; in shared memory */
static pthread_barrier_t both;

static void burn(uint64_t ns)
{
	atomic_fetch_add(&burnt->pauses, test_burn(ns));
}

static void *burn_in_thread(void *ctx)
{
	burn(*(uint64_t *)ctx);
	return NULL;
}

static void doze(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (uint32_t i = 0; i < DOZES; i++)
		nanosleep(&pause, NULL);
}

static void *burn_in_place(void *ctx)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	assert_int_equal(sched_setaffinity(0, sizeof(first), &first), 0);
	pthread_barrier_wait(&both);
	return burn_in_thread(ctx);
}

/* 'b': burns 100 ms; 't': so do two threads made for it; 'c': they do on one CPU; 's': sleeps
 * DOZES times; anything else: ends. Its marks would lie on the address sanitizer's own stack. */
__attribute__((no_sanitize_address)) static void serve(int in, int out)
{
	volatile uint64_t marks[MARKS]; /* on the stack below which it burns */
	uint64_t ns = 100 * MS;
	pthread_t threads[2];
	char word;

	for (uint32_t i = 0; i < MARKS; i++)
		marks[i] = MARK(i);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_barrier_init(&both, NULL, 2);
	while (read(in, &word, 1) == 1) {
		if (word == 't' || word == 'c') {
			for (int i = 0; i < 2; i++)
				pthread_create(&threads[i], NULL,
					       word == 'c' ? burn_in_place : burn_in_thread, &ns);
			for (int i = 0; i < 2; i++)
				pthread_join(threads[i], NULL);
		} else if (word == 'b') {
			burn(ns);
		} else if (word == 's') {
			doze();
		} else {
			break;
		}
		if (write(out, &word, 1) != 1)
			break;
	}
	_exit(marks[0] != MARK(0));
}

static void start(struct burner *burner)
{
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	if (!burnt)
		burnt = mmap(NULL, sizeof(*burnt), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true((void *)burnt != MAP_FAILED);
	atomic_store(&burnt->pauses, 0);
	burner->pid = fork();
	assert_true(burner->pid >= 0);
	if (!burner->pid) {
		close(to[1]);
		serve(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	burner->to = to[1];
	burner->from = from[0];
}

static void report(struct burner *burner, char word)
{
	assert_int_equal(write(burner->to, &word, 1), 1);
	assert_int_equal(read(burner->from, &word, 1), 1);
}

static void stop(struct burner *burner)
{
	close(burner->to);
	close(burner->from);
	assert_int_equal(waitpid(burner->pid, NULL, 0), burner->pid);
}

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct tally *tally = ctx;

	tally->count++;
	tally->foreign += sample->pid != (uint32_t)tally->pid;
	tally->weight_ns += sample->period_ns;
	tally->with_stack += sample->has_registers && sample->stack_bytes > 64;
	for (uint32_t i = 0; i < tally->tid_count; i++)
		if (tally->tids[i] == sample->tid)
			return;
	if (tally->tid_count < 8)
		tally->tids[tally->tid_count++] = sample->tid;
}

/* What the ends of slices may bring: one sample each. */
static uint64_t pauses_ns(void)
{
	return atomic_load(&burnt->pauses) * (UINT64_C(1000000000) / RATE);
}

static struct ky_perf *open_or_skip(const struct burner *burner, uint32_t rate_hz,
				    uint32_t stack_bytes, uint32_t ring_bytes_max)
{
	struct ky_perf_options options = {.rate_hz = rate_hz,
					  .stack_bytes = stack_bytes,
					  .ring_bytes_max = ring_bytes_max,
					  .has_kernel = true};
	struct ky_perf *perf;
	int err = ky_perf_test(&options);

	if (err) {
		print_message("# perf_event yields nothing here: %s\n", strerror(-err));
		skip();
	}
	assert_int_equal(ky_perf_open(&perf, &options, burner->pid), 0);
	return perf;
}

/* A burner, what samples it, and nothing counted yet. */
static struct ky_perf *begin_in(struct burner *burner, struct tally *tally, uint32_t rate_hz,
				uint32_t stack_bytes, uint32_t ring_bytes_max)
{
	struct ky_perf *perf;

	start(burner);
	perf = open_or_skip(burner, rate_hz, stack_bytes, ring_bytes_max);
	memset(tally, 0, sizeof(*tally));
	tally->pid = burner->pid;
	return perf;
}

static struct ky_perf *begin(struct burner *burner, struct tally *tally, uint32_t rate_hz,
			     uint32_t stack_bytes)
{
	return begin_in(burner, tally, rate_hz, stack_bytes, 0);
}

static void perf__samples_stand_for_the_time_that_was_burnt(void **state)
{
	struct burner burner;
	struct ky_perf_about about;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, RATE, 4096);
	for (int i = 0; i < 5; i++) {
		report(&burner, 'b');
		(void)ky_perf_read(perf, on_sample, &tally);
	}
	ky_perf_about(perf, &about);
	assert_int_equal(about.sample_count, tally.count);
	assert_int_equal(tally.foreign, 0);
	assert_int_equal(tally.weight_ns, tally.count * (UINT64_C(1000000000) / RATE));
	/* 500 ms of CPU time; a period at each end of a slice may be cut. */
	assert_in_range(tally.weight_ns + about.lost_count * 2 * MS, 400 * MS,
			600 * MS + pauses_ns());
	assert_true(tally.with_stack >= tally.count - 2);
	ky_perf_close(perf);
	stop(&burner);
}

static void perf__threads_made_later_are_sampled_too(void **state)
{
	struct burner burner;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, RATE, 1024);
	report(&burner, 't');
	(void)ky_perf_read(perf, on_sample, &tally);
	assert_true(tally.tid_count >= 2);
	/* Valgrind's own work is the threads', too. */
	assert_in_range(tally.weight_ns, 120 * MS,
			(test_is_under_valgrind() ? 1000 * MS : 280 * MS) + pauses_ns());
	ky_perf_close(perf);
	stop(&burner);
}

static void perf__pause_stops_sampling(void **state)
{
	struct burner burner;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, RATE, 1024);
	report(&burner, 't');
	assert_int_equal(ky_perf_pause(perf, true), 0);
	(void)ky_perf_read(perf, on_sample, &tally);
	assert_true(tally.count > 0);
	tally.count = 0;
	report(&burner, 'b');
	report(&burner, 't'); /* threads made meanwhile are not sampled either */
	(void)ky_perf_read(perf, on_sample, &tally);
	assert_int_equal(tally.count, 0);
	assert_int_equal(ky_perf_pause(perf, false), 0);
	atomic_store(&burnt->pauses, 0);
	report(&burner, 'b');
	(void)ky_perf_read(perf, on_sample, &tally);
	assert_in_range(tally.count, 25, 75 + atomic_load(&burnt->pauses));
	ky_perf_close(perf);
	stop(&burner);
}

/* A ring that is not read: what the kernel had no room for is counted. */
static void perf__what_has_no_room_is_counted(void **state)
{
	struct burner burner;
	struct ky_perf_about about;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, 5000, 49152);
	report(&burner, 'c'); /* on one CPU: a ring reports its own loss */
	(void)ky_perf_read(perf, on_sample, &tally);
	report(&burner, 'c'); /* the loss is reported with the next sample that has room */
	(void)ky_perf_read(perf, on_sample, &tally);
	ky_perf_about(perf, &about);
	assert_true(about.lost_count > 0);
	ky_perf_close(perf);
	stop(&burner);
}

/* What no later sample reports: the events have it, of kernels from 6.0 on. */
static void perf__what_had_no_room_at_the_end_is_counted(void **state)
{
	struct ky_perf_about reported, asked;
	struct burner burner;
	struct utsname system;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, 5000, 49152);
	report(&burner, 't');
	assert_int_equal(ky_perf_pause(perf, true), 0);
	(void)ky_perf_read(perf, on_sample, &tally);
	ky_perf_about(perf, &reported);
	ky_perf_count_lost(perf);
	ky_perf_about(perf, &asked);
	assert_int_equal(uname(&system), 0);
	if (strtoul(system.release, NULL, 10) >= 6)
		assert_true(asked.lost_count > reported.lost_count);
	else
		assert_int_equal(asked.lost_count, reported.lost_count);
	ky_perf_close(perf);
	stop(&burner);
}

static void on_marked(void *ctx, const struct ky_perf_sample *sample)
{
	const uint64_t *words = (const uint64_t *)(const void *)sample->stack;
	uint32_t count = sample->stack_bytes / 8, first = 0, marks = 0;
	struct tally *tally = ctx;

	tally->count++;
	while (first < count && words[first] != MARK(0))
		first++;
	while (first + marks < count && marks < MARKS && words[first + marks] == MARK(marks))
		marks++;
	/* One after the other, up to the copy's end at least. */
	tally->with_stack += marks > 0;
	tally->foreign += marks > 0 && marks < MARKS && first + marks < count;
}

/* Some fifteen records fill a ring, so that each round has one that wraps at its end: mostly in the
 * middle of the marks. */
static void perf__stacks_are_whole_wherever_they_lie_in_the_ring(void **state)
{
	struct ky_perf_about about;
	struct burner burner;
	struct ky_perf *perf;
	struct tally tally;

	(void)state;
	perf = begin_in(&burner, &tally, 100, 4096, 65536);
	for (int i = 0; i < 8; i++) {
		report(&burner, 'b');
		(void)ky_perf_read(perf, on_marked, &tally);
	}
	ky_perf_about(perf, &about);
	assert_true(tally.count > 3 * about.ring_bytes / about.record_bytes);
	/* What runs then is valgrind itself, on a stack of its own. */
	assert_true(tally.with_stack >= tally.count / 2 || test_is_under_valgrind());
	assert_int_equal(tally.foreign, 0);
	ky_perf_close(perf);
	stop(&burner);
}

static jmp_buf away;

static void leave_by_jump(void *ctx, const struct ky_perf_sample *sample)
{
	(void)sample;
	((struct tally *)ctx)->count++;
	longjmp(away, 1);
}

/* As where the ring that it would be put into has gone: the next one is met, not this one. */
static void perf__a_sample_that_is_left_by_a_jump_is_lost_alone(void **state)
{
	struct ky_perf_about before, after;
	struct burner burner;
	struct ky_perf *perf;
	static struct tally tally;

	(void)state;
	perf = begin(&burner, &tally, RATE, 4096);
	report(&burner, 'b');
	ky_perf_about(perf, &before);
	if (!setjmp(away))
		(void)ky_perf_read(perf, leave_by_jump, &tally);
	assert_int_equal(tally.count, 1);
	assert_true(ky_perf_read(perf, on_sample, &tally) > 0);
	ky_perf_about(perf, &after);
	assert_int_equal(after.sample_count - before.sample_count, tally.count);
	assert_int_equal(after.lost_count - before.lost_count, 1);
	ky_perf_close(perf);
	stop(&burner);
}

struct switches {
	pid_t pid;
	uint32_t counts[KY_SWITCH_FAULT + 1], foreign;
	uint32_t first[KY_SWITCH_FAULT + 1]; /* of its first thread */
};

static void on_switch(void *ctx, const struct ky_perf_switch *what)
{
	struct switches *switches = ctx;

	switches->foreign += what->pid != (uint32_t)switches->pid || !what->tid || !what->ns;
	switches->counts[what->kind]++;
	switches->first[what->kind] += what->tid == (uint32_t)switches->pid;
}

/* Opened by threads that are there, and paused. */
static struct ky_perf *begin_switches(struct burner *burner, struct switches *switches)
{
	struct ky_perf_options options = {.is_switches = true, .has_kernel = true};
	struct ky_perf *perf = NULL;
	uint64_t cost_ns;
	int err;

	start(burner);
	err = ky_perf_test_switches(&options, &cost_ns);
	if (err) {
		print_message("# perf_event reports no switches here: %s\n", strerror(-err));
		skip();
	}
	print_message("# a record takes %u ns\n", (unsigned int)cost_ns);
	assert_in_range(cost_ns, 100, 10000);
	assert_int_equal(ky_perf_add_all(&perf, &options, burner->pid), 0);
	assert_non_null(perf);
	memset(switches, 0, sizeof(*switches));
	switches->pid = burner->pid;
	return perf;
}

struct given_up {
	uint64_t freely, preempted;
};

static uint64_t status_count(const char *text, const char *name)
{
	const char *count = strstr(text, name);

	assert_non_null(count);
	return strtoull(strchr(count, ':') + 1, NULL, 10);
}

/* Once it waits for a word: how often it has left its CPU, as the kernel counts it. */
static struct given_up times_given_up(const struct burner *burner)
{
	char path[64], text[3072] = "running";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)burner->pid);
	while (strncmp(text, "running", 7) == 0) {
		file = fopen(path, "re");
		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		(void)fclose(file);
	}
	snprintf(path, sizeof(path), "/proc/%d/status", (int)burner->pid);
	file = fopen(path, "re");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	(void)fclose(file);
	return (struct given_up){status_count(text, "\nvoluntary_ctxt_switches:"),
				 status_count(text, "\nnonvoluntary_ctxt_switches:")};
}

static void perf__each_sleep_is_two_switches(void **state)
{
	struct ky_perf_about about;
	struct switches switches;
	struct burner burner;
	struct ky_perf *perf;
	struct given_up before, after;
	uint64_t given_up;

	(void)state;
	perf = begin_switches(&burner, &switches);
	report(&burner, 's');
	assert_int_equal(ky_perf_read_switches(perf, on_switch, &switches), 0);
	before = times_given_up(&burner);
	assert_int_equal(ky_perf_pause(perf, false), 0);
	report(&burner, 's');
	after = times_given_up(&burner);
	given_up = after.freely - before.freely;
	(void)ky_perf_read_switches(perf, on_switch, &switches);
	assert_int_equal(switches.foreign, 0);
	/* On a machine that is held up a moment may be over before it has begun. */
	assert_true(given_up > DOZES / 2);
	/* Preempted on its way into a sleep it is a sleeper to perf_event, and not to status. */
	assert_in_range(switches.first[KY_SWITCH_OUT], given_up,
			given_up + after.preempted - before.preempted);
	assert_true(switches.first[KY_SWITCH_IN] >= given_up);
	assert_int_equal(ky_perf_pause(perf, true), 0);
	(void)ky_perf_read_switches(perf, on_switch, &switches);
	memset(switches.counts, 0, sizeof(switches.counts));
	report(&burner, 's');
	assert_int_equal(ky_perf_read_switches(perf, on_switch, &switches), 0);
	ky_perf_about(perf, &about);
	assert_int_equal(about.lost_count, 0);
	ky_perf_close(perf);
	stop(&burner);
}

static void perf__runnable_thread_is_switched_out_as_preempted(void **state)
{
	struct switches switches;
	struct burner burner;
	struct ky_perf *perf;

	(void)state;
	perf = begin_switches(&burner, &switches);
	assert_int_equal(ky_perf_pause(perf, false), 0);
	report(&burner, 'c');
	(void)ky_perf_read_switches(perf, on_switch, &switches);
	assert_int_equal(switches.foreign, 0);
	/* Two threads of 100 ms each take turns. */
	assert_true(switches.counts[KY_SWITCH_PREEMPTED] >= 4);
	ky_perf_close(perf);
	stop(&burner);
}

static void perf__invalid_options_are_refused(void **state)
{
	struct ky_perf_options options = {.rate_hz = 99, .stack_bytes = 4095};
	struct ky_perf *perf;

	(void)state;
	assert_int_equal(ky_perf_open(&perf, &options, getpid()), -EINVAL);
	assert_null(perf);
	options.stack_bytes = 65536;
	assert_int_equal(ky_perf_open(&perf, &options, getpid()), -EINVAL);
	ky_perf_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(perf__samples_stand_for_the_time_that_was_burnt),
		cmocka_unit_test(perf__threads_made_later_are_sampled_too),
		cmocka_unit_test(perf__pause_stops_sampling),
		cmocka_unit_test(perf__what_has_no_room_is_counted),
		cmocka_unit_test(perf__what_had_no_room_at_the_end_is_counted),
		cmocka_unit_test(perf__stacks_are_whole_wherever_they_lie_in_the_ring),
		cmocka_unit_test(perf__a_sample_that_is_left_by_a_jump_is_lost_alone),
		cmocka_unit_test(perf__each_sleep_is_two_switches),
		cmocka_unit_test(perf__runnable_thread_is_switched_out_as_preempted),
		cmocka_unit_test(perf__invalid_options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
