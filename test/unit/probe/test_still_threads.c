/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads of this process that wait, run and end. */
#include <base/gnu.h>

#include "../../lib/cmocka_all.h"

#include <base/now.h>
#include <pthread.h>
#include <probe/still_threads.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wire/sample_area.h>

#define TICKS_NS UINT64_C(40000000)

struct other {
	pthread_t thread;
	_Atomic uint32_t tid;
	int pipe[2];
};

static void *wait_for_a_byte(void *ctx)
{
	struct other *other = ctx;
	char byte;

	atomic_store(&other->tid, (uint32_t)syscall(SYS_gettid));
	assert_int_equal(read(other->pipe[0], &byte, 1), 1);
	return NULL;
}

static void burn(uint64_t ns)
{
	uint64_t start = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start < ns)
		;
}

/* By its own file, so that the product's word is asked for once: it is in its read, and stays. */
static void wait_until_it_waits(const struct other *other)
{
	char path[64], text[512], *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", atomic_load(&other->tid));
	do {
		sched_yield();
		file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		(void)fclose(file);
		end = strrchr(text, ')');
		assert_non_null(end);
	} while (end[2] != 'S');
}

static bool is_still(const struct ky_still_threads *still, uint32_t tid, uint8_t *reason)
{
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		if (still->threads[i].tid == tid)
			return ky_still_is_still(&still->threads[i], reason);
	return false;
}

static void still__waiting_thread_is_and_running_thread_is_not(void **state)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid), pid = (uint32_t)getpid();
	static struct ky_still_threads still;
	struct ky_switch_sums sums = {.series = 1};
	struct ky_still_growth growth;
	struct other other = {.tid = 0};
	uint8_t reason = 0;
	char path[64];

	(void)state;
	assert_int_equal(pipe(other.pipe), 0);
	assert_int_equal(pthread_create(&other.thread, NULL, wait_for_a_byte, &other), 0);
	while (!atomic_load(&other.tid))
		;
	wait_until_it_waits(&other);
	ky_still_init(&still);
	ky_still_note(&still, pid, self);
	ky_still_note(&still, pid, other.tid);
	ky_still_note(&still, pid, other.tid);
	/* No window has begun. */
	assert_false(is_still(&still, other.tid, &reason));
	ky_still_begin(&still, 1);
	burn(TICKS_NS);
	assert_false(is_still(&still, self, &reason));
	assert_true(is_still(&still, other.tid, &reason));
	assert_int_equal(reason, KY_OFF_CPU_SYSCALL);
	/* It did not run, as its records show, which are none. */
	assert_true(ky_still_grow(ky_still_note(&still, pid, other.tid), &sums, &growth));
	assert_true(ky_still_waits(ky_still_note(&still, pid, other.tid)));
	assert_false(ky_still_waits(ky_still_note(&still, pid, self)));
	assert_int_equal(write(other.pipe[1], "x", 1), 1);
	pthread_join(other.thread, NULL);
	/* Joined, it is on its way out of the kernel. */
	snprintf(path, sizeof(path), "/proc/self/task/%u", atomic_load(&other.tid));
	while (access(path, F_OK) == 0)
		sched_yield();
	assert_false(is_still(&still, other.tid, &reason));
	ky_still_release(&still);
	close(other.pipe[0]);
	close(other.pipe[1]);
}

static uint32_t descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += dup2(fd, fd) == fd;
	return count;
}

static void still__old_threads_make_room_and_files_are_closed(void **state)
{
	uint32_t before = descriptors(), self = (uint32_t)syscall(SYS_gettid);
	static struct ky_still_threads still;
	uint8_t reason;

	(void)state;
	ky_still_init(&still);
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		ky_still_note(&still, (uint32_t)getpid(), 0x7fff0000u + i);
	assert_int_equal(descriptors(), before); /* there are no such threads */
	ky_still_note(&still, (uint32_t)getpid(), self);
	assert_int_equal(descriptors(), before + 1);
	ky_still_begin(&still, 1);
	assert_false(is_still(&still, self, &reason) && reason == KY_OFF_CPU_SYSCALL);
	ky_still_release(&still);
	assert_int_equal(descriptors(), before);
}

/* What the kernel is to count of it, by a file of our own in place of its. */
static void count_as(const struct ky_still_thread *thread, uint32_t delay_ns, uint32_t run_count)
{
	char text[64];
	int bytes = snprintf(text, sizeof(text), "123456 %u %u\n", delay_ns, run_count);

	assert_int_equal(pwrite(thread->fd, text, (size_t)bytes, 0), bytes);
}

