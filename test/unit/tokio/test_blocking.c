/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <kymo/emit.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../adapters/tokio/blocking.h"
#include "../../../adapters/tokio/failing.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

static int (*patched_nanosleep)(const struct timespec *, struct timespec *);
static ssize_t (*patched_read)(int, void *, size_t);
static ssize_t (*patched_recv)(int, void *, size_t, int);
static int (*patched_mutex_lock)(pthread_mutex_t *);
static int (*patched_open)(const char *, int, mode_t);
static int (*patched_connect)(int, const struct sockaddr *, socklen_t);
static int (*patched_poll)(struct pollfd *, nfds_t, int);
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
	take(&patched_connect, KY_TOKIO_GOT_CALL_connect);
	take(&patched_poll, KY_TOKIO_GOT_CALL_poll);
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
	assert_int_equal(fake_off_cpu().flags, KYMO_OFF_CPU_BY_MODE);
	assert_int_equal(fake_off_cpu().bytes, 1);
	assert_int_equal(fake_off_cpu().error, 0);
	assert_int_equal(patched_recv(-1, &byte, 1, 0), -1);
	assert_int_equal(fake_off_cpu().bytes, -1);
	assert_int_equal(fake_off_cpu().error, EBADF);
	assert_int_equal(patched_mutex_lock(&lock), 0);
	assert_int_equal(fake_off_cpu().reason, KYMO_OFF_CPU_FUTEX);
	assert_int_equal(fake_off_cpu().syscall, SYS_futex);
	assert_true(fake_off_cpu().lock == (uintptr_t)&lock);
	close(ends[0]);
	close(ends[1]);
}

/* What a connect() asked for, since the socket does not know it; a wait for one descriptor; and
 * what an open() made. */
static void calls__name_the_descriptor_and_the_port(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct pollfd ready = {.fd = -1};
	int fd;

	(void)state;
	assert_int_equal(patched_connect(-1, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(fake_off_cpu().peer_port, 9);
	assert_int_equal(fake_off_cpu().error, EBADF);
	assert_int_equal(patched_connect(-1, NULL, 0), -1);
	assert_int_equal(fake_off_cpu().peer_port, 0);
	ready.fd = dup(0);
	assert_true(ready.fd >= 0);
	assert_true(patched_poll(&ready, 1, 0) >= 0);
	assert_int_equal(fake_off_cpu().descriptor, ready.fd);
	assert_int_equal(fake_off_cpu().flags, 0);
	close(ready.fd);
	assert_int_equal(patched_poll(NULL, 1, 0), -1);
	assert_int_equal(fake_off_cpu().error, EFAULT);
	assert_int_equal(fake_off_cpu().descriptor, -1);
	fd = patched_open("/", 0, 0);
	assert_true(fd >= 0);
	assert_int_equal(fake_off_cpu().descriptor, fd);
	close(fd);
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

/* The records of failing calls so far. */
static uint32_t failed_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake_event_count(); i++)
		count += fake_event_at(i).record == KYMO_RECORD_FAILED_CALLS;
	return count;
}

/* A socket to which nobody writes. */
static int quiet_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	return fd;
}

static void calls__that_would_block_are_counted_in_a_row(void **state)
{
	int quiet = quiet_socket(), other = quiet_socket(), ends[2];
	char byte = 0;

	(void)state;
	fake_off_cpu_set(UINT64_MAX, true);
	ky_tokio_failing = (struct ky_tokio_failing){0};
	for (uint32_t i = 0; i < KY_TOKIO_ROW_MIN - 1; i++)
		assert_int_equal(patched_recv(quiet, &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(patched_recv(other, &byte, 1, 0), -1); /* another row */
	for (uint32_t i = 0; i < KY_TOKIO_ROW_MIN - 1; i++)
		assert_int_equal(patched_recv(quiet, &byte, 1, 0), -1);
	assert_int_equal(failed_count(), 0);
	for (uint32_t i = 0; i < KY_TOKIO_ROW_MIN + 10; i++)
		assert_int_equal(patched_recv(quiet, &byte, 1, 0), -1);
	assert_int_equal(failed_count(), 2); /* 256 and 512 */
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).arg, EAGAIN);
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).a,
			 (uint64_t)SYS_recvfrom << 52 | (uint64_t)(quiet + 1) << 32 | 512);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(patched_read(ends[0], &byte, 1), 1);
	assert_int_equal(ky_tokio_failing.row_count, 512 + 10 - 1); /* of another descriptor */
	ky_tokio_failing.row_descriptor = ends[0];
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(patched_read(ends[0], &byte, 1), 1);
	assert_int_equal(ky_tokio_failing.row_count, 0);
	close(quiet);
	close(other);
	close(ends[0]);
	close(ends[1]);
}

static void calls__without_a_descriptor_left_are_counted_from_the_first(void **state)
{
	(void)state;
	fake_off_cpu_set(UINT64_MAX, true);
	ky_tokio_failing = (struct ky_tokio_failing){0};
	for (uint32_t i = 0; i < 5; i++) {
		errno = EMFILE;
		ky_tokio_call_ended(1, SYS_accept4, 8, -1);
		assert_int_equal(errno, EMFILE);
		ky_tokio_call_ended(1, SYS_read, 8, 1); /* which says nothing about it */
	}
	assert_int_equal(failed_count(), 3); /* 1, 2 and 4 */
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).a,
			 (uint64_t)SYS_accept4 << 52 | UINT64_C(9) << 32 | 4);
	/* A number that has no room is left out. */
	ky_tokio_failing.full_count = 7;
	errno = ENFILE;
	ky_tokio_call_ended(1, SYS_accept4, KYMO_FAILED_FD_MAX, -1);
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).a, (uint64_t)SYS_accept4 << 52 | 8);
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).arg, ENFILE);
	/* Nothing in which it counts: outside of polls, and other reasons. */
	errno = EMFILE;
	ky_tokio_call_ended(0, SYS_accept4, 8, -1);
	errno = ECONNRESET;
	ky_tokio_call_ended(1, SYS_accept4, 8, -1);
	assert_int_equal(ky_tokio_failing.full_count, 8);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(calls__in_a_poll_are_recorded_with_their_stack),
		CASE(calls__name_what_they_wait_for),
		CASE(calls__name_the_descriptor_and_the_port),
		CASE(calls__outside_polls_and_with_a_closed_gate_are_not_measured),
		CASE(calls__that_are_short_are_asked_about_once),
		CASE(calls__without_room_are_recorded_without_a_stack),
		CASE(calls__keep_errno_results_and_open_modes),
		CASE(calls__that_would_block_are_counted_in_a_row),
		CASE(calls__without_a_descriptor_left_are_counted_from_the_first),
	};

	return cmocka_run_group_tests_name("blocking", tests, NULL, NULL);
}
