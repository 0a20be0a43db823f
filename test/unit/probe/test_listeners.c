/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Accept queues: of sockets of this process, and of bytes that a kernel might send. */
#include "../../lib/cmocka_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <probe/listeners.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKLOG 3

static struct ky_listeners listeners;
static struct ky_listener found[8];

static int open_listener(int family, struct sockaddr_storage *address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	socklen_t bytes = family == AF_INET6 ? sizeof(*six) : sizeof(*four);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(address, 0, sizeof(*address));
	address->ss_family = (sa_family_t)family;
	if (family == AF_INET6)
		six->sin6_addr = in6addr_loopback;
	else
		four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)address, bytes) != 0 ||
	    listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)address, &bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static const struct ky_listener_known *find(int fd)
{
	struct stat st;

	fstat(fd, &st);
	for (uint32_t i = 0; i < listeners.count; i++)
		if (listeners.known[i].now.inode == st.st_ino)
			return &listeners.known[i];
	return NULL;
}

/* A process with many descriptors is searched in several readings. */
static int read_until_known(int dir)
{
	int err;

	do
		err = ky_listeners_read(&listeners, dir, true);
	while (!err && ky_listeners_are_searched(&listeners));
	return err;
}

/* The last part of a handshake may be on its way when connect() is back. */
static void wait_for_callers(int fd, uint32_t count)
{
	struct tcp_info info = {.tcpi_unacked = 0}; /* of who listens: callers in the queue */
	socklen_t bytes = sizeof(info);

	do {
		sched_yield();
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	} while (info.tcpi_unacked < count);
}

static void queue__holds_connections_until_they_are_accepted(void **state)
{
	int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC), callers[BACKLOG], fd;
	const struct ky_listener_known *known;
	struct sockaddr_storage address;
	uint32_t accepted;

	(void)state;
	memset(&listeners, 0, sizeof(listeners));
	fd = open_listener(AF_INET, &address);
	assert_true(fd >= 0);
	for (int i = 0; i < BACKLOG; i++) {
		callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(callers[i], (struct sockaddr *)&address,
					 sizeof(struct sockaddr_in)),
				 0);
	}
	wait_for_callers(fd, BACKLOG);
	assert_int_equal(read_until_known(dir), 0);
	known = find(fd);
	assert_non_null(known);
	assert_int_equal(known->owner, KY_LISTENER_OURS);
	assert_int_equal(known->now.pending, BACKLOG);
	assert_int_equal(known->now.limit, BACKLOG);
	assert_int_equal(known->now.version, 4);
	assert_int_equal(known->now.port, ntohs(((struct sockaddr_in *)&address)->sin_port));
	assert_memory_equal(known->now.address, "\x7f\0\0\1", 4);
	assert_true(known->is_news);
	accepted = (uint32_t)accept(fd, NULL, NULL);
	assert_true(ky_listeners_look(&listeners));
	assert_int_equal(find(fd)->now.pending, BACKLOG - 1);
	assert_false(ky_listeners_look(&listeners));
	/* The files of /proc say the same, but no cookie. */
	ky_listeners_read(&listeners, dir, true);
	close((int)accepted);
	close(fd);
	assert_int_equal(ky_listeners_read(&listeners, dir, true), 0);
	for (uint32_t i = 0; i < listeners.count; i++)
		assert_int_not_equal(listeners.known[i].now.port,
				     ntohs(((struct sockaddr_in *)&address)->sin_port));
	for (int i = 0; i < BACKLOG; i++)
		close(callers[i]);
	close(dir);
}

static void queue__of_version_6(void **state)
{
	int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	struct sockaddr_storage address;

	(void)state;
	memset(&listeners, 0, sizeof(listeners));
	fd = open_listener(AF_INET6, &address);
	if (fd < 0) {
		close(dir);
		print_message("# a machine without IPv6\n");
		skip();
	}
	assert_int_equal(read_until_known(dir), 0);
	assert_int_equal(find(fd)->now.version, 6);
	assert_memory_equal(find(fd)->now.address, &in6addr_loopback, 16);
	assert_int_equal(find(fd)->owner, KY_LISTENER_OURS);
	close(fd);
	close(dir);
}

