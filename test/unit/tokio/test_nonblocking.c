/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which calls are timed. The clock is ours here: a call that is timed reads it twice. */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../adapters/tokio/blocking.h"
#include "../../../adapters/tokio/failing.h"
#include "../../../adapters/tokio/nonblocking.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

#define UNIT (UINT64_C(1) << KY_TOKIO_NONBLOCKING_UNIT)
#define REST (UINT64_C(1) << KY_TOKIO_NONBLOCKING_REST)

static struct {
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*close)(int);
	int (*ioctl)(int, unsigned long, void *);
	int (*fcntl)(int, int, uintptr_t);
	int (*fcntl64)(int, int, uintptr_t);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*open)(const char *, int, mode_t);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
} calls;

static uint64_t now_ticks;
static uint32_t clock_reads;
static uint64_t end_word; /* a thread that has one and no limit is on the clock of the OS */
static int poller, pair[2];

int clock_gettime(clockid_t clock, struct timespec *out)
{
	(void)clock;
	clock_reads++;
	out->tv_sec = (time_t)(now_ticks / 1000000000);
	out->tv_nsec = (long)(now_ticks % 1000000000);
	return 0;
}

static void take(void *out, uint32_t kind)
{
	uintptr_t address = ky_tokio_wait_address(kind);

	assert_true(address != 0);
	memcpy(out, &address, sizeof(address));
}

static void begin_poll(uint64_t ticks)
{
	now_ticks = ticks;
	ky_tokio_self.poll_ticks = ticks;
}

static int set_up(void **state)
{
	(void)state;
	fake_recorder_reset(UINT32_MAX & ~(uint32_t)KYMO_GATE_CONN);
	fake_off_cpu_set(UINT64_MAX, true);
	fake_nonblocking_set(false);
	ky_tokio_call_ticks_min = UINT64_MAX;
	memset(&ky_tokio_self, 0, sizeof(ky_tokio_self));
	ky_tokio_self.depth = 1;
	kymo_thread_self->end = &end_word;
	ky_tokio_nonblocking_start_over();
	begin_poll(1000 * UNIT);
	take(&calls.recv, KY_TOKIO_GOT_CALL_recv);
	take(&calls.send, KY_TOKIO_GOT_CALL_send);
	take(&calls.write, KY_TOKIO_GOT_WRITE);
	take(&calls.recvmsg, KY_TOKIO_GOT_CALL_recvmsg);
	take(&calls.epoll_ctl, KY_TOKIO_GOT_EPOLL_CTL);
	take(&calls.close, KY_TOKIO_GOT_CLOSE);
	take(&calls.ioctl, KY_TOKIO_GOT_IOCTL);
	take(&calls.fcntl, KY_TOKIO_GOT_FCNTL);
	take(&calls.fcntl64, KY_TOKIO_GOT_FCNTL64);
	take(&calls.dup2, KY_TOKIO_GOT_DUP2);
	take(&calls.dup3, KY_TOKIO_GOT_DUP3);
	take(&calls.open, KY_TOKIO_GOT_CALL_open);
	take(&calls.accept4, KY_TOKIO_GOT_CALL_accept4);
	poller = epoll_create1(0);
	assert_true(poller >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)calls.close(pair[0]);
	(void)calls.close(pair[1]);
	close(poller);
	kymo_thread_self->end = NULL;
	return 0;
}

static void add(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	assert_int_equal(calls.epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event), 0);
}

/* Whether a read of this descriptor, which has nothing to read, is timed. */
static bool is_timed(int fd)
{
	uint32_t before = clock_reads;
	char byte;

	assert_int_equal(calls.recv(fd, &byte, 1, 0), -1);
	assert_true(clock_reads == before || clock_reads == before + 2);
	return clock_reads != before;
}

/* It was asked just now, so it is not asked about what is not known. */
static void rest(void)
{
	ky_tokio_self.asked_ticks = ky_tokio_self.poll_ticks;
}

static void registered__descriptor_needs_no_clock(void **state)
{
	char byte = 'x';
	uint32_t before;

	(void)state;
	add(pair[0]);
	add(pair[1]);
	rest();
	before = clock_reads;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(calls.send(pair[0], &byte, 1, 0), 1);
		assert_int_equal(calls.recv(pair[1], &byte, 1, 0), 1);
		assert_int_equal(calls.write(pair[1], &byte, 1), 1);
		assert_int_equal(calls.recv(pair[0], &byte, 1, 0), 1);
		assert_int_equal(calls.recv(pair[0], &byte, 1, 0), -1);
		assert_int_equal(errno, EAGAIN);
	}
	assert_int_equal(clock_reads, before);
	assert_int_equal(fake_nonblocking_asked(), 2); /* when they were registered */
}

