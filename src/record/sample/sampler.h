/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sampler.h - who samples the CPU, as the engine sees it: a table of functions that the
 * composition root passes, so that the hot path's folder knows no sampler.
 *
 * Two sources belong to it. Where kymo, from outside, may open perf_event for the process
 * (perf_source.h), nothing runs in it. Else timer_source.c: CPU-time timers of its own.
 * Threads:     any; each function says which.
 */
#ifndef KY_RECORD_SAMPLE_SAMPLER_H
#define KY_RECORD_SAMPLE_SAMPLER_H

#include <record/emit/sampler_hooks.h>

/* CPU-time timers. Each thread that records, and each that is found in /proc now and then, gets a
 * timer on its own CPU clock, which sends SIGPROF to it; the handler walks and puts a sample.
 *
 * Refused, and said: where the host has a handler for SIGPROF of its own (EBUSY), where timers are
 * (a filter, limits), where the ring has no room for stacks (ENOSPC).
 * A weight is (1 + overruns) * period: the kernel reads these timers once a tick, so what a rate
 * above the tick's cannot deliver is counted.
 */
extern const struct ky_sampler_hooks ky_timer_source;

/* Of that table, for another one that falls back on it. */
void ky_timer_thread_begin(uint32_t tid);
void ky_timer_thread_end(uint32_t tid);
void ky_timer_leave_signal(void);

#endif
