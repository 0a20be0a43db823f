/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* clock.h - which counter stamps the records: the CPU's, or CLOCK_MONOTONIC through the vDSO.
 *
 * Invariants:  decided once per recorder; ticks are never converted here, readers interpolate
 *              between anchors.
 * Threads:     any, after ky_clock_choose().      Signals: safe.
 */
#ifndef KY_RECORD_EMIT_CLOCK_H
#define KY_RECORD_EMIT_CLOCK_H

#include <base/now.h>
#include <kymo/arch.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/ring_image.h>

struct ky_clock {
	bool is_os;                   /* ticks are CLOCK_MONOTONIC nanoseconds */
	uint64_t ticks_per_second;    /* nominal; 0 until ky_clock_calibrate() */
	struct ky_clock_anchor first; /* taken by ky_clock_choose() */
};

/* Trusts the CPU's counter only where it is invariant, allowed, what the kernel itself uses,
 * and not trapped. KYMO_CLOCK=monotonic forces the clock of the OS. Takes the first anchor. */
void ky_clock_choose(struct ky_clock *clock);

/* Fills ticks_per_second from the first anchor and a new one, at least 100 us later (it spins for
 * the rest of that time). A counter that does not move sends us to the clock of the OS. */
void ky_clock_calibrate(struct ky_clock *clock);

/* The narrowest of three bracketed readings. */
void ky_clock_anchor(const struct ky_clock *clock, struct ky_clock_anchor *out);

static inline uint64_t ky_clock_ticks(const struct ky_clock *clock)
{
	uint32_t high;

	return clock->is_os ? ky_now_ns(CLOCK_MONOTONIC) : kymo_arch_ticks(&high);
}

#endif
