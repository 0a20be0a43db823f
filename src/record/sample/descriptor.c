/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/descriptor.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Majors of terminals: 4 and 5 the machine's own, 136 to 143 pseudo terminals. */
#define TTY_MAJOR 4u
#define TTY_AUX_MAJOR 5u
#define PTY_MAJOR_FIRST 136u
#define PTY_MAJOR_LAST 143u

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

static uint16_t port_of(const union address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohs(address->v4.sin_port);
	if (address->any.sa_family == AF_INET6)
		return ntohs(address->v6.sin6_port);
	return 0;
}

static int option_of(int fd, int name)
{
	int value = -1;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

static void describe_socket(int fd, struct ky_call_facts *out)
{
	int domain = option_of(fd, SO_DOMAIN), protocol;
	union address address = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t bytes = sizeof(address);

	out->fd_kind = domain == AF_UNIX ? KY_FD_UNIX : KY_FD_SOCKET;
	if (domain != AF_INET && domain != AF_INET6)
		return;
	protocol = option_of(fd, SO_PROTOCOL);
	if (protocol == IPPROTO_TCP)
		out->fd_kind = KY_FD_TCP;
	else if (protocol == IPPROTO_UDP)
		out->fd_kind = KY_FD_UDP;
	if (getsockname(fd, &address.any, &bytes) == 0)
		out->local_port = port_of(&address);
	bytes = sizeof(address);
	if (getpeername(fd, &address.any, &bytes) == 0)
		out->peer_port = port_of(&address);
	if (protocol == IPPROTO_TCP) {
		uint8_t state = 0; /* the first byte of struct tcp_info */

		bytes = sizeof(state);
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &bytes) == 0)
			out->tcp_state = state;
	}
}

static enum ky_fd_kind device_kind(dev_t device)
{
	unsigned int kind = major(device);
	bool is_terminal = kind == TTY_MAJOR || kind == TTY_AUX_MAJOR ||
			   (kind >= PTY_MAJOR_FIRST && kind <= PTY_MAJOR_LAST);

	return is_terminal ? KY_FD_TERMINAL : KY_FD_DEVICE;
}

void ky_descriptor_describe(int32_t fd, struct ky_call_facts *out)
{
	struct stat status;

	out->fd = fd;
	if (fd < 0 || fstat(fd, &status) != 0)
		return;
	switch (status.st_mode & S_IFMT) {
	case S_IFREG:
		out->fd_kind = KY_FD_FILE;
		break;
	case S_IFDIR:
		out->fd_kind = KY_FD_DIRECTORY;
		break;
	case S_IFIFO:
		out->fd_kind = KY_FD_PIPE;
		break;
	case S_IFCHR:
		out->fd_kind = (uint8_t)device_kind(status.st_rdev);
		break;
	case S_IFBLK:
		out->fd_kind = KY_FD_DEVICE;
		break;
	case S_IFSOCK:
		describe_socket(fd, out);
		break;
	case 0: /* no file system has it */
		out->fd_kind = KY_FD_ANONYMOUS;
		break;
	default:
		break;
	}
}
