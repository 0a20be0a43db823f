/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Each kind of descriptor is known as what it is, and stays as it was. */
#include "../../lib/cmocka_all.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <record/sample/descriptor.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* And closes it. */
static struct ky_call_facts facts_of(int fd)
{
	struct ky_call_facts facts = {.fd = -1, .bytes = -1};
	int flags = fcntl(fd, F_GETFL);

	assert_true(fd >= 0);
	ky_descriptor_describe(fd, &facts);
	assert_int_equal(facts.fd, fd);
	assert_int_equal(fcntl(fd, F_GETFL), flags);
	close(fd);
	return facts;
}

static void descriptor__files_pipes_and_devices_are_known(void **state)
{
	char path[] = "/tmp/kymo-descriptor-XXXXXX";
	int ends[2], leader, follower;

	(void)state;
	assert_int_equal(facts_of(mkstemp(path)).fd_kind, KY_FD_FILE);
	unlink(path);
	assert_int_equal(facts_of(open("/", O_RDONLY)).fd_kind, KY_FD_DIRECTORY);
	assert_int_equal(facts_of(open("/dev/null", O_RDONLY)).fd_kind, KY_FD_DEVICE);
	assert_int_equal(facts_of(eventfd(0, 0)).fd_kind, KY_FD_ANONYMOUS);
	assert_int_equal(facts_of(epoll_create1(0)).fd_kind, KY_FD_ANONYMOUS);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(facts_of(ends[0]).fd_kind, KY_FD_PIPE);
	assert_int_equal(facts_of(ends[1]).fd_kind, KY_FD_PIPE);
	if (openpty(&leader, &follower, NULL, NULL, NULL) != 0)
		return; /* no devpts here */
	assert_int_equal(facts_of(follower).fd_kind, KY_FD_TERMINAL);
	close(leader);
}

static void descriptor__sockets_have_their_ports(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	struct ky_call_facts facts;
	uint16_t port;
	int ends[2];

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	port = ntohs(address.sin_port);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	facts = facts_of(client);
	assert_int_equal(facts.fd_kind, KY_FD_TCP);
	assert_int_equal(facts.peer_port, port);
	assert_true(facts.local_port != 0 && facts.local_port != port);
	assert_int_equal(facts.tcp_state, 1); /* established */
	facts = facts_of(listener);
	assert_int_equal(facts.fd_kind, KY_FD_TCP);
	assert_int_equal(facts.local_port, port);
	assert_int_equal(facts.peer_port, 0);
	assert_int_equal(facts.tcp_state, 10); /* listening */
	facts = facts_of(socket(AF_INET6, SOCK_DGRAM, 0));
	assert_int_equal(facts.fd_kind, KY_FD_UDP);
	assert_int_equal(facts.tcp_state, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(facts_of(ends[0]).fd_kind, KY_FD_UNIX);
	close(ends[1]);
}

static void descriptor__closed_one_is_not_known(void **state)
{
	struct ky_call_facts facts = {.fd = -1, .bytes = -1};
	int fd = eventfd(0, 0);

	(void)state;
	close(fd);
	ky_descriptor_describe(fd, &facts);
	assert_int_equal(facts.fd, fd);
	assert_int_equal(facts.fd_kind, KY_FD_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptor__files_pipes_and_devices_are_known),
		cmocka_unit_test(descriptor__sockets_have_their_ports),
		cmocka_unit_test(descriptor__closed_one_is_not_known),
	};

	return cmocka_run_group_tests_name("descriptor", tests, NULL, NULL);
}
