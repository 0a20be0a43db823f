/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A thread, and a child, that stand in calls on real sockets. What a case waits for is the kernel's
 * word that the call was begun. */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <netinet/in.h>
#include <probe/socket_waits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SINCE 1000u
#define ESTABLISHED 1u

static int ends[2]; /* of a TCP connection */
static uint16_t port;
static _Atomic uint32_t tid;
static struct ky_proc_reader reader; /* large */

static int setup(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	port = ntohs(address.sin_port);
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&address, sizeof(address)), 0);
	ends[1] = accept(listener, NULL, NULL);
	assert_true(ends[1] >= 0);
	close(listener);
	tid = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void *read_one(void *fd)
{
	char byte;

	tid = (uint32_t)syscall(SYS_gettid);
	return (void *)(intptr_t)recv(*(int *)fd, &byte, 1, 0);
}

/* Until it stands in the call: each time as if it had switched. */
static int read_until(struct ky_socket_wait *wait, bool is_own, uint32_t of,
		      struct ky_resource_row *row)
{
	int got = 0;

	while (got == 0) {
		ky_socket_wait_begin(wait, SINCE);
		got = ky_socket_wait_read(wait, &reader, is_own, of, row);
	}
	return got;
}

static void check_row(const struct ky_resource_row *row, uint32_t of)
{
	assert_int_equal(row->kind, KY_RESOURCE_SOCKET);
	assert_int_equal(row->values[KY_SOCKET_TID], of);
	assert_int_equal(row->values[KY_SOCKET_FD], ends[0]);
	assert_int_equal(row->values[KY_SOCKET_SYSCALL], SYS_recvfrom);
	assert_int_equal(row->values[KY_SOCKET_SINCE_NS], SINCE);
	assert_int_equal(row->values[KY_SOCKET_STATE], ESTABLISHED);
	assert_int_equal(row->values[KY_SOCKET_PEER_PORT], port);
	assert_true(ky_resource_has(row, KY_SOCKET_LOCAL_PORT));
	assert_true(ky_resource_has(row, KY_SOCKET_SEND_QUEUE));
}

static void read__has_the_socket_that_a_thread_of_ours_stands_on(void **state)
{
	struct ky_resource_row row;
	struct ky_socket_wait wait;
	pthread_t thread;

	(void)state;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, read_one, &ends[0]), 0);
	while (!tid)
		continue;
	assert_int_equal(read_until(&wait, true, tid, &row), 1);
	check_row(&row, tid);
	/* It is not asked again which call it is, but the socket is. */
	assert_int_equal(wait.call, KY_SOCKET_CALL_TCP);
	assert_int_equal(ky_socket_wait_read(&wait, &reader, true, tid, &row), 1);
	assert_int_equal(send(ends[1], "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ky_proc_reader_close(&reader);
}

static void read__borrows_the_socket_of_another_process(void **state)
{
	struct ky_resource_row row;
	struct ky_socket_wait wait;
	pid_t child = fork();
	int got;

	(void)state;
	if (child == 0) {
		read_one(&ends[0]);
		_exit(0);
	}
	assert_true(child > 0);
	ky_proc_reader_open(&reader, NULL, NULL, (uint32_t)child, 0);
	got = read_until(&wait, false, (uint32_t)child, &row);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* What is not permitted is said, and asked again. */
	if (got < 0) {
		assert_true(got == -EPERM || got == -EACCES || got == -ENOSYS);
		assert_int_equal(wait.call, KY_SOCKET_CALL_UNASKED);
	} else {
		check_row(&row, (uint32_t)child);
	}
	/* It is gone. */
	ky_socket_wait_begin(&wait, SINCE);
	assert_int_equal(ky_socket_wait_read(&wait, &reader, false, (uint32_t)child, &row), 0);
	ky_proc_reader_close(&reader);
}

/* A descriptor of that number that is none of TCP, and one that is none at all. */
static void read__of_other_descriptors_has_nothing(void **state)
{
	struct ky_socket_wait wait = {.fd = 0, .call = KY_SOCKET_CALL_TCP};
	struct ky_resource_row row;
	int pair[2];

	(void)state;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	wait.fd = pair[0];
	assert_int_equal(ky_socket_wait_read(&wait, &reader, true, 1, &row), 0);
	assert_int_equal(wait.call, KY_SOCKET_CALL_OTHER);
	/* Until it switches, it is not asked again. */
	wait.fd = ends[0];
	assert_int_equal(ky_socket_wait_read(&wait, &reader, true, 1, &row), 0);
	close(pair[0]);
	close(pair[1]);
	wait = (struct ky_socket_wait){.fd = pair[0], .call = KY_SOCKET_CALL_TCP};
	assert_int_equal(ky_socket_wait_read(&wait, &reader, true, 1, &row), 0);
	ky_proc_reader_close(&reader);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(read__has_the_socket_that_a_thread_of_ours_stands_on),
		CASE(read__borrows_the_socket_of_another_process),
		CASE(read__of_other_descriptors_has_nothing),
	};

	return cmocka_run_group_tests_name("socket_waits", tests, NULL, NULL);
}
