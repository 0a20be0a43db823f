/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch.h - includes the one header of the architecture.
 *
 * Each arch_<name>.h provides:
 *   KYMO_ARCH_NAME          as uname -m spells it
 *   KYMO_ARCH_PAGE_BYTES    largest page the kernel may use there
 *   KYMO_ARCH_HAS_TICKS     0: there is no counter we know
 *   KYMO_ARCH_CLOCKSOURCE   name of the kernel clock source that proves the counter sound; "" when
 *                           the architecture promises it
 *   KYMO_ARCH_TRAPPED_NS    a reading that takes longer is trapped, the counter of no use
 *   kymo_arch_ticks(high)   the free-running counter, unserialised; *high = its bits 32..63
 *   kymo_arch_ticks_are_invariant()
 *                           it runs at one rate, in every sleep state, on every CPU
 *
 * KYMO_ARCH_HEADER, when defined, names a header to use instead (tests: a counter they can set).
 */
#ifndef KYMO_ARCH_H
#define KYMO_ARCH_H

#if defined(KYMO_ARCH_HEADER)
#include KYMO_ARCH_HEADER
#elif defined(__x86_64__)
#include <kymo/arch_x86_64.h>
#elif defined(__aarch64__)
#include <kymo/arch_aarch64.h>
#else
#include <kymo/arch_none.h>
#endif

#endif