/* Another process's socket is in the same namespace. */
static void queue__of_another_process_is_marked_as_such(void **state)
{
	int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC), fd, ends[2];
	struct sockaddr_storage address;
	uint64_t inode;
	struct stat st;
	pid_t child;
	char byte;

	(void)state;
	memset(&listeners, 0, sizeof(listeners));
	fd = open_listener(AF_INET, &address);
	fstat(fd, &st);
	inode = st.st_ino;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0); /* until it is closed */
	}
	close(fd);
	assert_int_equal(read_until_known(dir), 0);
	for (uint32_t i = 0; i < listeners.count; i++)
		if (listeners.known[i].now.inode == inode)
			fd = -listeners.known[i].owner;
	assert_int_equal(fd, -KY_LISTENER_OTHERS);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(dir);
}

#define TITLES "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"

static void files__are_read_up_to_the_first_that_does_not_listen(void **state)
{
	static const char four[] = TITLES
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000080 00:00000000 "
		"00000000     0        0 12345 1 0000000000000000 100 0 0 10 0\n"
		"   1: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 "
		"00000000     0        0 99 1\n"
		"   2: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 "
		"00000000     0        0 77 1\n";
	static const char six[] = TITLES
		"   0: 00000000000000000000000001000000:0016 "
		"00000000000000000000000000000000:0000 0A 00000005:00000002 00:00000000 "
		"00000000     0        0 4 1\n";

	(void)state;
	assert_int_equal(ky_listeners_parse(four, 4, found, 8), 1);
	assert_int_equal(found[0].inode, 12345);
	assert_int_equal(found[0].port, 8080);
	assert_int_equal(found[0].pending, 128);
	assert_int_equal(found[0].limit, 0);
	assert_int_equal(found[0].cookie, 0);
	assert_memory_equal(found[0].address, "\x7f\0\0\1", 4);
	assert_int_equal(ky_listeners_parse(six, 6, found, 8), 1);
	assert_int_equal(found[0].port, 22);
	assert_int_equal(found[0].limit, 5);
	assert_memory_equal(found[0].address, &in6addr_loopback, 16);
	assert_int_equal(ky_listeners_parse(six, 4, found, 8), 0);
	/* A line without its end may be half a line. */
	assert_int_equal(ky_listeners_parse(TITLES "   0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 "
						   "0 0 12345",
					    4, found, 8),
			 0);
	assert_int_equal(ky_listeners_parse("", 4, found, 8), 0);
	assert_int_equal(ky_listeners_parse(four, 4, found, 0), 0);
}

static void message__of_any_length_is_taken_or_refused(void **state)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg socket;
		struct nlmsghdr done;
	} message = {
		.head = {.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(struct inet_diag_msg),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY},
		.socket = {.idiag_family = AF_INET, .idiag_state = 10, .idiag_inode = 5},
		.done = {.nlmsg_len = sizeof(struct nlmsghdr), .nlmsg_type = NLMSG_DONE},
	};
	uint32_t used = 0;

	(void)state;
	message.socket.id.idiag_cookie[0] = 1;
	message.socket.id.idiag_cookie[1] = 2;
	assert_int_equal(ky_listeners_message(&message, sizeof(message), found, 8, &used), 0);
	assert_int_equal(used, 1);
	assert_true(found[0].cookie == (UINT64_C(2) << 32 | 1));
	assert_false(found[0].has_drops);
	for (size_t count = 0; count < sizeof(message); count++) {
		used = 0;
		assert_in_range(ky_listeners_message(&message, count, found, 8, &used) + 4096, 1,
				4097);
		assert_true(used <= 1);
	}
	message.head.nlmsg_len = 3;
	assert_int_equal(ky_listeners_message(&message, sizeof(message), found, 8, &used), -EPROTO);
	message.head.nlmsg_len = UINT32_MAX;
	assert_int_equal(ky_listeners_message(&message, sizeof(message), found, 8, &used), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue__holds_connections_until_they_are_accepted),
		cmocka_unit_test(queue__of_version_6),
		cmocka_unit_test(queue__of_another_process_is_marked_as_such),
		cmocka_unit_test(files__are_read_up_to_the_first_that_does_not_listen),
		cmocka_unit_test(message__of_any_length_is_taken_or_refused),
	};

	return cmocka_run_group_tests_name("listeners", tests, NULL, NULL);
}
