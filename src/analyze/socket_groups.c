/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/socket_groups.h>

#include <base/json_write.h>
#include <base/text.h>
#include <string.h>

const char *ky_tcp_state_name(uint32_t state)
{
	static const char *const names[] = {"",           "ESTABLISHED", "SYN_SENT",  "SYN_RECV",
					    "FIN_WAIT1",  "FIN_WAIT2",   "TIME_WAIT", "CLOSE",
					    "CLOSE_WAIT", "LAST_ACK",    "LISTEN",    "CLOSING"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "";
}

static bool is_one_call(const struct ky_trace_socket_wait *a, const struct ky_trace_socket_wait *b)
{
	return a->tid == b->tid && a->since_ns == b->since_ns && a->fd == b->fd;
}

static uint64_t length_of(const struct ky_trace_socket_wait *wait)
{
	return wait->time_ns - wait->since_ns;
}

static bool is_before(const struct ky_trace_socket_wait *a, const struct ky_trace_socket_wait *b)
{
	if ((a->task != KY_NONE) != (b->task != KY_NONE))
		return a->task != KY_NONE;
	return length_of(a) > length_of(b);
}

/* It is longer than at the reading before. */
static void move_up(struct ky_socket_groups *groups, uint32_t at)
{
	for (; at && is_before(&groups->list[at], &groups->list[at - 1]); at--) {
		struct ky_trace_socket_wait moved = groups->list[at];

		groups->list[at] = groups->list[at - 1];
		groups->list[at - 1] = moved;
	}
}

static void take(struct ky_socket_groups *groups, const struct ky_trace_socket_wait *wait)
{
	uint32_t at = 0;

	while (at < groups->count && !is_one_call(&groups->list[at], wait))
		at++;
	if (at == KY_SOCKET_GROUPS_MAX) {
		groups->more++;
		return;
	}
	groups->count += at == groups->count;
	groups->list[at] = *wait;
	move_up(groups, at);
}

void ky_socket_groups(struct ky_socket_groups *out, const struct ky_trace *trace, uint64_t from_ns,
		      uint64_t to_ns)
{
	*out = (struct ky_socket_groups){.count = 0};
	for (uint32_t i = 0; i < trace->socket_wait_count; i++) {
		const struct ky_trace_socket_wait *wait = &trace->socket_waits[i];

		if (wait->time_ns >= from_ns && (!to_ns || wait->time_ns < to_ns))
			take(out, wait);
	}
}

/* Its thread did not switch since then, so it stood there already: the poll had begun. */
const struct ky_trace_socket_wait *ky_socket_wait_in(const struct ky_trace *trace,
						     const struct ky_poll *poll)
{
	const struct ky_trace_socket_wait *found = NULL;

	for (uint32_t i = 0; i < trace->socket_wait_count; i++) {
		const struct ky_trace_socket_wait *wait = &trace->socket_waits[i];

		if (wait->task != KY_NONE && wait->task == poll->task &&
		    wait->since_ns >= poll->start_ns &&
		    wait->time_ns - poll->start_ns <= poll->duration_ns)
			found = wait;
	}
	return found;
}

static void port(struct ky_buf *out, const char *key, uint16_t number)
{
	ky_json_number_or_null(out, key, number != 0, number);
}

void ky_socket_groups_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			   uint64_t to_ns)
{
	struct ky_socket_groups groups;

	ky_socket_groups(&groups, trace, from_ns, to_ns);
	if (!groups.count)
		return;
	ky_json_open(out, "socket_waits", "[");
	for (uint32_t i = 0; i < groups.count; i++) {
		const struct ky_trace_socket_wait *wait = &groups.list[i];
		const char *state = ky_tcp_state_name(wait->tcp_state);
		const char *name = wait->task == KY_NONE ?
					   "" :
					   ky_trace_name(trace, trace->tasks[wait->task].name);

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", wait->tid);
		ky_json_key(out, "task");
		ky_json_string(out, name, strlen(name));
		ky_json_number(out, "syscall", wait->syscall);
		ky_json_number(out, "fd", wait->fd);
		port(out, "local_port", wait->local_port);
		port(out, "peer_port", wait->peer_port);
		ky_json_key(out, "state");
		ky_json_string(out, state, strlen(state));
		ky_json_number(out, "since_ns", wait->since_ns);
		ky_json_number(out, "to_ns", wait->time_ns);
		ky_json_number(out, "unacked", wait->unacked);
		ky_json_number(out, "retransmits", wait->retransmits);
		ky_json_number_or_null(out, "send_queue_bytes", wait->send_queue != UINT64_MAX,
				       wait->send_queue);
		ky_json_number_or_null(out, "silent_ns", wait->silent_ns != UINT64_MAX,
				       wait->silent_ns);
		ky_text(out, "}");
	}
	ky_text(out, "]");
	ky_json_number(out, "socket_waits_more", groups.more);
}
