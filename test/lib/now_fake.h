/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* now_fake.h - clocks that a test sets, in place of the OS's: see base/now.h, KY_NOW_HEADER.
 *
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME read test_now.ns, CLOCK_REALTIME that plus
 * realtime_offset_ns, the CPU clock of the calling thread thread_cpu_ns, that of the own process
 * process_cpu_ns. Any other clock does not exist. read, when set, answers in place of all that.
 * A sleep is over at once: it adds its length to ns and calls on_sleep.
 */
#ifndef KY_TEST_NOW_FAKE_H
#define KY_TEST_NOW_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct test_now {
	_Atomic uint64_t ns;
	_Atomic uint64_t step_ns; /* what each reading of that adds to it afterwards */
	_Atomic uint64_t realtime_offset_ns;
	_Atomic uint64_t thread_cpu_ns, process_cpu_ns;
	bool (*read)(clockid_t clock, uint64_t *ns);
	void (*on_sleep)(uint64_t ns);
};

extern struct test_now test_now;

bool test_clock_read(clockid_t clock, uint64_t *ns);
void test_sleep(uint64_t ns);

static inline bool ky_clock_read(clockid_t clock, uint64_t *ns)
{
	return test_clock_read(clock, ns);
}

static inline void ky_sleep_ns(uint64_t ns)
{
	test_sleep(ns);
}

#endif
