/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sampling.h - threads that record nothing, sampled from their start on.
 *
 * Where a process samples itself by timers, each thread needs one of its own. Threads that record
 * get it with their first event, the others when a reading of /proc finds them, which is too late
 * for those that live some milliseconds. For adapters that interpose pthread_create():
 *
 *   when a thread is made, and kymo_sampling_is_on(): have it call kymo_sampling_begin() before
 *   its function and kymo_sampling_end() after it
 *
 * A thread that ends in another way loses its timer at the next reading.
 *
 * Those timers send SIGPROF, which is taken only where the program has no handler for it. One that
 * sets a handler later, or none, calls kymo_sampling_leave_signal() before: a tick would meet that
 * handler, or end the process. For adapters that interpose sigaction().
 * Signals: unsafe.      Since 0.1
 */
#ifndef KYMO_SAMPLING_H
#define KYMO_SAMPLING_H

#include <kymo/base.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does this process sample its threads itself, now? Where perf_event does it, or there is
 * no sampler, there is nothing to do.
 * Threads any.      Cost a load or two.
 */
KYMO_API bool kymo_sampling_is_on(void);

/* Of the calling thread. errno is left as found; sampling that has ended meanwhile is no error. */
KYMO_API void kymo_sampling_begin(void);
KYMO_API void kymo_sampling_end(void);

/* No timer sends SIGPROF from here on, none that was sent is on its way, and the signal's action is
 * what it was before this process sampled itself; the trace says that it does not any more.
 * Nothing where it does not. errno is left as found.
 * Threads any.      Cost where it samples itself: a system call a thread.
 */
KYMO_API void kymo_sampling_leave_signal(void);

#ifdef __cplusplus
}
#endif

#endif
