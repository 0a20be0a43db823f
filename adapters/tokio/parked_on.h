/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* parked_on.h - parks of workers, with what wakes each of them: the futex of its condition
 * variable, or the eventfd of the driver that it waits in. Both stay the same for most of a
 * worker's life, so they are recorded where they change.
 *
 * Invariants:  a thread records what it parks on before the first park on it.
 * Threads:     any.      Signals: as the calls that it stands in.
 * Cost:        of a park: two loads and a comparison.
 */
#ifndef KY_TOKIO_PARKED_ON_H
#define KY_TOKIO_PARKED_ON_H

#include <kymo/emit.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"

#define KY_TOKIO_EVENTFD_MAX 1024
#define KY_TOKIO_FUTEX_MASK ((UINT64_C(1) << KYMO_PARKED_ON_FD_SHIFT) - 1)

extern uint64_t ky_tokio_eventfds[KY_TOKIO_EVENTFD_MAX / 64];

static inline bool ky_tokio_is_eventfd(int fd)
{
	return fd >= 0 && fd < KY_TOKIO_EVENTFD_MAX &&
	       __atomic_load_n(&ky_tokio_eventfds[fd / 64], __ATOMIC_RELAXED) >> (fd % 64) & 1;
}

/* Which descriptors are eventfds is learnt when they are made, and what they are for when a poller
 * gets them. key: as it was registered with. */
void ky_tokio_eventfd_note(int fd);
void ky_tokio_driver_note(int poller, int fd, uint64_t key);

/* Those that were there before we were. Takes a reading of /proc; for the thread that `kymo attach`
 * made. */
void ky_tokio_parked_on_learn(void);

/* Some worker has parked on it, or a poll has waited for this lock: who wakes that is recorded,
 * whatever thread it is. Of two on one place of the table the later one is known. */
bool ky_tokio_is_waited_on(const uint32_t *futex);

/* A poll waits for this lock. */
void ky_tokio_lock_note(const uint32_t *futex);

/* By poller: its driver's eventfd + 1. One that is closed is overwritten by the next. */
extern _Atomic uint16_t ky_tokio_drivers[KY_TOKIO_EVENTFD_MAX];

/* Where it changed. */
void ky_tokio_parked_on_record(uint64_t word);

/* The worker on this thread parks. timeout_ms below 0: it has none. */
static inline void ky_tokio_park_on(const uint32_t *futex, int64_t timeout_ms)
{
	uint64_t word = ky_tokio_self.parked_on, of = (uintptr_t)futex & KY_TOKIO_FUTEX_MASK;

	if (KYMO_UNLIKELY((word & KY_TOKIO_FUTEX_MASK) != of))
		ky_tokio_parked_on_record((word & ~KY_TOKIO_FUTEX_MASK) | of);
	kymo_park(KYMO_WAIT_FUTEX | kymo_park_timeout(timeout_ms));
}

static inline void ky_tokio_park_in_driver(int poller, int64_t timeout_ms)
{
	uint64_t word = ky_tokio_self.parked_on, driver = 0;

	if (KYMO_LIKELY((unsigned int)poller < KY_TOKIO_EVENTFD_MAX))
		driver = atomic_load_explicit(&ky_tokio_drivers[poller], memory_order_relaxed);
	if (KYMO_UNLIKELY(word >> KYMO_PARKED_ON_FD_SHIFT != driver))
		ky_tokio_parked_on_record((word & KY_TOKIO_FUTEX_MASK) |
					  driver << KYMO_PARKED_ON_FD_SHIFT);
	kymo_park(KYMO_WAIT_EPOLL | kymo_park_timeout(timeout_ms));
}

#endif
