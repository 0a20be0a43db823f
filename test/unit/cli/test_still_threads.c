/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads of this process that wait, run and end. */
#include "../../lib/cmocka_all.h"

#include <base/now.h>
#include <cli/still_threads.h>
#include <pthread.h>
#include <stdatomic.h>
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

static bool is_still(const struct ky_still_threads *still, uint32_t tid, uint8_t *reason)
{
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		if (still->threads[i].tid == tid)
			return ky_still_is_still(&still->threads[i], reason);
	return false;
}

static void still__who_waits_is_and_who_runs_is_not(void **state)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid), pid = (uint32_t)getpid();
	struct ky_still_threads still;
	struct other other = {.tid = 0};
	uint8_t reason = 0;

	(void)state;
	assert_int_equal(pipe(other.pipe), 0);
	assert_int_equal(pthread_create(&other.thread, NULL, wait_for_a_byte, &other), 0);
	while (!atomic_load(&other.tid))
		;
	ky_still_init(&still);
	ky_still_note(&still, pid, self);
	ky_still_note(&still, pid, other.tid);
	ky_still_note(&still, pid, other.tid);
	/* No window has begun. */
	assert_false(is_still(&still, other.tid, &reason));
	/* It may be on its way into its wait. */
	do {
		ky_still_begin(&still);
		burn(TICKS_NS);
		assert_false(is_still(&still, self, &reason));
	} while (!is_still(&still, other.tid, &reason));
	assert_int_equal(reason, KY_OFF_CPU_SYSCALL);
	assert_int_equal(write(other.pipe[1], "x", 1), 1);
	pthread_join(other.thread, NULL);
	while (access("/proc/self", F_OK) == 0 && is_still(&still, other.tid, &reason))
		;
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

static void still__old_ones_make_room_and_files_are_closed(void **state)
{
	uint32_t before = descriptors(), self = (uint32_t)syscall(SYS_gettid);
	struct ky_still_threads still;
	uint8_t reason;

	(void)state;
	ky_still_init(&still);
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		ky_still_note(&still, (uint32_t)getpid(), 0x7fff0000u + i);
	assert_int_equal(descriptors(), before); /* there are no such threads */
	ky_still_note(&still, (uint32_t)getpid(), self);
	assert_int_equal(descriptors(), before + 1);
	ky_still_begin(&still);
	assert_false(is_still(&still, self, &reason) && reason == KY_OFF_CPU_SYSCALL);
	ky_still_release(&still);
	assert_int_equal(descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(still__who_waits_is_and_who_runs_is_not),
		cmocka_unit_test(still__old_ones_make_room_and_files_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