/* A socket that the program forgot to set to O_NONBLOCK is what the clock is for. */
static void registered__descriptor_that_waits_is_timed(void **state)
{
	int ends[2];
	char byte = 'x';

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	add(ends[0]);
	fake_off_cpu_set(0, true);
	ky_tokio_call_ticks_min = 0;
	assert_int_equal(send(ends[1], &byte, 1, 0), 1);
	assert_int_equal(calls.recv(ends[0], &byte, 1, 0), 1);
	assert_int_equal(fake_off_cpu().descriptor, ends[0]);
	close(ends[0]);
	close(ends[1]);
}

static void unregistered__descriptor_is_asked_about_now_and_then(void **state)
{
	(void)state;
	rest();
	assert_true(is_timed(pair[0]));
	assert_int_equal(fake_nonblocking_asked(), 0);
	begin_poll(now_ticks + REST - 1);
	assert_true(is_timed(pair[0]));
	begin_poll(now_ticks + 1);
	assert_false(is_timed(pair[0]));
	assert_false(is_timed(pair[0]));
	assert_true(is_timed(pair[1])); /* within the same rest */
	assert_int_equal(fake_nonblocking_asked(), 1);
	begin_poll(now_ticks + REST);
	assert_false(is_timed(pair[1]));
	assert_int_equal(fake_nonblocking_asked(), 2);
}

static void known__descriptor_is_asked_about_again_after_its_life(void **state)
{
	(void)state;
	add(pair[0]);
	begin_poll(now_ticks + (KY_TOKIO_NONBLOCKING_LIFE - 1) * UNIT);
	assert_false(is_timed(pair[0]));
	assert_int_equal(fake_nonblocking_asked(), 1);
	begin_poll(now_ticks + UNIT);
	rest();
	assert_true(is_timed(pair[0]));
	begin_poll(now_ticks + REST);
	assert_false(is_timed(pair[0]));
	assert_int_equal(fake_nonblocking_asked(), 2);
}

static void flag__of_a_call_needs_no_clock(void **state)
{
	struct msghdr message = {0};
	uint32_t before;
	int ends[2];
	char byte = 'x';

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	before = clock_reads;
	assert_int_equal(calls.send(ends[0], &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(calls.recv(ends[0], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(calls.recvmsg(ends[0], &message, MSG_DONTWAIT), -1);
	assert_int_equal(clock_reads, before);
	assert_int_equal(fake_nonblocking_asked(), 0);
	close(ends[0]);
	close(ends[1]);
}

/* A number whose descriptor is another one is not known, whoever gave it away. */
static void close__and_its_like_make_a_number_unknown(void **state)
{
	int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), fd = pair[0];

	(void)state;
	assert_true(other >= 0);
	rest();
	add(fd);
	assert_int_equal(calls.epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_true(is_timed(fd));
	add(fd);
	assert_int_equal(calls.dup2(other, fd), fd);
	assert_true(is_timed(fd));
	add(fd);
	assert_int_equal(calls.dup3(other, fd, O_CLOEXEC), fd);
	assert_true(is_timed(fd));
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL), 0);
	add(fd);
	assert_int_equal(calls.close(fd), 0); /* without EPOLL_CTL_DEL */
	assert_int_equal(dup2(other, fd), fd);
	assert_true(is_timed(fd));
	close(other);
}

/* Closed by an object whose calls we do not see; the number comes back from one that we do. */
static void reuse__of_a_number_by_open_and_accept_is_seen(void **state)
{
	int fd = pair[0], listener = socket(AF_UNIX, SOCK_STREAM, 0), client, next;
	struct sockaddr_un {
		sa_family_t family;
		char path[108];
	} address = {.family = AF_UNIX};
	socklen_t bytes = sizeof(sa_family_t);

	(void)state;
	assert_true(listener >= 0);
	rest();
	add(fd);
	close(fd);
	assert_int_equal(calls.open("/dev/null", O_RDONLY, 0), fd);
	assert_true(is_timed(fd));
	/* A listener with a name that the kernel makes up. */
	assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
	bytes = sizeof(address);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, bytes), 0);
	close(fd);
	next = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(next, fd);
	add(next);
	close(next);
	assert_int_equal(calls.accept4(listener, NULL, NULL, SOCK_NONBLOCK), fd);
	assert_true(is_timed(fd));
	close(client);
	close(listener);
}

