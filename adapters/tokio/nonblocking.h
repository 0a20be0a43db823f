/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nonblocking.h - descriptors on which no call waits, so that calls on them need no clock.
 *
 * Of such a descriptor the recorder writes no interval, however long a call took (off_cpu.h). So
 * what is known here takes nothing out of a trace; a call on any other descriptor is timed.
 *
 * A descriptor is known when O_NONBLOCK was seen on it: at EPOLL_CTL_ADD, or at a call, which asks
 * at most once in 2^KY_TOKIO_NONBLOCKING_REST ticks a thread.
 * It is forgotten at close(), at EPOLL_CTL_DEL, where dup2(), dup3(), accept() or open() gives its
 * number to something else, and after 2^32 ticks (one to three seconds) in any case, for what other
 * objects of the process do is not seen. Where O_NONBLOCK is taken from some descriptor all are
 * forgotten: they may share what dup(), fork() or another process copied.
 *
 * Time:     the begin of the thread's poll, in units of 2^KY_TOKIO_NONBLOCKING_UNIT ticks. Where
 *           polls are not recorded nothing is known.
 * Memory:   512 KiB of zeros, of which the kernel gives pages as descriptors are used. A forked
 *           child has its own.
 * Threads:  any.      Signals: safe.      errno: the caller's is kept.
 */
#ifndef KY_TOKIO_NONBLOCKING_H
#define KY_TOKIO_NONBLOCKING_H

#include <kymo/emit.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

#define KY_TOKIO_NONBLOCKING_MAX 65536u /* by descriptor; those above are timed */
#define KY_TOKIO_NONBLOCKING_UNIT 24
#define KY_TOKIO_NONBLOCKING_LIFE 256u /* units */
#define KY_TOKIO_NONBLOCKING_REST 20

/* The unit in which it was seen, and above it the epoch; 0: not known. */
extern _Atomic uint64_t ky_tokio_nonblocking[KY_TOKIO_NONBLOCKING_MAX];
/* From 1; what was seen in an earlier one does not count. */
extern _Atomic uint32_t ky_tokio_nonblocking_epoch;

/* The replacement for a slot whose function changes what a descriptor is; 0: it is none. */
uintptr_t ky_tokio_nonblocking_address(uint32_t kind);

/* It was registered with epoll. */
void ky_tokio_nonblocking_note(int fd);

/* Of all. */
void ky_tokio_nonblocking_start_over(void);

/* It is not known: asks, unless this thread asked just now. Returns whether it is. */
bool ky_tokio_nonblocking_ask(int fd);

/* Before its number may be something else's. */
static inline void ky_tokio_nonblocking_forget(int fd)
{
	/* A store into a page that was never used would take one. */
	if ((uint32_t)fd < KY_TOKIO_NONBLOCKING_MAX &&
	    atomic_load_explicit(&ky_tokio_nonblocking[fd], memory_order_relaxed))
		atomic_store_explicit(&ky_tokio_nonblocking[fd], 0, memory_order_relaxed);
}

static inline uint32_t ky_tokio_nonblocking_now(void)
{
	return (uint32_t)(ky_tokio_self.poll_ticks >> KY_TOKIO_NONBLOCKING_UNIT);
}

/* Inside a poll, before a call on this descriptor. */
static inline bool ky_tokio_is_nonblocking(int fd)
{
	uint64_t seen;

	if (KYMO_UNLIKELY((uint32_t)fd >= KY_TOKIO_NONBLOCKING_MAX))
		return false;
	seen = atomic_load_explicit(&ky_tokio_nonblocking[fd], memory_order_relaxed);
	/* One that was seen in a later unit by another thread is as good. */
	if (KYMO_LIKELY(seen >> 32 == atomic_load_explicit(&ky_tokio_nonblocking_epoch,
							   memory_order_relaxed) &&
			ky_tokio_nonblocking_now() - (uint32_t)seen + 1 <=
				KY_TOKIO_NONBLOCKING_LIFE))
		return true;
	return ky_tokio_nonblocking_ask(fd);
}

#endif
