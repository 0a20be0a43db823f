/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "blocking.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/off_cpu.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conns.h"
#include "failing.h"
#include "tables.h"

_Atomic uint64_t ky_tokio_call_ticks_min;

/* Our own code, as the linker laid it out. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* The port that a connect() named: one that failed leaves the socket without a peer. */
static uint16_t port_of(const struct sockaddr *peer)
{
	/* In one place in both. */
	if (peer && (peer->sa_family == AF_INET || peer->sa_family == AF_INET6))
		return ntohs(((const struct sockaddr_in *)(const void *)peer)->sin_port);
	return 0;
}

/* Of vectors that the kernel has read. */
static uint64_t room_of(const struct iovec *vectors, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += vectors[i].iov_len;
	return bytes;
}

__attribute__((noinline)) void ky_tokio_call_over(uint64_t begin, const struct ky_tokio_call *call)
{
	uint64_t end = ky_tokio_ticks(), least = kymo_off_cpu_ticks_min();
	bool is_futex = call->flags & KY_TOKIO_CALL_FUTEX;
	int saved = errno;
	struct kymo_off_cpu wait = {
		.begin_ticks = begin,
		.end_ticks = end,
		.reason = is_futex ? KYMO_OFF_CPU_FUTEX : KYMO_OFF_CPU_SYSCALL,
		.syscall = call->number,
		.descriptor = call->descriptor,
		.flags = call->flags & KY_TOKIO_CALL_BY_MODE ? KYMO_OFF_CPU_BY_MODE : 0,
		.error = call->result == -1 ? saved : 0,
		.bytes = call->flags & KY_TOKIO_CALL_MOVES ? call->result : -1,
		.lock = call->lock,
		.own_low = (uintptr_t)__ehdr_start,
		.own_high = (uintptr_t)etext};

	atomic_store_explicit(&ky_tokio_call_ticks_min, least, memory_order_relaxed);
	if (end - begin < least)
		return;
	if (wait.error != EFAULT)
		wait.peer_port = port_of(call->peer);
	KYMO_STACK_HERE(&wait.from);
	if (!kymo_off_cpu_emit(&wait))
		kymo_emit(KYMO_GATE_OFF_CPU, KYMO_RECORD_WAIT,
			  is_futex ? KYMO_WAIT_FUTEX : KYMO_WAIT_UNKNOWN, 1, end - begin, 0, 0);
	errno = saved;
}

/* What the calls' arguments a, b .. (as the C library declares them) and results say: members of an
 * initializer, which take no parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */
#define CALL_PLAIN .descriptor = -1
#define CALL_CHECKED .descriptor = -1, .result = result
#define CALL_THREAD .flags = KY_TOKIO_CALL_FUTEX, .descriptor = -1
#define CALL_FUTEX CALL_THREAD, .lock = (uintptr_t)a
#define CALL_IO                                                                                    \
	.flags = KY_TOKIO_CALL_BY_MODE | KY_TOKIO_CALL_MOVES, .descriptor = a, .result = result
#define CALL_IN CALL_IO
#define CALL_IN_FLAGS CALL_IO
#define CALL_IN_VECTOR CALL_IO
#define CALL_IN_MESSAGE CALL_IO
#define CALL_OUT CALL_IO
#define CALL_OUT_FLAGS CALL_IO
#define CALL_OUT_MESSAGE CALL_IO
#define CALL_STATUS .flags = KY_TOKIO_CALL_BY_MODE, .descriptor = a, .result = result
#define CALL_ACCEPT CALL_STATUS
#define CALL_CONNECT CALL_STATUS, .peer = c >= sizeof(struct sockaddr_in) ? b : NULL
#define CALL_FILE .descriptor = a, .result = result
#define CALL_FILE_IO CALL_FILE, .flags = KY_TOKIO_CALL_MOVES
#define CALL_OPENS .descriptor = result, .result = result
#define CALL_OPENDIR .descriptor = -1, .result = result ? 0 : -1
#define CALL_POLL .descriptor = b == 1 && result >= 0 ? a->fd : -1, .result = result

/* ... and whether they are timed. */
#define BEGIN_PLAIN ky_tokio_call_begin()
#define BEGIN_CHECKED BEGIN_PLAIN
#define BEGIN_THREAD BEGIN_PLAIN
#define BEGIN_FUTEX BEGIN_PLAIN
#define BEGIN_FILE BEGIN_PLAIN
#define BEGIN_FILE_IO BEGIN_PLAIN
#define BEGIN_POLL BEGIN_PLAIN
#define BEGIN_OPENDIR BEGIN_PLAIN
#define BEGIN_OPENS BEGIN_PLAIN
#define BEGIN_IN ky_tokio_call_begin_on(a, false)
#define BEGIN_IN_FLAGS ky_tokio_call_begin_on(a, d &MSG_DONTWAIT)
#define BEGIN_IN_VECTOR BEGIN_IN
#define BEGIN_IN_MESSAGE ky_tokio_call_begin_on(a, c &MSG_DONTWAIT)
#define BEGIN_OUT BEGIN_IN
#define BEGIN_OUT_FLAGS BEGIN_IN_FLAGS
#define BEGIN_OUT_MESSAGE BEGIN_IN_MESSAGE
#define BEGIN_ACCEPT BEGIN_IN
#define BEGIN_CONNECT BEGIN_IN

