/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <kymo/emit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../adapters/tokio/blocking.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

static int (*patched_nanosleep)(const struct timespec *, struct timespec *);
static ssize_t (*patched_read)(int, void *, size_t);
static ssize_t (*patched_recv)(int, void *, size_t, int);
static int (*patched_mutex_lock)(pthread_mutex_t *);
static int (*patched_open)(const char *, int, mode_t);
static const struct timespec moment = {0, 1000000};

static void take(void *out, uint32_t kind)
{
	uintptr_t address = ky_tokio_wait_address(kind);

	assert_true(address != 0);
	memcpy(out, &address, sizeof(address));
}

static int set_up(void **state)
{
	(void)state;
	fake_recorder_reset(UINT32_MAX);
	fake_off_cpu_set(1, true);
	ky_tokio_call_ticks_min = 0;
	memset(&ky_tokio_self, 0, sizeof(ky_tokio_self));
	ky_tokio_self.depth = 1;
	take(&patched_nanosleep, KY_TOKIO_GOT_CALL_nanosleep);
	take(&patched_read, KY_TOKIO_GOT_CALL_read);
	take(&patched_recv, KY_TOKIO_GOT_CALL_recv);
	take(&patched_mutex_lock, KY_TOKIO_GOT_CALL_pthread_mutex_lock);
	take(&patched_open, KY_TOKIO_GOT_CALL_open);
	return 0;
}

static void calls__in_a_poll_are_recorded_with_their_stack(void **state)
{
	struct kymo_off_cpu reported;

	(void)state;
	assert_int_equal(patched_nanosleep(&moment, NULL), 0);
	reported = fake_off_cpu();
	assert_true(reported.end_ticks > reported.begin_ticks);
	assert_int_equal(reported.syscall, SYS_clock_nanosleep);
	assert_int_equal(reported.reason, KYMO_OFF_CPU_SYSCALL);
	assert_int_equal(reported.descriptor, -1);
	assert_true(reported.from.pc >= reported.own_low && reported.from.pc < reported.own_high);
	assert_int_equal(fake_event_count(), 0);
}

static void calls__name_what_they_wait_for(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int ends[2];
	char byte = 'x';

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(send(ends[1], &byte, 1, 0), 1);
	assert_int_equal(patched_recv(ends[0], &byte, 1, 0), 1);
	assert_int_equal(fake_off_cpu().descriptor, ends[0]);
	assert_int_equal(fake_off_cpu().syscall, SYS_recvfrom);
	assert_int_equal(patched_mutex_lock(&lock), 0);
	assert_int_equal(fake_off_cpu().reason, KYMO_OFF_CPU_FUTEX);
	assert_int_equal(fake_off_cpu().syscall, SYS_futex);
	close(ends[0]);
	close(ends[1]);
}

static void calls__outside_polls_and_with_a_closed_gate_are_not_measured(void **state)
{
	(void)state;
	ky_tokio_self.depth = 0;
	assert_int_equal(patched_nanosleep(&moment, NULL), 0);
	assert_int_equal(fake_off_cpu().end_ticks, 0);
	fake_recorder_reset(~(uint32_t)KYMO_GATE_OFF_CPU);
	ky_tokio_self.depth = 1;
	assert_int_equal(patched_nanosleep(&moment, NULL), 0);
	assert_int_equal(fake_off_cpu().end_ticks, 0);
}

static void calls__that_are_short_are_asked_about_once(void **state)
{
	char byte;

	(void)state;
	fake_off_cpu_set(UINT64_MAX, true);
	assert_int_equal(patched_nanosleep(&moment, NULL), 0);
	assert_int_equal(fake_off_cpu().end_ticks, 0);
	assert_true(ky_tokio_call_ticks_min == UINT64_MAX);
	/* From now on it is known what short is; another recording says it anew. */
	fake_off_cpu_set(1, true);
	assert_int_equal(patched_read(-1, &byte, 1), -1);
	assert_int_equal(fake_off_cpu().end_ticks, 0);
}

static void calls__without_room_are_recorded_without_a_stack(void **state)
{
	(void)state;
	fake_off_cpu_set(1, false);
	assert_int_equal(patched_nanosleep(&moment, NULL), 0);
	assert_int_equal(fake_event_count(), 1);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_WAIT);
	assert_true(fake_event_at(0).a > 0);
}

static void calls__keep_errno_results_and_open_modes(void **state)
{
	char path[] = "/tmp/kymo-blocking-XXXXXX", byte;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	fd = patched_open(path, 0100 | 02, 0600); /* O_CREAT | O_RDWR */
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(access(path, R_OK | W_OK), 0);
	unlink(path);
	errno = 0;
	assert_int_equal(patched_read(-1, &byte, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_true(fake_off_cpu().end_ticks > 0);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(calls__in_a_poll_are_recorded_with_their_stack),
		CASE(calls__name_what_they_wait_for),
		CASE(calls__outside_polls_and_with_a_closed_gate_are_not_measured),
		CASE(calls__that_are_short_are_asked_about_once),
		CASE(calls__without_room_are_recorded_without_a_stack),
		CASE(calls__keep_errno_results_and_open_modes),
	};

	return cmocka_run_group_tests_name("blocking", tests, NULL, NULL);
}