static void flags__that_are_taken_back_make_all_unknown(void **state)
{
	int copy = dup(pair[0]), on = 1, off = 0;

	(void)state;
	rest();
	/* Each of them through a copy, which shares the flags. */
	for (int way = 0; way < 3; way++) {
		add(pair[0]);
		assert_false(is_timed(pair[0]));
		if (way == 0)
			assert_int_equal(calls.ioctl(copy, FIONBIO, &off), 0);
		else
			assert_int_equal((way == 1 ? calls.fcntl : calls.fcntl64)(copy, F_SETFL, 0),
					 0);
		assert_int_equal(fcntl(copy, F_SETFL, O_NONBLOCK), 0); /* so that it returns */
		assert_true(is_timed(pair[0]));
		assert_int_equal(epoll_ctl(poller, EPOLL_CTL_DEL, pair[0], NULL), 0);
	}
	/* Given, it takes nothing back; nor does what failed, or reads. */
	add(pair[0]);
	assert_int_equal(calls.ioctl(copy, FIONBIO, &on), 0);
	assert_int_equal(calls.fcntl(copy, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(calls.fcntl(-1, F_SETFL, 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(calls.ioctl(-1, FIONBIO, &off), -1);
	assert_true(calls.fcntl(copy, F_GETFL, 0) & O_NONBLOCK);
	assert_false(is_timed(pair[0]));
	close(copy);
}

static void fork__child_has_its_own_knowledge(void **state)
{
	int status = -1;
	pid_t child;

	(void)state;
	add(pair[0]);
	add(pair[1]);
	rest();
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)calls.close(pair[0]);
		_exit(dup2(pair[1], pair[0]) == pair[0] && is_timed(pair[0]) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(is_timed(pair[0]));
}

static void unknown__is_what_cannot_be_asked_or_has_no_poll(void **state)
{
	int high = fcntl(pair[0], F_DUPFD, 0), fd;

	(void)state;
	fake_nonblocking_set(true);
	add(pair[0]);
	assert_true(is_timed(pair[0]));
	fake_nonblocking_set(false);
	begin_poll(now_ticks + REST);
	assert_false(is_timed(pair[0]));
	/* Polls are not recorded: there is no time by which it would be forgotten. */
	ky_tokio_self.poll_ticks = 0;
	assert_true(is_timed(pair[0]));
	assert_int_equal(fake_nonblocking_asked(), 1);
	/* Beyond the table. */
	begin_poll(now_ticks + REST);
	fd = fcntl(pair[0], F_DUPFD, (int)KY_TOKIO_NONBLOCKING_MAX);
	if (fd >= 0) {
		add(fd);
		assert_true(is_timed(fd));
		assert_int_equal(calls.close(fd), 0);
	}
	close(high);
}

static void gate__that_is_closed_asks_nothing(void **state)
{
	uint32_t before;
	char byte;

	(void)state;
	add(pair[0]);
	assert_int_equal(epoll_ctl(poller, EPOLL_CTL_DEL, pair[0], NULL), 0);
	fake_recorder_reset(~(uint32_t)(KYMO_GATE_OFF_CPU | KYMO_GATE_CONN));
	add(pair[0]);
	before = clock_reads;
	assert_int_equal(calls.recv(pair[0], &byte, 1, 0), -1);
	assert_int_equal(clock_reads, before);
	assert_int_equal(fake_nonblocking_asked(), 1);
	/* Opened again, what was registered meanwhile is not known. */
	fake_recorder_reset(~(uint32_t)KYMO_GATE_CONN);
	rest();
	assert_true(is_timed(pair[0]));
}

/* They count when they fail, timed or not. */
static void failures__are_counted_without_a_clock(void **state)
{
	uint32_t before;
	char byte;

	(void)state;
	add(pair[0]);
	ky_tokio_failing = (struct ky_tokio_failing){0};
	before = clock_reads;
	for (uint32_t i = 0; i < KY_TOKIO_ROW_MIN; i++)
		assert_int_equal(calls.recv(pair[0], &byte, 1, 0), -1);
	assert_int_equal(clock_reads, before);
	assert_int_equal(fake_last_of(KYMO_RECORD_FAILED_CALLS).arg, EAGAIN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(registered__descriptor_needs_no_clock),
		CASE(registered__descriptor_that_waits_is_timed),
		CASE(unregistered__descriptor_is_asked_about_now_and_then),
		CASE(known__descriptor_is_asked_about_again_after_its_life),
		CASE(flag__of_a_call_needs_no_clock),
		CASE(close__and_its_like_make_a_number_unknown),
		CASE(reuse__of_a_number_by_open_and_accept_is_seen),
		CASE(flags__that_are_taken_back_make_all_unknown),
		CASE(fork__child_has_its_own_knowledge),
		CASE(unknown__is_what_cannot_be_asked_or_has_no_poll),
		CASE(gate__that_is_closed_asks_nothing),
		CASE(failures__are_counted_without_a_clock),
	};

	return cmocka_run_group_tests_name("nonblocking", tests, NULL, NULL);
}
