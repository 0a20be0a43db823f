/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* timer_phase.h - when a thread's CPU-time timer fires first, and what its samples stand for, so
 * that threads shorter than a period, or than a tick, have their share.
 *
 * The kernel reads these timers at its tick alone, so a tick is what samples: a thread that
 * lives for d of its CPU time, shorter than a tick, meets one with the chance d / tick. Each tick
 * has to take a sample of a period with the chance tick / period, a thread's first one like any
 * other; a first expiry drawn from all of the period gives that one half of it, and much less to a
 * thread that ends before its second.
 * Threads: any.      Signals: safe.
 */
#ifndef KY_RECORD_SAMPLE_TIMER_PHASE_H
#define KY_RECORD_SAMPLE_TIMER_PHASE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the kernel; 0: not reported. */
uint64_t ky_timer_tick_ns(void);

/* From now on, at least 1. draw: any 64 bits, all of them as likely. */
uint64_t ky_timer_first_ns(uint64_t draw, uint64_t period_ns, uint64_t tick_ns);

/* Of a sample that `periods` ended with, the timer's first one or a later one: where periods are
 * shorter than ticks, the first one stands for a tick, however long ago the thread began. */
uint64_t ky_timer_value_ns(bool is_first, uint64_t periods, uint64_t period_ns, uint64_t tick_ns);

/* 64 bits of two words that need not be random themselves. */
uint64_t ky_timer_draw(uint64_t tid, uint64_t stamp);

#endif
