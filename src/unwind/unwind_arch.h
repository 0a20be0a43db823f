/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_arch.h - the architecture's part of leaving a frame: registers by their DWARF numbers, and
 * what the kernel leaves on the stack for a signal handler.
 *
 * A walk follows sp, fp and one register more: on x86-64 rbx, by which the loader's entry and some
 * realigned frames are found; on aarch64 the link register.
 */
#ifndef KY_UNWIND_UNWIND_ARCH_H
#define KY_UNWIND_UNWIND_ARCH_H

#include <stdint.h>

#if defined(__aarch64__)
#define KY_UNWIND_REGISTERS 33u
#define KY_UNWIND_SP 31u
#define KY_UNWIND_FP 29u
#define KY_UNWIND_SECOND 30u
#define KY_UNWIND_RA 30u
#define KY_UNWIND_LINKED 1 /* a call leaves the return address in a register */
/* Linux: struct rt_sigframe of arch/arm64: siginfo, then ucontext with its registers. */
#define KY_UNWIND_SIGNAL_FP 544u
#define KY_UNWIND_SIGNAL_SECOND 552u
#define KY_UNWIND_SIGNAL_SP 560u
#define KY_UNWIND_SIGNAL_PC 568u
/* Bits of a signed return address that are not its address. */
#define KY_UNWIND_PC_MASK ((UINT64_C(1) << 48) - 1)
#else
#define KY_UNWIND_REGISTERS 17u
#define KY_UNWIND_SP 7u
#define KY_UNWIND_FP 6u
#define KY_UNWIND_SECOND 3u
#define KY_UNWIND_RA 16u
#define KY_UNWIND_LINKED 0
/* Linux: struct rt_sigframe of arch/x86 without the return address, which is gone by then. */
#define KY_UNWIND_SIGNAL_FP 120u
#define KY_UNWIND_SIGNAL_SECOND 128u
#define KY_UNWIND_SIGNAL_SP 160u
#define KY_UNWIND_SIGNAL_PC 168u
#define KY_UNWIND_PC_MASK UINT64_MAX
#endif

#endif
