/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch_fake.h - a "CPU" whose counter is CLOCK_MONOTONIC plus an offset that tests move, or,
 * once test_ticks_steps is not 0, that word plus 100 at each reading. From test_ticks_end on, a
 * moment of CLOCK_MONOTONIC, it stands still. */
#ifndef KY_TEST_ARCH_FAKE_H
#define KY_TEST_ARCH_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define KYMO_ARCH_NAME "fake"
#define KYMO_ARCH_PAGE_BYTES 4096
#define KYMO_ARCH_HAS_TICKS 1
#define KYMO_ARCH_CLOCKSOURCE ""
#define KYMO_ARCH_TRAPPED_NS UINT32_MAX

extern uint64_t test_ticks_offset;
extern uint64_t test_ticks_steps;
extern uint64_t test_ticks_end;

static inline uint64_t kymo_arch_ticks(uint32_t *high)
{
	struct timespec ts;
	uint64_t ticks, end;

	if (__atomic_load_n(&test_ticks_steps, __ATOMIC_RELAXED)) {
		ticks = __atomic_add_fetch(&test_ticks_steps, 100, __ATOMIC_RELAXED);
		*high = (uint32_t)(ticks >> 32);
		return ticks;
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ticks = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	end = __atomic_load_n(&test_ticks_end, __ATOMIC_RELAXED);
	ticks = ticks < end ? ticks : end;
	ticks += __atomic_load_n(&test_ticks_offset, __ATOMIC_RELAXED);
	*high = (uint32_t)(ticks >> 32);
	return ticks;
}

static inline bool kymo_arch_ticks_are_invariant(void)
{
	return true;
}

#endif
