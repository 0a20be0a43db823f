/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* waits.h - what runs in place of epoll_wait, epoll_pwait, syscall and their kin in objects that
 * contain Tokio.
 *
 * A wait is a park on a worker with no open poll; with a zero time-out it is a turn of the
 * driver; inside a poll it is a blocking wait, recorded when it took long. Everywhere else
 * nothing is recorded. errno and results are the originals'.
 */
#ifndef KY_TOKIO_WAITS_H
#define KY_TOKIO_WAITS_H

#include <stdint.h>

/* The replacement for one kind of slot (enum ky_tokio_got_kind). */
uintptr_t ky_tokio_wait_address(uint32_t kind);

/* Called by thunks_<arch>.S for syscall(SYS_futex, ...). */
long ky_tokio_on_futex(long number, uint32_t *address, long operation, long value, long timeout,
		       long address2, long value3);

/* Called by it for SYS_prctl and SYS_seccomp: the program may be about to confine itself. */
long ky_tokio_on_confining(long number, unsigned long a, unsigned long b, unsigned long c,
			   unsigned long d, unsigned long e);

#endif
