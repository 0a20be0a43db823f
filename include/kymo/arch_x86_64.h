/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch_x86_64.h - the time stamp counter. Whether it may be used (invariant, not trapped) is decided
 * once when the recorder opens; see kymo_thread.limit.
 */
#ifndef KYMO_ARCH_X86_64_H
#define KYMO_ARCH_X86_64_H

#include <stdint.h>

#define KYMO_ARCH_NAME "x86_64"
#define KYMO_ARCH_PAGE_BYTES 4096
#define KYMO_ARCH_HAS_TICKS 1

/* Inline assembly rather than the builtin: it hands us the two halves apart, and the high half alone
 * tells whether the stamp still fits the sub-buffer (two instructions less per event). */
static inline uint64_t kymo_arch_ticks(uint32_t *high)
{
	uint32_t low, upper;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(upper));
	*high = upper;
	return ((uint64_t)upper << 32) | low;
}

#endif
