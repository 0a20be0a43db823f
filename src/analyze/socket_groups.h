/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* socket_groups.h - calls on TCP sockets that threads stood in for long, one row a call, with what
 * was read of its socket last.
 *
 * How long is at least so long: from one reading to another. Those of tasks and closures come
 * first, then the longest.
 * Threads: any.
 */
#ifndef KY_ANALYZE_SOCKET_GROUPS_H
#define KY_ANALYZE_SOCKET_GROUPS_H

#include <base/buf.h>
#include <read/trace.h>

#define KY_SOCKET_GROUPS_MAX 32u

struct ky_socket_groups {
	struct ky_trace_socket_wait list[KY_SOCKET_GROUPS_MAX]; /* the last reading of each */
	uint32_t count;
	uint32_t more; /* calls that found no room */
};

/* Readings in [from, to); to 0: no end. */
void ky_socket_groups(struct ky_socket_groups *out, const struct ky_trace *trace, uint64_t from_ns,
		      uint64_t to_ns);
/* The last reading within the poll; NULL: none. */
const struct ky_trace_socket_wait *ky_socket_wait_in(const struct ky_trace *trace,
						     const struct ky_poll *poll);
/* "ESTABLISHED", ..; "": not known. */
const char *ky_tcp_state_name(uint32_t state);
/* Key "socket_waits"; none where there are none. */
void ky_socket_groups_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			   uint64_t to_ns);

#endif
