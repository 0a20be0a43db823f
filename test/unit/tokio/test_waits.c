/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../adapters/tokio/blocking.h"
#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/parked_on.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

typedef int (*epoll_wait_fn)(int, struct epoll_event *, int, int);
typedef int (*epoll_pwait_fn)(int, struct epoll_event *, int, int, const void *);
typedef int (*epoll_ctl_fn)(int, int, int, struct epoll_event *);
typedef long (*syscall_fn)(long, ...);
typedef int (*eventfd_fn)(unsigned int, int);
typedef ssize_t (*write_fn)(int, const void *, size_t);

static epoll_wait_fn patched_epoll_wait;
static epoll_pwait_fn patched_epoll_pwait;
static syscall_fn patched_syscall;
static eventfd_fn patched_eventfd;
static write_fn patched_write;
static int poller, event;

static void take(void *out, uint32_t kind)
{
	uintptr_t address = ky_tokio_wait_address(kind);

	memcpy(out, &address, sizeof(address));
}

static int set_up(void **state)
{
	struct epoll_event interest = {.events = EPOLLIN, .data = {.u64 = 5}};

	(void)state;
	fake_recorder_reset(UINT32_MAX);
	fake_off_cpu_set(100000, false); /* ticks: some 30 us and more on what is built today */
	ky_tokio_call_ticks_min = 0;
	memset(&ky_tokio_self, 0, sizeof(ky_tokio_self));
	take(&patched_epoll_wait, KY_TOKIO_GOT_EPOLL_WAIT);
	take(&patched_epoll_pwait, KY_TOKIO_GOT_EPOLL_PWAIT);
	take(&patched_syscall, KY_TOKIO_GOT_SYSCALL);
	take(&patched_eventfd, KY_TOKIO_GOT_EVENTFD);
	take(&patched_write, KY_TOKIO_GOT_WRITE);
	poller = epoll_create1(EPOLL_CLOEXEC);
	event = patched_eventfd(1, EFD_CLOEXEC);
	assert_true(poller >= 0 && event >= 0);
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_ADD, event, &interest), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(poller);
	close(event);
	return 0;
}

static void waits__worker_outside_polls_parks(void **state)
{
	struct epoll_event ready;

	(void)state;
	ky_tokio_self.workers = 1;
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	assert_int_equal(fake_event_count(), 2);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_PARK);
	assert_int_equal(fake_event_at(0).arg, KYMO_WAIT_EPOLL | kymo_park_timeout(1000));
	assert_int_equal(fake_event_at(1).record, KYMO_RECORD_UNPARK);
	assert_int_equal(fake_event_at(1).arg, 1);
}

static uint32_t ready_of_unpark(void)
{
	struct epoll_event ready[4];

	assert_true(patched_epoll_wait(poller, ready, 4, 1000) > 0);
	return fake_last_of(KYMO_RECORD_UNPARK).arg;
}

static void waits__one_event_names_its_descriptor(void **state)
{
	static char keys[2]; /* their addresses are the keys */
	struct epoll_event interest = {.events = EPOLLIN};
	int pipes[2][2], copy = fcntl(poller, F_DUPFD_CLOEXEC, 0);
	epoll_ctl_fn patched_ctl;

	(void)state;
	take(&patched_ctl, KY_TOKIO_GOT_EPOLL_CTL);
	ky_tokio_self.workers = 1;
	assert_int_equal(ready_of_unpark(), 1); /* by a key that is no address */
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_DEL, event, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(pipes[i]), 0);
		interest.data.ptr = &keys[i];
		assert_int_equal(patched_ctl(copy, EPOLL_CTL_ADD, pipes[i][0], &interest), 0);
	}
	assert_int_equal(write(pipes[1][1], "", 1), 1);
	assert_int_equal(ready_of_unpark(), KYMO_READY_ONE | (uint32_t)pipes[1][0]);
	assert_int_equal(write(pipes[0][1], "", 1), 1);
	assert_int_equal(ready_of_unpark(), 2);
	/* A key that was freed and given out again. */
	assert_int_equal(patched_ctl(copy, EPOLL_CTL_DEL, pipes[0][0], NULL), 0);
	assert_int_equal(patched_ctl(copy, EPOLL_CTL_DEL, pipes[1][0], NULL), 0);
	assert_int_equal(patched_ctl(copy, EPOLL_CTL_ADD, pipes[0][0], &interest), 0);
	assert_int_equal(ready_of_unpark(), KYMO_READY_ONE | (uint32_t)pipes[0][0]);
	for (int i = 0; i < 2; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	close(copy);
}

