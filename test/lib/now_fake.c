/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "now_fake.h"

#include <stdatomic.h>

struct test_now test_now;

bool test_clock_read(clockid_t clock, uint64_t *ns)
{
	*ns = 0;
	if (test_now.read)
		return test_now.read(clock, ns);
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_REALTIME:
		*ns = atomic_fetch_add_explicit(
			&test_now.ns, atomic_load_explicit(&test_now.step_ns, memory_order_relaxed),
			memory_order_relaxed);
		if (clock == CLOCK_REALTIME)
			*ns += atomic_load_explicit(&test_now.realtime_offset_ns,
						    memory_order_relaxed);
		return true;
	case CLOCK_THREAD_CPUTIME_ID:
		*ns = atomic_load_explicit(&test_now.thread_cpu_ns, memory_order_relaxed);
		return true;
	case CLOCK_PROCESS_CPUTIME_ID:
		*ns = atomic_load_explicit(&test_now.process_cpu_ns, memory_order_relaxed);
		return true;
	default:
		return false;
	}
}

void test_sleep(uint64_t ns)
{
	atomic_fetch_add_explicit(&test_now.ns, ns, memory_order_relaxed);
	if (test_now.on_sleep)
		test_now.on_sleep(ns);
}
