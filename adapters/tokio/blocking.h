/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* blocking.h - what runs in place of libc functions that may block (calls.h): inside a poll, a call
 * that took long is reported with the stack of the thread that made it. errno and results are the
 * originals'.
 *
 * Cost:  outside polls a test; inside two readings of the counter, of a descriptor on which no call
 *        waits (nonblocking.h) a few loads.
 */
#ifndef KY_TOKIO_BLOCKING_H
#define KY_TOKIO_BLOCKING_H

#include <kymo/emit.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "hooks.h"
#include "nonblocking.h"

/* Ticks from which on a call is long, as the recorder said last; 0: ask. */
extern _Atomic uint64_t ky_tokio_call_ticks_min;

/* The replacement for a slot of calls.h. */
uintptr_t ky_tokio_call_address(uint32_t kind);

enum ky_tokio_call_flags {
	KY_TOKIO_CALL_FUTEX = 1u << 0,
	KY_TOKIO_CALL_BY_MODE = 1u << 1, /* it waits if the descriptor blocks */
	KY_TOKIO_CALL_MOVES = 1u << 2    /* the result is a number of bytes */
};

/* What a call was made with, and how it ended. */
struct ky_tokio_call {
	int32_t number;              /* of the system call; -1: several */
	uint32_t flags;              /* enum ky_tokio_call_flags */
	int32_t descriptor;          /* -1: none */
	int64_t result;              /* -1: it failed, and errno says why */
	uintptr_t lock;              /* that it waited for; 0: none */
	const struct sockaddr *peer; /* of a connect(); NULL */
};

/* A call that was long, or of unknown length. Leaves errno alone. */
void ky_tokio_call_over(uint64_t begin, const struct ky_tokio_call *call);

/* In the unit of the ring's stamps: nanoseconds where the recorder cannot use the counter, which
 * shows in a thread that has a sub-buffer and no fast limit. */
static inline uint64_t ky_tokio_ticks(void)
{
	const struct kymo_thread *thread = kymo_thread_self;
	struct timespec now;
	uint32_t high;

	if (KYMO_LIKELY(thread->limit || !thread->end))
		return kymo_arch_ticks(&high);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Not wanted; it counts when it fails, but how long it takes does not matter. */
#define KY_TOKIO_CALL_UNSEEN UINT64_C(0)
#define KY_TOKIO_CALL_UNTIMED UINT64_C(1)

/* What the others here are called with. */
static inline uint64_t ky_tokio_call_begin(void)
{
	if (KYMO_LIKELY(!ky_tokio_self.depth) || !kymo_gate_is_open(KYMO_GATE_OFF_CPU))
		return KY_TOKIO_CALL_UNSEEN;
	return ky_tokio_ticks();
}

/* The same of a call that waits only where the descriptor does. is_quick: nor then. */
static inline uint64_t ky_tokio_call_begin_on(int fd, bool is_quick)
{
	if (KYMO_LIKELY(!ky_tokio_self.depth) || !kymo_gate_is_open(KYMO_GATE_OFF_CPU))
		return KY_TOKIO_CALL_UNSEEN;
	return is_quick || ky_tokio_is_nonblocking(fd) ? KY_TOKIO_CALL_UNTIMED : ky_tokio_ticks();
}

/* The call that began then has just ended, and was long: ky_tokio_call_over(). */
static inline bool ky_tokio_call_is_long(uint64_t begin)
{
	return KYMO_UNLIKELY(begin > KY_TOKIO_CALL_UNTIMED) &&
	       KYMO_UNLIKELY(ky_tokio_ticks() - begin >=
			     atomic_load_explicit(&ky_tokio_call_ticks_min, memory_order_relaxed));
}

#endif
