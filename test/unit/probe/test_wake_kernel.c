/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Wake-ups of threads of this process, where the kernel reports them. */
#include "../../lib/cmocka_all.h"

#include <base/now.h>
#include <pthread.h>
#include <probe/wake_source.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAKES 20u

struct sleeper {
	pthread_t thread;
	_Atomic uint32_t tid;
	int to[2], from[2];
};

static void *answer(void *ctx)
{
	struct sleeper *sleeper = ctx;
	char byte;

	atomic_store(&sleeper->tid, (uint32_t)syscall(SYS_gettid));
	while (read(sleeper->to[0], &byte, 1) == 1)
		assert_int_equal(write(sleeper->from[1], &byte, 1), 1);
	return NULL;
}

static void begin_sleeper(struct sleeper *sleeper)
{
	assert_int_equal(pipe(sleeper->to), 0);
	assert_int_equal(pipe(sleeper->from), 0);
	assert_int_equal(pthread_create(&sleeper->thread, NULL, answer, sleeper), 0);
	while (!atomic_load(&sleeper->tid))
		;
}

/* Until it waits in its read, no thread wakes it. */
static void wait_for_wait(const struct sleeper *sleeper)
{
	char path[64], text[64];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", sleeper->tid);
	do {
		file = fopen(path, "re");
		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		(void)fclose(file);
	} while (strncmp(text, "running", 7) == 0);
}

static void wake(struct sleeper *sleeper)
{
	char byte = 'x';

	wait_for_wait(sleeper);
	assert_int_equal(write(sleeper->to[1], &byte, 1), 1);
	assert_int_equal(read(sleeper->from[0], &byte, 1), 1);
}

static void end_sleeper(struct sleeper *sleeper)
{
	close(sleeper->to[1]);
	pthread_join(sleeper->thread, NULL);
	close(sleeper->to[0]);
	close(sleeper->from[0]);
	close(sleeper->from[1]);
}

struct seen {
	uint32_t target, waker;
	uint32_t by_waker, by_interrupt, others;
	uint64_t first_ns, last_ns;
};

static void on_wake(void *ctx, const struct ky_perf_switch *what)
{
	struct seen *seen = ctx;

	if (what->tid != seen->target)
		return;
	assert_int_equal(what->kind, KY_SWITCH_WOKEN);
	if (what->is_by_interrupt)
		seen->by_interrupt++;
	else if (what->by_tid == seen->waker && what->by_pid == (uint32_t)getpid())
		seen->by_waker++;
	else
		seen->others++;
	seen->first_ns = seen->first_ns ? seen->first_ns : what->ns;
	seen->last_ns = what->ns;
}

static struct ky_wakes *open_or_skip(void)
{
	struct ky_wakes *wakes;
	int err = ky_wakes_open(&wakes);

	if (!err)
		return wakes;
	print_message("# no wake-ups are reported here: %s\n", strerror(-err));
	skip();
	return NULL;
}

static void wakes__each_is_reported_with_its_waker(void **state)
{
	struct ky_wakes *wakes = open_or_skip();
	struct seen seen = {.waker = (uint32_t)syscall(SYS_gettid)};
	struct sleeper sleeper = {.tid = 0};
	uint64_t start_ns;
	uint32_t tid;

	(void)state;
	begin_sleeper(&sleeper);
	tid = seen.target = sleeper.tid;
	start_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_int_equal(ky_wakes_follow(wakes, &tid, 1), 0);
	/* Not before the filter is in place. */
	assert_false(ky_wakes_covers(wakes, tid, start_ns));
	start_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_true(ky_wakes_covers(wakes, tid, start_ns));
	assert_false(ky_wakes_covers(wakes, tid - 1, start_ns));
	wake(&sleeper); /* paused: not reported */
	assert_int_equal(ky_wakes_pause(wakes, false), 0);
	start_ns = ky_now_ns(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < WAKES; i++)
		wake(&sleeper);
	assert_true(ky_wakes_read(wakes, on_wake, &seen) >= WAKES);
	assert_int_equal(seen.by_waker, WAKES);
	assert_int_equal(seen.others, 0);
	assert_true(seen.first_ns >= start_ns);
	assert_true(seen.last_ns <= ky_now_ns(CLOCK_MONOTONIC));
	assert_int_equal(ky_wakes_lost(wakes), 0);
	assert_true(ky_wakes_passed_ns(wakes) > 0);
	assert_int_equal(ky_wakes_pause(wakes, true), 0);
	wake(&sleeper);
	assert_int_equal(ky_wakes_read(wakes, on_wake, &seen), 0);
	end_sleeper(&sleeper);
	ky_wakes_close(wakes);
}

/* The filter is made anew for threads that come, also while it is at work. */
static void wakes__filter_follows_threads_and_reports_timers(void **state)
{
	const struct timespec moment = {.tv_nsec = 200000};
	struct ky_wakes *wakes = open_or_skip();
	struct sleeper sleeper = {.tid = 0};
	struct seen seen = {.target = 0};
	uint32_t tids[2];
	uint64_t before_ns, first_ns, now_ns;

	(void)state;
	begin_sleeper(&sleeper);
	tids[0] = sleeper.tid;
	before_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_int_equal(ky_wakes_pause(wakes, false), 0);
	assert_int_equal(ky_wakes_follow(wakes, tids, 1), 0);
	first_ns = ky_now_ns(CLOCK_MONOTONIC);
	tids[0] = seen.target = (uint32_t)syscall(SYS_gettid);
	tids[1] = sleeper.tid;
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_int_equal(ky_wakes_follow(wakes, tids, 2), 0);
	assert_true(ky_wakes_covers(wakes, tids[0], ky_now_ns(CLOCK_MONOTONIC)));
	assert_false(ky_wakes_covers(wakes, tids[0], now_ns));
	assert_true(ky_wakes_covers(wakes, tids[1], first_ns)); /* it was, all the time */
	assert_false(ky_wakes_covers(wakes, tids[1], before_ns));
	(void)ky_wakes_read(wakes, on_wake, &seen);
	memset(&seen, 0, sizeof(seen));
	seen.target = tids[0];
	for (uint32_t i = 0; i < WAKES; i++)
		(void)nanosleep(&moment, NULL);
	(void)ky_wakes_read(wakes, on_wake, &seen);
	end_sleeper(&sleeper);
	assert_int_equal(seen.others, 0);
	assert_int_equal(ky_wakes_lost(wakes), 0);
	ky_wakes_close(wakes);
	assert_true(seen.by_interrupt > 0 && seen.by_interrupt <= WAKES + 2);
	/* Linux 6.18, in one run of thirty: it leaves out events of an interrupt, as if it were
	 * inside another event, and counts them nowhere (test_wakes() of wake_source.c). */
	if (seen.by_interrupt < WAKES) {
		print_message("# the kernel reported %u of %u timers\n", seen.by_interrupt, WAKES);
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wakes__each_is_reported_with_its_waker),
		cmocka_unit_test(wakes__filter_follows_threads_and_reports_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
