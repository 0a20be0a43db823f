/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fatal_sig.h - the handler of fatal signals: everything it reaches is async-signal-safe.
 *
 * Invariants:  no allocation, no lock, no function of libc but sigaction, clock_gettime, nanosleep
 *              and memory copies; nothing that can fault: the side area exists since the ring does,
 *              and the stack is probed before it is read.
 *              The first of two crashes within two seconds keeps the record: the second is its
 *              consequence, or another thread's.
 */
#ifndef KY_RECORD_CRASH_FATAL_SIG_H
#define KY_RECORD_CRASH_FATAL_SIG_H

#include <signal.h>
#include <stddef.h>

#define KY_FATAL_SIGNALS 5

extern const int ky_fatal_signals[KY_FATAL_SIGNALS];

/* What stood there before; entry i is complete before our handler is installed. */
extern struct sigaction ky_fatal_previous[KY_FATAL_SIGNALS];

void ky_fatal_handle(int number, siginfo_t *info, void *context);

#endif
