/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* arch.h - picks the one header that knows the processor.
 *
 * Each arch_<name>.h provides:
 *   KYMO_ARCH_NAME                          as uname -m spells it
 *   KYMO_ARCH_PAGE_BYTES                    largest page the kernel may use there
 *   kymo_arch_ticks(uint32_t *high)         the free-running counter, unserialised; *high = bits 32..63
 */
#ifndef KYMO_ARCH_H
#define KYMO_ARCH_H

#if defined(__x86_64__)
#include <kymo/arch_x86_64.h>
#elif defined(__aarch64__)
#include <kymo/arch_aarch64.h>
#else
#include <kymo/arch_none.h>
#endif

#endif
