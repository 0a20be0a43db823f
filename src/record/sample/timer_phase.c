/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/timer_phase.h>

#include <time.h>

/* Of 50 Hz: what says more is no tick. */
#define TICK_NS_MAX 20000000

uint64_t ky_timer_tick_ns(void)
{
	struct timespec tick;

	/* The coarse clock is the tick's own. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0 || tick.tv_sec ||
	    tick.tv_nsec > TICK_NS_MAX)
		return 0;
	return (uint64_t)tick.tv_nsec;
}

/* In whole ticks: a timer due at n of them fires at the thread's tick n + 1, wherever between two
 * ticks the thread began, so each of a period's ticks is as likely. */
uint64_t ky_timer_first_ns(uint64_t draw, uint64_t period_ns, uint64_t tick_ns)
{
	uint64_t first_ns = (draw >> 32) * period_ns >> 32;

	if (tick_ns)
		first_ns -= first_ns % tick_ns;
	return first_ns ? first_ns : 1;
}

uint64_t ky_timer_value_ns(bool is_first, uint64_t periods, uint64_t period_ns, uint64_t tick_ns)
{
	return is_first && period_ns < tick_ns ? tick_ns : periods * period_ns;
}

uint64_t ky_timer_draw(uint64_t tid, uint64_t stamp)
{
	uint64_t word = (stamp ^ tid << 32) * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}
