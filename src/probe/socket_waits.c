/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/socket_waits.h>

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <proc/cgroup_files.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The numbers are those of all architectures; older headers lack them. */
#define PIDFD_OPEN 434
#define PIDFD_GETFD 438

#define MS_NS UINT64_C(1000000)

/* ---- the call ---- */

/* Calls whose first argument is the descriptor that they wait for. */
static bool is_of_a_socket(long number)
{
	static const long numbers[] = {SYS_read,     SYS_readv,    SYS_recvfrom, SYS_recvmsg,
				       SYS_recvmmsg, SYS_write,    SYS_writev,   SYS_sendto,
				       SYS_sendmsg,  SYS_sendmmsg, SYS_connect};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* "running"; "-1 SP PC"; "NUMBER ARGUMENT.. SP PC". Returns 1: it stands in such a call; 0;
 * -errno. */
static int read_call(struct ky_socket_wait *wait, const struct ky_proc_reader *reader, uint32_t tid)
{
	char path[64], text[256], *end, *after;
	unsigned long long fd;
	long number;
	int count;

	(void)snprintf(path, sizeof(path), "task/%u/syscall", tid);
	count = ky_proc_read_text(reader->dir, path, text, sizeof(text));
	if (count < 0)
		return count;
	number = strtol(text, &end, 10);
	if (end == text || *end != ' ' || !is_of_a_socket(number))
		return 0;
	fd = strtoull(end, &after, 16);
	if (after == end || fd > INT32_MAX)
		return 0;
	wait->syscall_number = (uint32_t)number;
	wait->fd = (int32_t)fd;
	return 1;
}

/* ---- the socket ---- */

/* A descriptor of ours for that of the process. */
static int borrow(const struct ky_proc_reader *reader, int32_t fd)
{
	struct stat st;
	int process, ours;

	if (!reader->pid)
		return -ESRCH;
	process = (int)syscall(PIDFD_OPEN, reader->pid, 0);
	if (process < 0)
		return -errno;
	/* While the reader's folder has files, the number is that process's. */
	if (fstatat(reader->dir, "stat", &st, 0) != 0) {
		close(process);
		return -ESRCH;
	}
	ours = (int)syscall(PIDFD_GETFD, process, fd, 0);
	if (ours < 0)
		ours = -errno;
	close(process);
	return ours;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
	if (address->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
	return 0;
}

static bool take_socket(int fd, struct ky_resource_row *row)
{
	struct sockaddr_storage address = {0};
	socklen_t bytes = sizeof(struct tcp_info);
	struct tcp_info info = {0};
	int queued = 0;

	/* Only a TCP socket has it. */
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
		return false;
	ky_resource_set(row, KY_SOCKET_STATE, info.tcpi_state);
	ky_resource_set(row, KY_SOCKET_UNACKED, info.tcpi_unacked);
	ky_resource_set(row, KY_SOCKET_RETRANSMITS, info.tcpi_retransmits);
	if (info.tcpi_state != TCP_SYN_SENT && info.tcpi_state != TCP_LISTEN) /* else: since boot */
		ky_resource_set(row, KY_SOCKET_SILENT_NS, info.tcpi_last_data_recv * MS_NS);
	if (ioctl(fd, SIOCOUTQ, &queued) == 0 && queued >= 0)
		ky_resource_set(row, KY_SOCKET_SEND_QUEUE, (uint64_t)queued);
	bytes = sizeof(address);
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && port_of(&address))
		ky_resource_set(row, KY_SOCKET_LOCAL_PORT, port_of(&address));
	bytes = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &bytes) == 0 && port_of(&address))
		ky_resource_set(row, KY_SOCKET_PEER_PORT, port_of(&address));
	return true;
}

/* Returns 1: the row has the socket; 0: it is none of TCP, or closed; -errno. */
static int read_socket(const struct ky_socket_wait *wait, const struct ky_proc_reader *reader,
		       bool is_own, struct ky_resource_row *row)
{
	int fd = is_own ? wait->fd : borrow(reader, wait->fd);
	bool is_taken;

	if (fd == -EBADF || fd == -ESRCH)
		return 0;
	if (fd < 0)
		return fd;
	is_taken = take_socket(fd, row);
	if (!is_own)
		close(fd);
	return is_taken;
}

int ky_socket_wait_read(struct ky_socket_wait *wait, const struct ky_proc_reader *reader,
			bool is_own, uint32_t tid, struct ky_resource_row *out)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_SOCKET};
	int got;

	if (wait->call == KY_SOCKET_CALL_OTHER)
		return 0;
	if (wait->call == KY_SOCKET_CALL_UNASKED) {
		got = read_call(wait, reader, tid);
		if (got == -ENOENT || got == -ESRCH) /* it ended, or the kernel does not say it */
			got = 0;
		if (got <= 0) {
			wait->call = got == 0 ? KY_SOCKET_CALL_OTHER : KY_SOCKET_CALL_UNASKED;
			return got;
		}
	}
	got = read_socket(wait, reader, is_own, &row);
	if (got < 0)
		return got;
	wait->call = got ? KY_SOCKET_CALL_TCP : KY_SOCKET_CALL_OTHER;
	if (!got)
		return 0;
	ky_resource_set(&row, KY_SOCKET_TID, tid);
	ky_resource_set(&row, KY_SOCKET_FD, (uint64_t)wait->fd);
	ky_resource_set(&row, KY_SOCKET_SYSCALL, wait->syscall_number);
	ky_resource_set(&row, KY_SOCKET_SINCE_NS, wait->since_ns);
	*out = row;
	return 1;
}