/* ... and which of them count when they fail. */
#define ENDED_PLAIN(number) (void)begin
#define ENDED_CHECKED ENDED_PLAIN
#define ENDED_THREAD ENDED_PLAIN
#define ENDED_FUTEX ENDED_PLAIN
#define ENDED_FILE ENDED_PLAIN
#define ENDED_FILE_IO ENDED_PLAIN
#define ENDED_POLL ENDED_PLAIN
#define ENDED_OPENDIR ENDED_PLAIN
#define ENDED_IO(number) ky_tokio_call_ended(begin, number, a, result)
#define ENDED_IN ENDED_IO
#define ENDED_IN_FLAGS ENDED_IO
#define ENDED_IN_VECTOR ENDED_IO
#define ENDED_IN_MESSAGE ENDED_IO
#define ENDED_OUT ENDED_IO
#define ENDED_OUT_FLAGS ENDED_IO
#define ENDED_OUT_MESSAGE ENDED_IO
#define ENDED_ACCEPT(number)                                                                       \
	ky_tokio_nonblocking_forget(result);                                                       \
	ENDED_IO(number)
#define ENDED_CONNECT ENDED_IO
#define ENDED_OPENS(number)                                                                        \
	ky_tokio_nonblocking_forget(result);                                                       \
	ky_tokio_call_ended(begin, number, -1, result)

/* ... and what they mean for requests on connections (conns.h), of a descriptor that is one. */
#define CONN_PLAIN (void)result
#define CONN_CHECKED CONN_PLAIN
#define CONN_THREAD CONN_PLAIN
#define CONN_FUTEX CONN_PLAIN
#define CONN_FILE CONN_PLAIN
#define CONN_FILE_IO CONN_PLAIN
#define CONN_POLL CONN_PLAIN
#define CONN_OPENDIR CONN_PLAIN
#define CONN_OPENS CONN_PLAIN
#define CONN_IN ky_tokio_conn_in(a, result, c)
#define CONN_IN_FLAGS                                                                              \
	if (!(d & (MSG_PEEK | MSG_ERRQUEUE)))                                                      \
	ky_tokio_conn_in(a, result, c)
#define CONN_IN_VECTOR ky_tokio_conn_in(a, result, result < 0 ? 0 : room_of(b, (size_t)c))
#define CONN_IN_MESSAGE                                                                            \
	if (!(c & (MSG_PEEK | MSG_ERRQUEUE)))                                                      \
	ky_tokio_conn_in(a, result, result < 0 ? 0 : room_of(b->msg_iov, b->msg_iovlen))
#define CONN_OUT ky_tokio_conn_out(a, result)
#define CONN_OUT_FLAGS CONN_OUT
#define CONN_OUT_MESSAGE CONN_OUT
#define CONN_ACCEPT                                                                                \
	if (result >= 0)                                                                           \
	ky_tokio_conn_accepted(result, c ? b : NULL)
#define CONN_CONNECT                                                                               \
	if (result == 0 || errno == EINPROGRESS)                                                   \
	ky_tokio_conn_made(a, c >= sizeof(struct sockaddr_in) ? b : NULL)

/* Whether that has to be asked: before the call, so that nothing is kept for it meanwhile. */
#define ASKS_PLAIN false
#define ASKS_CHECKED false
#define ASKS_THREAD false
#define ASKS_FUTEX false
#define ASKS_FILE false
#define ASKS_FILE_IO false
#define ASKS_POLL false
#define ASKS_OPENDIR false
#define ASKS_OPENS false
#define ASKS_IN ky_tokio_conn_is_any()
#define ASKS_IN_FLAGS ky_tokio_conn_is_any()
#define ASKS_IN_VECTOR ky_tokio_conn_is_any()
#define ASKS_IN_MESSAGE ky_tokio_conn_is_any()
#define ASKS_OUT ky_tokio_conn_is_any()
#define ASKS_OUT_FLAGS ky_tokio_conn_is_any()
#define ASKS_OUT_MESSAGE ky_tokio_conn_is_any()
#define ASKS_ACCEPT kymo_gate_is_open(KYMO_GATE_CONN)
#define ASKS_CONNECT kymo_gate_is_open(KYMO_GATE_CONN)

#define CALL_IT(name, call_number, facts, type, arguments, conn)                                   \
	uint64_t begin = BEGIN_##facts;                                                            \
	type result = name arguments;                                                              \
                                                                                                   \
	ENDED_##facts(call_number);                                                                \
	conn;                                                                                      \
	if (ky_tokio_call_is_long(begin))                                                          \
	ky_tokio_call_over(begin,                                                                  \
			   &(const struct ky_tokio_call){.number = call_number, CALL_##facts})
/* NOLINTEND(bugprone-macro-parentheses) */

#define REPLACE(name, call_number, facts, type, parameters, arguments)                             \
	__attribute__((noinline, unused)) static type asked_##name parameters                      \
	{                                                                                          \
		CALL_IT(name, call_number, facts, type, arguments, CONN_##facts);                  \
		return result;                                                                     \
	}                                                                                          \
	static type on_##name parameters                                                           \
	{                                                                                          \
		if (ASKS_##facts)                                                                  \
			return asked_##name arguments;                                             \
		CALL_IT(name, call_number, facts, type, arguments, (void)0);                       \
		return result;                                                                     \
	}
KY_TOKIO_CALLS(REPLACE)

uintptr_t ky_tokio_call_address(uint32_t kind)
{
	switch (kind) {
#define ADDRESS(name, number, reason, type, parameters, arguments)                                 \
	case KY_TOKIO_GOT_CALL_##name:                                                             \
		return (uintptr_t)on_##name;
		KY_TOKIO_CALLS(ADDRESS)
	default:
		return 0;
	}
}
