/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* socket_waits.h - threads that stand in a call on a TCP socket, and what that socket's state is.
 *
 * A thread that did not switch between two readings is asked once which call it stands in: it
 * cannot be in another one before it switches. The socket of such a call is borrowed for a moment
 * (pidfd_getfd) and asked at each reading. Calls that wait for several descriptors say none of
 * them.
 * Threads: owner. Memory: none but the structure; no descriptor is kept.
 */
#ifndef KY_PROBE_SOCKET_WAITS_H
#define KY_PROBE_SOCKET_WAITS_H

#include <proc/proc_reader.h>
#include <wire/resource_area.h>

/* Sockets that are asked in a reading. */
#define KY_SOCKET_WAITS_MAX 16u

enum ky_socket_call {
	KY_SOCKET_CALL_UNASKED = 0,
	KY_SOCKET_CALL_OTHER, /* it runs, or stands in a call that is none of a TCP socket's */
	KY_SOCKET_CALL_TCP
};

/* Of one thread. */
struct ky_socket_wait {
	uint64_t since_ns; /* when its switches were first seen to be as many as they are */
	uint32_t syscall_number;
	int32_t fd;
	uint8_t call; /* enum ky_socket_call */
};

/* It has switched since the reading before, or is new. */
static inline void ky_socket_wait_begin(struct ky_socket_wait *wait, uint64_t now_ns)
{
	*wait = (struct ky_socket_wait){.since_ns = now_ns};
}

/* At a reading of a thread that has not switched. is_own: the process is the calling one. Returns
 * 1: out is a row; 0: there is none; -errno: why it cannot be known. */
int ky_socket_wait_read(struct ky_socket_wait *wait, const struct ky_proc_reader *reader,
			bool is_own, uint32_t tid, struct ky_resource_row *out);

#endif
