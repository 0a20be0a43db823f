/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads that stood in calls on TCP sockets: a list in the order of time. */
#include <read/load.h>

#define LIST_MAX (1u << 20)

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

bool ky_load_socket_wait(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint64_t task_id = number(frame, KY_F_SOCKET_WAIT_task_id);
	struct ky_trace_socket_wait wait = {
		.time_ns = number(frame, KY_F_SOCKET_WAIT_read_ns),
		.since_ns = number(frame, KY_F_SOCKET_WAIT_since_ns),
		.syscall = number(frame, KY_F_SOCKET_WAIT_syscall_number),
		.fd = number(frame, KY_F_SOCKET_WAIT_fd),
		.unacked = number(frame, KY_F_SOCKET_WAIT_unacked),
		.retransmits = number(frame, KY_F_SOCKET_WAIT_retransmits),
		.send_queue = ky_frame_number(frame, KY_F_SOCKET_WAIT_send_queue_bytes, UINT64_MAX),
		.silent_ns = ky_frame_number(frame, KY_F_SOCKET_WAIT_silent_ns, UINT64_MAX),
		.tid = (uint32_t)number(frame, KY_F_SOCKET_WAIT_tid),
		.local_port = (uint16_t)number(frame, KY_F_SOCKET_WAIT_local_port),
		.peer_port = (uint16_t)number(frame, KY_F_SOCKET_WAIT_peer_port),
		.tcp_state = (uint8_t)number(frame, KY_F_SOCKET_WAIT_tcp_state),
		.task = KY_NONE,
	};
	uint32_t at;

	/* From elsewhere: what contradicts itself says nothing. */
	if (wait.since_ns > wait.time_ns || trace->socket_wait_count == LIST_MAX)
		return true;
	if (task_id) {
		wait.task = ky_load_task(load, task_id, frame->timestamp_ns);
		if (wait.task == KY_NONE)
			return false;
	}
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->socket_waits, &trace->socket_wait_capacity,
			    trace->socket_wait_count + 1, sizeof(wait)))
		return false;
	/* Files may come in any order. */
	for (at = trace->socket_wait_count++;
	     at && trace->socket_waits[at - 1].time_ns > wait.time_ns; at--)
		trace->socket_waits[at] = trace->socket_waits[at - 1];
	trace->socket_waits[at] = wait;
	return true;
}