static void waits__registrations_from_before_are_learnt(void **state)
{
	static char key;
	struct epoll_event interest = {.events = EPOLLIN, .data = {.ptr = &key}};
	int ends[2];

	(void)state;
	ky_tokio_self.workers = 1;
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_DEL, event, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &interest), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(ready_of_unpark(), 1);
	ky_tokio_parked_on_learn();
	assert_int_equal(ready_of_unpark(), KYMO_READY_ONE | (uint32_t)ends[0]);
	close(ends[0]);
	close(ends[1]);
}

static long wait_on(uint32_t *word, uint32_t value, long timeout_ns)
{
	struct timespec timeout = {0, timeout_ns};

	return patched_syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

static uint32_t timeout_of_park(void)
{
	uint32_t arg = fake_last_of(KYMO_RECORD_PARK).arg;

	return arg - (arg & KYMO_PARK_WAIT_MASK);
}

static void waits__parks_have_their_time_out(void **state)
{
	struct epoll_event ready;
	struct timespec time;
	uint32_t word = 0;

	(void)state;
	assert_int_equal(kymo_park_timeout(-5), KYMO_PARK_TIMEOUT_NONE << KYMO_PARK_TIMEOUT_SHIFT);
	assert_int_equal(kymo_park_timeout(INT64_MAX) >> 16, 0);
	assert_true(kymo_park_timeout(16380) < kymo_park_timeout(16381));
	assert_int_equal(kymo_park_timeout(16381), kymo_park_timeout(INT64_MAX));
	ky_tokio_self.workers = 1;
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, -1), 1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(-1));
	assert_int_equal(patched_epoll_pwait(poller, &ready, 1, 20000, NULL), 1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(20000));
	time = (struct timespec){.tv_nsec = 1};
	assert_int_equal(patched_syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &time, NULL, 0),
			 -1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(1)); /* rounded up */
	assert_int_equal(patched_syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0),
			 -1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(-1));
	/* Absolute: long ago, and so far away that no reading of the clock matters. */
	time = (struct timespec){.tv_nsec = 1};
	assert_int_equal(patched_syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 1, &time,
					 NULL, FUTEX_BITSET_MATCH_ANY),
			 -1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(0));
	time = (struct timespec){.tv_sec = INT64_MAX};
	assert_int_equal(patched_syscall(SYS_futex, &word,
					 FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 1, &time,
					 NULL, FUTEX_BITSET_MATCH_ANY),
			 -1);
	assert_int_equal(timeout_of_park(), kymo_park_timeout(INT64_MAX));
}

static uint64_t on_fd(int fd)
{
	return (uint64_t)(fd + 1) << KYMO_PARKED_ON_FD_SHIFT;
}

