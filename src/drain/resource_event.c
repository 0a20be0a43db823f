/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rows of the resource area as events. */
#include <drain/convert_stage.h>

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#define DIAL9_VALUES (KY_USAGE_INVOLUNTARY + 1u)

static void opt(struct ky_convert *convert, const struct ky_resource_row *row, uint32_t value)
{
	ky_trc_enc_opt_varint(&convert->chunk.enc, ky_resource_has(row, value), row->values[value]);
}

static void write_usage(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	const uint32_t all = (1u << DIAL9_VALUES) - 1;
	bool is_whole = (row->present & all) == all;

	ky_trc_enc_event(&convert->chunk.enc, is_whole ? KY_EV_RESOURCE_USAGE : KY_EV_PARTIAL_USAGE,
			 ns);
	for (uint32_t i = 0; i < DIAL9_VALUES; i++) {
		if (is_whole)
			ky_trc_enc_varint(&convert->chunk.enc, row->values[i]);
		else
			opt(convert, row, i);
	}
	for (uint32_t i = DIAL9_VALUES; i < KY_RESOURCE_VALUES; i++)
		opt(convert, row, i);
}

static void write_group(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_CGROUP_USAGE, ns);
	ky_trc_enc_u8(&convert->chunk.enc, row->scope);
	for (uint32_t i = 0; i <= KY_CGROUP_OOM_KILLS; i++)
		opt(convert, row, i);
}

static void write_pressure(struct ky_convert *convert, const struct ky_resource_row *row,
			   uint64_t ns)
{
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_PRESSURE, ns);
	ky_trc_enc_u8(&convert->chunk.enc, row->scope);
	for (uint32_t i = 0; i <= KY_PRESSURE_IO_FULL; i++)
		opt(convert, row, i);
}

static uint32_t saturate(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void write_listener(struct ky_convert *convert, const struct ky_resource_row *row,
			   uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	char address[INET6_ADDRSTRLEN] = "";

	if (!inet_ntop(row->scope == 6 ? AF_INET6 : AF_INET, &row->values[KY_LISTENER_ADDRESS],
		       address, sizeof(address)))
		address[0] = 0;
	ky_trc_enc_event(enc, KY_EV_TCP_ACCEPT_QUEUE, ns);
	ky_trc_enc_varint(enc, row->values[KY_LISTENER_COOKIE]);
	ky_trc_enc_varint(enc, row->values[KY_LISTENER_INODE]);
	ky_trc_enc_u8(enc, row->scope == 6 ? 6 : 4);
	ky_trc_enc_text(enc, address, strlen(address));
	ky_trc_enc_u16(enc, (uint16_t)row->values[KY_LISTENER_PORT]);
	ky_trc_enc_u32(enc, saturate(row->values[KY_LISTENER_PENDING]));
	ky_trc_enc_u32(enc, saturate(row->values[KY_LISTENER_LIMIT]));
	opt(convert, row, KY_LISTENER_DROPS);
}

static void write_drops(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_LISTEN_DROPS, ns);
	ky_trc_enc_varint(&convert->chunk.enc, row->values[0]);
	ky_trc_enc_varint(&convert->chunk.enc, row->values[1]);
}

static void write_thread(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	char name[KY_THREAD_NAME_BYTES + 1] = "";
	uint32_t pool;

	memcpy(name, &row->values[KY_THREAD_NAME], KY_THREAD_NAME_BYTES);
	pool = ky_chunk_text(&convert->chunk, name);
	ky_trc_enc_event(enc, KY_EV_THREAD_USAGE, ns);
	ky_trc_enc_u32(enc, (uint32_t)row->values[KY_THREAD_TID]);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, row->values[KY_THREAD_CPU_NS]);
	ky_trc_enc_varint(enc, row->values[KY_THREAD_DELAY_NS]);
	opt(convert, row, KY_THREAD_VOLUNTARY);
	opt(convert, row, KY_THREAD_INVOLUNTARY);
}

static void write_state(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_PROCESS_STATE, ns);
	ky_trc_enc_u8(enc, row->scope);
	ky_trc_enc_varint(enc, row->values[KY_STATE_DETAIL]);
	ky_trc_enc_varint(enc, row->values[KY_STATE_AFTER_NS]);
	ky_trc_enc_varint(enc, row->values[KY_STATE_BY_NS]);
	ky_trc_enc_u8(enc, (uint8_t)row->values[KY_STATE_SOURCE]);
}

static void write_throttled(struct ky_convert *convert, const struct ky_resource_row *row,
			    uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_THROTTLED, ns);
	ky_trc_enc_u8(enc, row->scope);
	ky_trc_enc_varint(enc, row->values[KY_THROTTLED_FROM_NS]);
	ky_trc_enc_varint(enc, row->values[KY_THROTTLED_TO_NS]);
	ky_trc_enc_varint(enc, row->values[KY_THROTTLED_NS]);
}

/* What runs on the thread, by what was merged so far. */
static void write_socket(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	const struct ky_dthread *thread = ky_thread_table_find_tid(
		&convert->common->threads, (uint32_t)row->values[KY_SOCKET_TID]);
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t task = 0;

	if (thread && thread->depth)
		task = thread->stack[thread->depth - 1].task;
	else if (thread && thread->is_blocking)
		task = thread->blocking_task;
	ky_trc_enc_event(enc, KY_EV_SOCKET_WAIT, ns);
	ky_trc_enc_u32(enc, (uint32_t)row->values[KY_SOCKET_TID]);
	ky_trc_enc_varint(enc, ky_worker_id(thread ? thread->worker : KY_NONE32));
	ky_trc_enc_varint(enc, task);
	ky_trc_enc_varint(enc, row->values[KY_SOCKET_SYSCALL]);
	ky_trc_enc_varint(enc, row->values[KY_SOCKET_FD]);
	ky_trc_enc_varint(enc, row->values[KY_SOCKET_SINCE_NS]);
	ky_trc_enc_varint(enc, row->monotonic_ns);
	ky_trc_enc_u8(enc, (uint8_t)row->values[KY_SOCKET_STATE]);
	opt(convert, row, KY_SOCKET_LOCAL_PORT);
	opt(convert, row, KY_SOCKET_PEER_PORT);
	ky_trc_enc_varint(enc, row->values[KY_SOCKET_UNACKED]);
	ky_trc_enc_varint(enc, row->values[KY_SOCKET_RETRANSMITS]);
	opt(convert, row, KY_SOCKET_SEND_QUEUE);
	opt(convert, row, KY_SOCKET_SILENT_NS);
}

void ky_convert_resource(struct ky_convert *convert, const struct ky_resource_row *row, uint64_t ns)
{
	switch (row->kind) {
	case KY_RESOURCE_USAGE:
		write_usage(convert, row, ns);
		break;
	case KY_RESOURCE_CGROUP:
		write_group(convert, row, ns);
		break;
	case KY_RESOURCE_PRESSURE:
		write_pressure(convert, row, ns);
		break;
	case KY_RESOURCE_LISTENER:
		write_listener(convert, row, ns);
		break;
	case KY_RESOURCE_DROPS:
		write_drops(convert, row, ns);
		break;
	case KY_RESOURCE_THREAD:
		write_thread(convert, row, ns);
		break;
	case KY_RESOURCE_STATE:
		write_state(convert, row, ns);
		break;
	case KY_RESOURCE_THROTTLED:
		write_throttled(convert, row, ns);
		break;
	case KY_RESOURCE_SOCKET:
		write_socket(convert, row, ns);
		break;
	default: /* of a newer writer, or nonsense */
		break;
	}
}
