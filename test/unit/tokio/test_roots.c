/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A root's clones, waits and wakes, as its thread and its runtime make them; what is recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kymo/emit.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

enum {
	THREAD_TABLE = 0,
	RUNTIME_TABLE = 1
};
enum {
	EMPTY,
	PARKED,
	NOTIFIED
};

typedef long (*syscall_fn)(long, ...);
typedef int (*epoll_wait_fn)(int, struct epoll_event *, int, int);

/* Two counts, then what the waker points to: state, a lock, the condition variable's word. */
static struct {
	uint64_t strong, weak, state;
	uint32_t lock, poison, word, rest;
} parker;
static uint64_t handle[4];
static uint32_t woken_count;
static syscall_fn patched_syscall;
static epoll_wait_fn patched_epoll_wait;

static void original_wake(void *data)
{
	(void)data;
	woken_count++;
}

static int set_up(void **state)
{
	uintptr_t address = ky_tokio_wait_address(KY_TOKIO_GOT_SYSCALL);

	(void)state;
	memcpy(&patched_syscall, &address, sizeof(address));
	address = ky_tokio_wait_address(KY_TOKIO_GOT_EPOLL_WAIT);
	memcpy(&patched_epoll_wait, &address, sizeof(address));
	fake_recorder_reset(UINT32_MAX);
	memset(&ky_tokio_self, 0, sizeof(ky_tokio_self));
	memset(&parker, 0, sizeof(parker));
	parker.strong = 3;
	for (uint32_t i = THREAD_TABLE; i <= RUNTIME_TABLE; i++)
		ky_tokio_root_tables[i] = (struct ky_tokio_root_table){
			.wake = original_wake, .wake_by_ref = original_wake};
	ky_tokio_root_tables[RUNTIME_TABLE].kind = KY_TOKIO_ROOT_RUNTIME;
	woken_count = 0;
	return 0;
}

static void clone_waker(void *data, uint32_t table)
{
	struct kymo_stack_start start = {0};

	ky_tokio_on_root_clone(data, table, &start);
}

/* A wait for a word that has changed already returns at once. */
static void wait_for(uint32_t *word, uint32_t value)
{
	(void)patched_syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, NULL, NULL,
			      0);
}

static void root__thread_sleeps_on_its_own_parker(void **state)
{
	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_ROOT_BEGIN);
	assert_int_equal(fake_event_at(0).arg, KYMO_ROOT_CLONED);
	assert_int_equal(fake_event_at(0).a >> KYMO_NAME_BITS, KYMO_ROOT_BIT | 1);
	parker.state = PARKED;
	wait_for(&parker.word, 7);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 1);
	assert_int_equal(fake_event_at(1).arg & KYMO_ROOT_WAITS, KYMO_ROOT_WAITS);
	assert_int_equal(fake_count_of(KYMO_RECORD_PARK), 0);
}

static void root__poll_begins_when_the_wait_ends_notified(void **state)
{
	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	parker.state = PARKED;
	wait_for(&parker.word, 7);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 1); /* woken for nothing */
	wait_for(&parker.word, 7);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 1); /* and sleeps on */
	parker.state = NOTIFIED;
	ky_tokio_root_awake(&ky_tokio_self);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 2);
	assert_int_equal(fake_last_of(KYMO_RECORD_ROOT_BEGIN).arg, KYMO_ROOT_WOKEN);
}

static void root__other_waits_of_its_thread_are_none_of_it(void **state)
{
	uint32_t other = 0;

	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	wait_for(&parker.lock, 2);
	wait_for(&other, 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 0);
}

/* parking_lot keeps the word in the thread: what the parker says decides. */
static void root__thread_sleeps_on_a_word_elsewhere(void **state)
{
	uint32_t other = 0;

	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	parker.state = PARKED;
	wait_for(&other, 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 1);
}

static void root__every_clone_says_that_the_poll_lasts(void **state)
{
	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	clone_waker(&parker.state, THREAD_TABLE);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 0);
	assert_int_equal(fake_places()->clone_count, 2);
	assert_int_equal(fake_places()->living[1], 1);
}

static void root__clone_inside_a_poll_is_the_polls(void **state)
{
	(void)state;
	ky_tokio_self.depth = 1;
	clone_waker(&parker.state, THREAD_TABLE);
	assert_int_equal(fake_event_count(), 0);
	assert_null(ky_tokio_self.current);
}

static void root__wake_is_recorded_once_it_is_known(void **state)
{
	uint64_t stranger[2] = {0, 0};

	(void)state;
	ky_tokio_on_root_wake(stranger, THREAD_TABLE);
	assert_int_equal(fake_count_of(KYMO_RECORD_WAKE), 0);
	clone_waker(&parker.state, THREAD_TABLE);
	ky_tokio_on_root_wake_by_ref(&parker.state, THREAD_TABLE);
	ky_tokio_on_root_wake(&parker.state, THREAD_TABLE);
	assert_int_equal(fake_count_of(KYMO_RECORD_WAKE), 2);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, KYMO_WAKE_BY_VALUE);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).a >> KYMO_NAME_BITS, KYMO_ROOT_BIT | 1);
	assert_int_equal(woken_count, 3);
}

/* What drives a runtime polls its root after a turn of the driver when it was woken, and only
 * then. */
static void root__of_a_runtime_is_polled_after_the_driver(void **state)
{
	struct epoll_event ready;
	int poller = epoll_create1(EPOLL_CLOEXEC);

	(void)state;
	ky_tokio_self.is_driver = true;
	clone_waker(handle, RUNTIME_TABLE);
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 1), 0);
	assert_int_equal(fake_event_at(1).record, KYMO_RECORD_ROOT_END);
	assert_int_equal(fake_event_at(2).record, KYMO_RECORD_PARK);
	assert_int_equal(fake_event_at(3).record, KYMO_RECORD_UNPARK);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 1);
	ky_tokio_on_root_wake(handle, RUNTIME_TABLE);
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 0), 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_ROOT_BEGIN).arg, KYMO_ROOT_WOKEN);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 2);
	assert_int_equal(patched_epoll_wait(poller, &ready, 1, 0), 0);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 2);
	close(poller);
}

static void root__another_root_of_the_thread_ends_its_poll(void **state)
{
	(void)state;
	clone_waker(&parker.state, THREAD_TABLE);
	clone_waker(handle, RUNTIME_TABLE);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_END), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_ROOT_END).arg, 0);
	assert_int_equal(fake_count_of(KYMO_RECORD_ROOT_BEGIN), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(root__thread_sleeps_on_its_own_parker, set_up),
		cmocka_unit_test_setup(root__poll_begins_when_the_wait_ends_notified, set_up),
		cmocka_unit_test_setup(root__other_waits_of_its_thread_are_none_of_it, set_up),
		cmocka_unit_test_setup(root__thread_sleeps_on_a_word_elsewhere, set_up),
		cmocka_unit_test_setup(root__every_clone_says_that_the_poll_lasts, set_up),
		cmocka_unit_test_setup(root__clone_inside_a_poll_is_the_polls, set_up),
		cmocka_unit_test_setup(root__wake_is_recorded_once_it_is_known, set_up),
		cmocka_unit_test_setup(root__of_a_runtime_is_polled_after_the_driver, set_up),
		cmocka_unit_test_setup(root__another_root_of_the_thread_ends_its_poll, set_up),
	};

	return cmocka_run_group_tests_name("roots", tests, NULL, NULL);
}
