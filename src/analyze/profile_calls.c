/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the calls of several intervals off CPU were made with, and how they ended. */
#include <analyze/profile_cpu.h>

const char *ky_fd_kind_name(uint8_t kind)
{
	static const char *const names[] = {"",       "file",     "directory",
					    "pipe",   "terminal", "device",
					    "tcp",    "udp",      "unix_socket",
					    "socket", "anonymous"};

	return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

/* Returns false when there are more than fit. */
static bool add_once(uint16_t *list, uint8_t *count, uint16_t value)
{
	for (uint32_t i = 0; i < *count; i++)
		if (list[i] == value)
			return true;
	if (*count == KY_STACK_PROFILE_CALLS)
		return false;
	list[(*count)++] = value;
	return true;
}

void ky_stack_profile_calls_add(struct ky_stack_profile_calls *calls,
				const struct ky_stack_row *row)
{
	calls->fd_kind = row->fd_kind;
	if (row->peer_port && !add_once(calls->peer_ports, &calls->peer_port_count, row->peer_port))
		calls->has_more_peer_ports = true;
	if (row->local_port && calls->local_port && calls->local_port != row->local_port)
		calls->has_local_ports = true;
	if (row->local_port)
		calls->local_port = calls->has_local_ports ? 0 : row->local_port;
	if (row->error) {
		calls->failed_count++;
		if (!add_once(calls->errors, &calls->error_count, row->error))
			calls->has_more_errors = true;
	}
	if (row->moved_bytes != UINT64_MAX && row->moved_bytes <= UINT64_MAX - calls->moved_bytes) {
		calls->moved_bytes += row->moved_bytes;
		calls->moved_count++;
	}
}
