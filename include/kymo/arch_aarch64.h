/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch_aarch64.h - the virtual counter, architecturally invariant and readable from user space. */
#ifndef KYMO_ARCH_AARCH64_H
#define KYMO_ARCH_AARCH64_H

#include <stdbool.h>
#include <stdint.h>

#define KYMO_ARCH_NAME "aarch64"
#define KYMO_ARCH_PAGE_BYTES 65536
#define KYMO_ARCH_HAS_TICKS 1
#define KYMO_ARCH_CLOCKSOURCE ""
#define KYMO_ARCH_TRAPPED_NS 100

static inline uint64_t kymo_arch_ticks(uint32_t *high)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	*high = (uint32_t)(ticks >> 32);
	return ticks;
}

static inline bool kymo_arch_ticks_are_invariant(void)
{
	return true;
}

#endif
