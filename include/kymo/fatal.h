/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fatal.h - a record of a fatal signal in the ring: which thread it hit, and where.
 *
 * Opt-in. For SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT: registers, 16 KiB of the stack, thread
 * and time go into the ring's file, from which `kymo recover` makes a trace. Then the handler that
 * was there before runs as if ours did not exist, or the process ends by that signal, with the core
 * dump it would have had. Where the earlier handler repairs the fault and returns, the record is
 * removed; where it leaves by siglongjmp(), the record stays.
 * The earlier handler runs on the alternate stack where the thread has one.
 */
#ifndef KYMO_FATAL_H
#define KYMO_FATAL_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Once in a process; the same as KYMO_RECORDER_FATAL_SIGNALS. Guards the calling thread, and from
 * now on every thread when it records first. Handlers that the program installs later take
 * precedence, and reach ours if they call the handler that sigaction() returned.
 *
 * Returns  0, also the second time; -errno.
 * Threads  setup-only.      Signals unsafe.      Since 0.1
 */
KYMO_API int kymo_fatal_signals_install(void);

/* Gives the calling thread an alternate signal stack until it exits, unless it has one: without it
 * a stack overflow cannot be handled. For threads that never record.
 *
 * Returns  0; -errno: the thread has none.
 * Threads  any.      Signals unsafe.      Since 0.1
 */
KYMO_API int kymo_thread_guard(void);

#ifdef __cplusplus
}
#endif

#endif