/* What the kernel counts, and records that agree with it or do not. */
static void still__growth_is_known_where_the_records_agree(void **state)
{
	int counts = memfd_create("schedstat", MFD_CLOEXEC);
	struct ky_switch_sums sums = {.series = 1};
	static struct ky_still_threads still;
	struct ky_still_thread *thread;
	struct ky_still_growth growth;

	(void)state;
	ky_still_init(&still);
	thread = ky_still_note(&still, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid));
	assert_non_null(thread);
	assert_int_equal(dup2(counts, thread->fd), thread->fd);
	close(counts);
	count_as(thread, 1000, 10);
	assert_false(ky_still_grow(thread, &sums, &growth)); /* the first reading */
	ky_still_begin(&still, 2);
	assert_false(ky_still_grow(thread, &sums, &growth)); /* sums of another table */
	count_as(thread, 1500, 11);
	sums.in_count = 1000000; /* not so often */
	assert_false(ky_still_grow(thread, &sums, &growth));
	assert_int_equal(thread->run_count, 11);
	count_as(thread, 3500, 12);
	sums.in_count++;
	sums.waited_ns += 150000;
	assert_true(ky_still_grow(thread, &sums, &growth));
	assert_int_equal(growth.delay_ns, 2000);
	assert_int_equal(growth.sums.in_count, 1);
	assert_int_equal(growth.sums.waited_ns, 150000);
	assert_int_equal(growth.sums.preempted_ns, 0);
	ky_still_release(&still);
}

static struct ky_switch_interval bound(uint64_t delay_ns, uint64_t waited_ns, uint64_t preempted_ns,
				       uint8_t reason, uint8_t flags)
{
	const struct ky_still_growth growth = {delay_ns, {3, waited_ns, preempted_ns, 0}};
	struct ky_switch_interval interval = {
		.end_ns = 10000000, .reason = reason, .flags = flags, .runnable_max_ns = 10000000};

	ky_still_bound(&growth, &interval);
	return interval;
}

static struct ky_switch_interval bound_none(uint64_t length_ns)
{
	const struct ky_still_growth growth = {.delay_ns = 0};
	struct ky_switch_interval interval = {
		.end_ns = length_ns, .reason = KY_OFF_CPU_SYSCALL, .runnable_max_ns = length_ns};

	ky_still_bound(&growth, &interval);
	return interval;
}

static void still__growth_bounds_what_was_runnable(void **state)
{
	const uint64_t ms = 1000000, slack = 20000; /* what the clocks may differ by at most here */
	struct ky_switch_interval got;

	(void)state;
	/* The only wait, and no thread was in the run queue. */
	got = bound(0, 10 * ms, 0, KY_OFF_CPU_SYSCALL, 0);
	assert_int_equal(got.runnable_min_ns, 0);
	assert_in_range(got.runnable_max_ns, 0, slack);
	/* The only wait, ready for 4 ms at its end; preempted for 5 besides. */
	got = bound(9 * ms, 10 * ms, 5 * ms, KY_OFF_CPU_FAULT, 0);
	assert_in_range(got.runnable_min_ns, 4 * ms - slack, 4 * ms);
	assert_in_range(got.runnable_max_ns, 4 * ms, 4 * ms + slack);
	/* Others waited for 3 ms: they may have been ready, too. */
	got = bound(4 * ms, 13 * ms, 0, KY_OFF_CPU_SYSCALL, 0);
	assert_in_range(got.runnable_min_ns, 1 * ms - slack, 1 * ms);
	assert_in_range(got.runnable_max_ns, 4 * ms, 4 * ms + slack);
	/* Ready before the window already. */
	got = bound(40 * ms, 10 * ms, 0, KY_OFF_CPU_UNKNOWN, KY_SWITCH_BEGIN_UNSEEN);
	assert_int_equal(got.runnable_min_ns, 10 * ms);
	assert_int_equal(got.runnable_max_ns, 10 * ms);
	/* Its end is not in the growth; and of a preempted one nothing is to be found out. */
	got = bound(0, 10 * ms, 0, KY_OFF_CPU_SYSCALL, KY_SWITCH_END_UNSEEN);
	assert_int_equal(got.runnable_max_ns, 10 * ms);
	/* Nothing ended in it. */
	assert_int_equal(bound_none(10 * ms).runnable_max_ns, 10 * ms);
	got = bound(0, 10 * ms, 0, KY_OFF_CPU_PREEMPTED, 0);
	assert_int_equal(got.runnable_max_ns, 10 * ms);
}

/* The program has closed all descriptors, and has one of its own by that number. */
static void still__file_that_is_another_by_now_is_left_alone(void **state)
{
	static struct ky_still_threads still;
	struct ky_still_thread *thread;
	int mine[2], fd;

	(void)state;
	ky_still_init(&still);
	thread = ky_still_note(&still, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid));
	assert_non_null(thread);
	fd = thread->fd;
	assert_int_equal(pipe(mine), 0);
	assert_int_equal(dup2(mine[1], fd), fd);
	ky_still_close_files(&still);
	ky_still_release(&still);
	assert_int_equal(write(fd, "", 1), 1);
	close(fd);
	close(mine[0]);
	close(mine[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(still__waiting_thread_is_and_running_thread_is_not),
		cmocka_unit_test(still__old_threads_make_room_and_files_are_closed),
		cmocka_unit_test(still__file_that_is_another_by_now_is_left_alone),
		cmocka_unit_test(still__growth_is_known_where_the_records_agree),
		cmocka_unit_test(still__growth_bounds_what_was_runnable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
