/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch_none.h - an architecture without a known counter: the recorder falls back to the vDSO
 * clock. */
#ifndef KYMO_ARCH_NONE_H
#define KYMO_ARCH_NONE_H

#include <stdbool.h>
#include <stdint.h>

#define KYMO_ARCH_NAME "unknown"
#define KYMO_ARCH_PAGE_BYTES 65536
#define KYMO_ARCH_HAS_TICKS 0
#define KYMO_ARCH_CLOCKSOURCE ""
#define KYMO_ARCH_TRAPPED_NS 100

static inline uint64_t kymo_arch_ticks(uint32_t *high)
{
	*high = 0;
	return 0;
}

static inline bool kymo_arch_ticks_are_invariant(void)
{
	return false;
}

#endif