static void waits__parks_name_what_wakes_them_where_it_changes(void **state)
{
	struct epoll_event waker = {.events = EPOLLIN, .data = {.u64 = 0}}, ready;
	epoll_ctl_fn patched_epoll_ctl;
	uint32_t words[2] = {0, 0};
	int other;

	(void)state;
	take(&patched_epoll_ctl, KY_TOKIO_GOT_EPOLL_CTL);
	ky_tokio_self.workers = 1;
	assert_int_equal(wait_on(&words[0], 1, 1), -1);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_PARKED_ON);
	assert_int_equal(fake_event_at(0).a, (uintptr_t)&words[0]);
	assert_int_equal(wait_on(&words[0], 1, 1), -1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARKED_ON), 1);
	/* It was registered past us, and with a key of the program's own. */
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	other = patched_eventfd(1, EFD_CLOEXEC);
	waker.data.u64 = 77;
	assert_int_equal(patched_epoll_ctl(poller, EPOLL_CTL_ADD, other, &waker), 0);
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARKED_ON), 1);
	assert_int_equal(patched_epoll_ctl(poller, EPOLL_CTL_DEL, other, NULL), 0);
	waker.data.u64 = 0;
	assert_int_equal(patched_epoll_ctl(poller, EPOLL_CTL_ADD, other, &waker), 0);
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARKED_ON), 2);
	assert_int_equal(fake_last_of(KYMO_RECORD_PARKED_ON).a,
			 (uintptr_t)&words[0] | on_fd(other));
	assert_int_equal(wait_on(&words[1], 1, 1), -1);
	assert_int_equal(fake_last_of(KYMO_RECORD_PARKED_ON).a,
			 (uintptr_t)&words[1] | on_fd(other));
	errno = 0;
	assert_int_equal(patched_epoll_ctl(poller, EPOLL_CTL_ADD, other, NULL), -1);
	assert_int_equal(errno, EFAULT);
	close(other);
}

/* Also by a thread that is none of the runtime's. */
static void waits__notifications_of_parked_workers_are_recorded(void **state)
{
	static uint32_t parker;

	(void)state;
	ky_tokio_self.workers = 1;
	assert_int_equal(wait_on(&parker, 1, 1), -1);
	ky_tokio_self.workers = 0;
	assert_int_equal(patched_syscall(SYS_futex, &parker, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
			 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_NOTIFY).a, (uintptr_t)&parker);
}

static void waits__who_unlocks_what_a_poll_waited_for_is_recorded(void **state)
{
	static uint32_t lock, other;

	(void)state;
	ky_tokio_self.workers = ky_tokio_self.depth = 1;
	assert_int_equal(wait_on(&lock, 1, 1), -1);
	ky_tokio_self.workers = ky_tokio_self.depth = 0;
	assert_int_equal(wait_on(&other, 1, 1), -1); /* no poll's */
	assert_int_equal(patched_syscall(SYS_futex, &other, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
			 0);
	assert_int_equal(fake_count_of(KYMO_RECORD_NOTIFY), 0);
	assert_int_equal(patched_syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
			 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_NOTIFY).a, (uintptr_t)&lock);
}

static void waits__zero_time_out_is_a_turn_of_the_driver(void **state)
{
	struct epoll_event ready;

	(void)state;
	ky_tokio_self.workers = 1;
	assert_int_equal(patched_epoll_pwait(poller, &ready, 1, 0, NULL), 1);
	assert_int_equal(fake_event_count(), 1);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_DRIVER_TURN);
	assert_int_equal(fake_event_at(0).arg, 1);
}

static void waits__failure_keeps_errno(void **state)
{
	struct epoll_event ready;

	(void)state;
	ky_tokio_self.workers = 1;
	errno = 0;
	assert_int_equal(patched_epoll_wait(-1, &ready, 1, 1000), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fake_last_of(KYMO_RECORD_UNPARK).arg, 0xffff);
}

static void waits__other_threads_are_left_alone(void **state)
{
	struct epoll_event ready;

	(void)state;
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	assert_int_equal(fake_event_count(), 0);
	ky_tokio_self.is_driver = true;
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1000), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARK), 1);
}

static void nothing(int number)
{
	(void)number;
}

