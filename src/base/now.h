/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* now.h - the clocks of the OS in nanoseconds: the only place that reads one.
 *
 * KY_NOW_HEADER, when defined, names a header to use instead of the OS (tests: clocks they set). It
 * provides ky_clock_read and ky_sleep_ns.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_NOW_H
#define KY_BASE_NOW_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(KY_NOW_HEADER)
#include KY_NOW_HEADER
#else
/* False: there is no such clock, and *ns is 0. */
static inline bool ky_clock_read(clockid_t clock, uint64_t *ns)
{
	struct timespec now;

	*ns = 0;
	if (clock_gettime(clock, &now) != 0)
		return false;
	*ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	return true;
}

/* A signal ends it early. */
static inline void ky_sleep_ns(uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
				      .tv_nsec = (long)(ns % 1000000000u)};

	(void)nanosleep(&time, NULL);
}
#endif

/* clock: CLOCK_MONOTONIC, CLOCK_REALTIME, .. . Cost: no system call where the vDSO serves it. */
static inline uint64_t ky_now_ns(clockid_t clock)
{
	uint64_t ns;

	(void)ky_clock_read(clock, &ns);
	return ns;
}

#define KY_CLOCKS_TRIES 3
#define KY_CLOCKS_NEAR_NS 1000u

/* CLOCK_REALTIME at a moment of CLOCK_MONOTONIC close by. Read between two readings of that one,
 * and again where these lie apart: a pause between two clocks would pass for a step of the wall
 * clock. */
static inline uint64_t ky_realtime_at_ns(uint64_t monotonic_ns)
{
	uint64_t narrowest = UINT64_MAX, offset = 0;

	for (int i = 0; i < KY_CLOCKS_TRIES && narrowest > KY_CLOCKS_NEAR_NS; i++) {
		uint64_t before = ky_now_ns(CLOCK_MONOTONIC);
		uint64_t realtime = ky_now_ns(CLOCK_REALTIME);
		uint64_t width = ky_now_ns(CLOCK_MONOTONIC) - before;

		if (width >= narrowest)
			continue;
		narrowest = width;
		offset = realtime - (before + width / 2);
	}
	return monotonic_ns + offset;
}

/* CPU time of all threads that a process ever had; up to a tick late where one runs right now.
 * False: there is no such process, and *ns is 0. Cost: one system call, where
 * clock_getcpuclockid(3), which makes the same number of the pid, takes two. */
static inline bool ky_process_cpu_ns(uint32_t pid, uint64_t *ns)
{
	*ns = 0;
	return pid && ky_clock_read((clockid_t)(~pid << 3 | 2), ns);
}

#endif
