/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch_x86_64.h - the time stamp counter. Whether it may be used (invariant, not trapped) is
 * decided once when the recorder opens; see kymo_thread.limit.
 */
#ifndef KYMO_ARCH_X86_64_H
#define KYMO_ARCH_X86_64_H

#include <stdbool.h>
#include <stdint.h>

#define KYMO_ARCH_NAME "x86_64"
#define KYMO_ARCH_PAGE_BYTES 4096
#define KYMO_ARCH_HAS_TICKS 1
#define KYMO_ARCH_CLOCKSOURCE "tsc"
#define KYMO_ARCH_TRAPPED_NS 100

/* Inline assembly rather than the builtin: it gives the two halves separately, and the high half
 * alone shows whether the stamp still fits the sub-buffer (two instructions less per event). The
 * halves are taken as 64 bits because rdtsc clears the upper ones, which a compiler would do again.
 */
static inline uint64_t kymo_arch_ticks(uint32_t *high)
{
	uint64_t low, upper;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(upper));
	*high = (uint32_t)upper;
	return (upper << 32) | low;
}

static inline void kymo_arch_cpuid(uint32_t leaf, uint32_t *eax, uint32_t *edx)
{
	uint32_t a = leaf, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	(void)b;
	*eax = a;
	*edx = d;
}

static inline bool kymo_arch_ticks_are_invariant(void)
{
	uint32_t eax, edx;

	kymo_arch_cpuid(0x80000000u, &eax, &edx);
	if (eax < 0x80000007u)
		return false;
	kymo_arch_cpuid(0x80000007u, &eax, &edx);
	return (edx & (1u << 8)) != 0;
}

#endif
