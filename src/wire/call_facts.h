/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* call_facts.h - what the words `more` and `other` of an off-CPU sample of a call say beside its
 * reason: on which kind of descriptor it was, with whom, and how it ended. What is not known is
 * zero, so samples of older recorders have none of it.
 * Pure. Threads: any.
 */
#ifndef KY_WIRE_CALL_FACTS_H
#define KY_WIRE_CALL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* OffCpuEvent.fd_kind */
enum ky_fd_kind {
	KY_FD_UNKNOWN = 0,
	KY_FD_FILE = 1,
	KY_FD_DIRECTORY = 2,
	KY_FD_PIPE = 3,
	KY_FD_TERMINAL = 4,
	KY_FD_DEVICE = 5,
	KY_FD_TCP = 6,
	KY_FD_UDP = 7,
	KY_FD_UNIX = 8,
	KY_FD_SOCKET = 9,     /* of another kind */
	KY_FD_ANONYMOUS = 10, /* eventfd, epoll, timerfd, .. */
	KY_FD_KINDS = 11
};

struct ky_call_facts {
	uint8_t reason;    /* enum ky_off_cpu */
	uint8_t fd_kind;   /* enum ky_fd_kind */
	uint8_t tcp_state; /* after the call, as the kernel numbers them: 1 .. 12; 0 not known */
	uint16_t error;    /* errno of a call that failed; 0 */
	uint16_t peer_port, local_port; /* 0: not known */
	int32_t fd;                     /* -1: none */
	int64_t bytes;                  /* that it moved; -1: none, or not known */
	uint64_t lock; /* of a wait on a futex: its address, 48 bits; then no bytes and ports */
};

#define KY_CALL_FUTEX 2u /* enum ky_off_cpu */

static inline void ky_call_facts_enc(const struct ky_call_facts *facts, uint64_t *more,
				     uint64_t *other)
{
	uint64_t fd = facts->fd >= 0 ? (uint64_t)facts->fd + 1 : 0;
	uint64_t bytes = facts->bytes >= 0 && facts->bytes < UINT32_MAX ?
				 (uint64_t)facts->bytes + 1 :
				 0;

	*more = facts->reason | (uint64_t)(facts->fd_kind & 15u) << 8 |
		(uint64_t)(facts->tcp_state & 15u) << 12 | (uint64_t)facts->error << 16 | fd << 32;
	if (facts->reason == KY_CALL_FUTEX)
		*other = facts->lock & ((UINT64_C(1) << 48) - 1);
	else
		*other = bytes | (uint64_t)facts->peer_port << 32 |
			 (uint64_t)facts->local_port << 48;
}

static inline void ky_call_facts_dec(struct ky_call_facts *out, uint64_t more, uint64_t other)
{
	uint32_t fd = (uint32_t)(more >> 32), bytes = (uint32_t)other;

	*out = (struct ky_call_facts){
		.reason = (uint8_t)more,
		.fd_kind = (uint8_t)(more >> 8 & 15u),
		.tcp_state = (uint8_t)(more >> 12 & 15u),
		.error = (uint16_t)(more >> 16),
		.fd = fd && fd - 1 <= INT32_MAX ? (int32_t)(fd - 1) : -1,
		.bytes = -1,
	};
	if (out->fd_kind >= KY_FD_KINDS)
		out->fd_kind = KY_FD_UNKNOWN;
	if (out->reason == KY_CALL_FUTEX) {
		out->lock = other & ((UINT64_C(1) << 48) - 1);
		return;
	}
	out->bytes = bytes ? (int64_t)bytes - 1 : -1;
	out->peer_port = (uint16_t)(other >> 32);
	out->local_port = (uint16_t)(other >> 48);
}

#endif
