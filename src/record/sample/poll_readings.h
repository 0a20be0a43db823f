/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_readings.h - the life of include/kymo/poll_cost.h in a process.
 * Threads: each function says which.
 */
#ifndef KY_RECORD_SAMPLE_POLL_READINGS_H
#define KY_RECORD_SAMPLE_POLL_READINGS_H

#include <record/emit/clock.h>

/* Under the engine's lock, when a recording starts: by this clock. is_granted: no system call is
 * made before another process allows it (ky_ring_control.may_call). The first one that may be made
 * blocks for some ten microseconds, to see that the kernel clears the mark. */
void ky_poll_cost_start(const struct ky_clock *clock, bool is_granted);
/* Under the lock: nothing is recorded any more. */
void ky_poll_cost_stop(void);
/* Any thread: may it be asked what a descriptor is? Where another process says it, also before it
 * has said anything, for a second. */
bool ky_poll_cost_may_ask(void);
/* Of the calling thread, which ends. */
void ky_poll_cost_thread_end(void);
/* In a forked child, by its only thread: closes its copies of our descriptors. */
void ky_poll_cost_fork_child(void);

#endif