static void waits__app_sigprof_handler_wins(void **state)
{
	int (*act)(int, const struct sigaction *, struct sigaction *);
	void (*(*set)(int, void (*)(int)))(int);
	struct sigaction action = {.sa_handler = nothing}, old;
	uint32_t before = fake_signal_left();

	(void)state;
	take(&act, KY_TOKIO_GOT_SIGACTION);
	take(&set, KY_TOKIO_GOT_SIGNAL);
	assert_int_equal(act(SIGPROF, NULL, &old), 0); /* it only asks */
	assert_int_equal(act(SIGUSR1, &action, NULL), 0);
	assert_int_equal(fake_signal_left(), before);
	assert_int_equal(act(SIGPROF, &action, &old), 0);
	assert_int_equal(fake_signal_left(), before + 1);
	assert_ptr_equal(set(SIGPROF, SIG_DFL), nothing);
	assert_int_equal(fake_signal_left(), before + 2);
	assert_int_equal(act(SIGPROF, NULL, &old), 0);
	assert_ptr_equal(old.sa_handler, SIG_DFL);
	assert_ptr_equal(set(SIGUSR1, SIG_DFL), nothing);
	assert_int_equal(act(0, &action, NULL), -1);
}

static void waits__only_long_waits_inside_a_poll_are_recorded(void **state)
{
	uint32_t word = 0;

	(void)state;
	ky_tokio_self.workers = 1;
	ky_tokio_self.depth = 1;
	/* No wait lasts that long, whatever the kernel does with this thread meanwhile. */
	atomic_store(&ky_tokio_call_ticks_min, UINT64_MAX);
	assert_int_equal(wait_on(&word, 1, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fake_event_count(), 0);
	atomic_store(&ky_tokio_call_ticks_min, 1);
	fake_off_cpu_set(1, false);
	assert_int_equal(wait_on(&word, 0, 1000000), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(fake_event_count(), 1);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_WAIT);
	assert_int_equal(fake_event_at(0).arg, KYMO_WAIT_FUTEX);
	assert_true(fake_event_at(0).a > 0);
}

static void waits__contended_lock_is_no_park(void **state)
{
	uint32_t lock = 2, parker = 0;

	(void)state;
	ky_tokio_self.workers = 1;
	assert_int_equal(wait_on(&lock, 2, 1000), -1);
	assert_int_equal(fake_event_count(), 0);
	assert_int_equal(wait_on(&parker, 0, 1000), -1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARK), 1);
	/* The condition variable's counter passes 2 as well. */
	parker = 2;
	assert_int_equal(wait_on(&parker, 2, 1000), -1);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARK), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_UNPARK), 2);
}

static void waits__notifications_name_word_and_descriptor(void **state)
{
	uint64_t one = 1;
	uint32_t word = 0;

	(void)state;
	assert_int_equal(patched_syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
			 0);
	assert_int_equal(fake_event_count(), 0);
	ky_tokio_self.workers = 1;
	assert_int_equal(patched_syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
			 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_NOTIFY).a, (uintptr_t)&word);
	assert_int_equal(patched_write(event, &one, sizeof(one)), (int)sizeof(one));
	assert_int_equal(fake_last_of(KYMO_RECORD_NOTIFY).a, event);
	assert_int_equal(fake_last_of(KYMO_RECORD_NOTIFY).arg, KYMO_WAIT_EVENTFD);
}

static void waits__other_system_calls_pass_with_their_errno(void **state)
{
	(void)state;
	assert_int_equal(patched_syscall(SYS_getpid), getpid());
	errno = 0;
	assert_int_equal(patched_syscall(SYS_close, -1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(patched_write(-1, "", 1), -1);
	assert_int_equal(fake_event_count(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(waits__worker_outside_polls_parks),
		CASE(waits__one_event_names_its_descriptor),
		CASE(waits__registrations_from_before_are_learnt),
		CASE(waits__parks_have_their_time_out),
		CASE(waits__parks_name_what_wakes_them_where_it_changes),
		CASE(waits__notifications_of_parked_workers_are_recorded),
		CASE(waits__who_unlocks_what_a_poll_waited_for_is_recorded),
		CASE(waits__zero_time_out_is_a_turn_of_the_driver),
		CASE(waits__failure_keeps_errno),
		CASE(waits__other_threads_are_left_alone),
		CASE(waits__app_sigprof_handler_wins),
		CASE(waits__only_long_waits_inside_a_poll_are_recorded),
		CASE(waits__contended_lock_is_no_park),
		CASE(waits__notifications_name_word_and_descriptor),
		CASE(waits__other_system_calls_pass_with_their_errno),
	};

	return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
