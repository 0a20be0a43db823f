/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* now.h - the clocks of the OS in nanoseconds.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_NOW_H
#define KY_BASE_NOW_H

#include <stdint.h>
#include <time.h>

/* clock: CLOCK_MONOTONIC, CLOCK_REALTIME, .. . Cost: no system call where the vDSO serves it. */
static inline uint64_t ky_now_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
