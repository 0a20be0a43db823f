/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* burn.h - uses a CPU for as long as a clock that samples can see.
 *
 * A machine that is held up as a whole, as virtual ones are, has its time counted as the thread's,
 * or not, as its kernel likes; and no timer of a sampler goes off in it more than once. So what
 * passes while nothing could be read is left out and counted: of it there is one sample each
 * at most.
 */
#ifndef KY_TEST_BURN_H
#define KY_TEST_BURN_H

#include <base/now.h>
#include <stdint.h>
#include <time.h>

#define TEST_PAUSE_NS UINT64_C(500000)

/* Returns how many pauses there were. */
static inline uint64_t test_burn(uint64_t ns)
{
	uint64_t wall_ns = ky_now_ns(CLOCK_MONOTONIC), pauses = 0, burnt_ns = 0;
	uint64_t cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (burnt_ns < ns) {
		uint64_t wall_before_ns = wall_ns, cpu_before_ns = cpu_ns;

		for (volatile int i = 0; i < 200; i++)
			;
		wall_ns = ky_now_ns(CLOCK_MONOTONIC);
		cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (wall_ns - wall_before_ns < TEST_PAUSE_NS)
			burnt_ns += cpu_ns - cpu_before_ns;
		else
			pauses++;
	}
	return pauses;
}

#endif
