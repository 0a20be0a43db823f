/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Clocks of its own: each reading takes READ_NS, and a pause lies before one of them. */
#include "../../lib/cmocka_all.h"
#include "../../lib/now_fake.h"

#include <base/now.h>

#define READ_NS UINT64_C(20)
#define PAUSE_NS UINT64_C(70000000)
#define OFFSET_NS UINT64_C(1700000000000000000)

static uint64_t ticking_ns;
static unsigned reading, paused_reading;

static bool read_slowly(clockid_t clock, uint64_t *ns)
{
	ticking_ns += READ_NS + (reading++ == paused_reading ? PAUSE_NS : 0);
	*ns = ticking_ns + (clock == CLOCK_REALTIME ? OFFSET_NS : 0);
	return true;
}

static void wall_clock__is_not_stepped_by_a_pause(void **state)
{
	(void)state;
	test_now.read = read_slowly;
	for (paused_reading = 0; paused_reading < 8; paused_reading++) {
		uint64_t now_ns, offset;

		reading = 0;
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
		offset = ky_realtime_at_ns(now_ns) - now_ns;
		assert_in_range(offset, OFFSET_NS - READ_NS, OFFSET_NS + READ_NS);
	}
}

static void wall_clock__is_asked_a_bounded_number_of_times(void **state)
{
	(void)state;
	test_now.read = read_slowly;
	reading = 0;
	paused_reading = UINT32_MAX;
	(void)ky_realtime_at_ns(ticking_ns);
	assert_int_equal(reading, 3);
	reading = paused_reading = 0;
	(void)ky_realtime_at_ns(ticking_ns);
	assert_in_range(reading, 3, 3 * KY_CLOCKS_TRIES);
}

/* The CPU clock of a process is the number of its pid, complemented, with the kernel's code for
 * the scheduler's own count. */
static bool read_process(clockid_t clock, uint64_t *ns)
{
	*ns = 77;
	return clock == (clockid_t)(~4321u << 3 | 2);
}

static void process_clock__is_that_of_the_pid(void **state)
{
	uint64_t ns = 1;

	(void)state;
	test_now.read = read_process;
	assert_true(ky_process_cpu_ns(4321, &ns));
	assert_int_equal(ns, 77);
	assert_false(ky_process_cpu_ns(4322, &ns));
	ns = 1;
	assert_false(ky_process_cpu_ns(0, &ns));
	assert_int_equal(ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wall_clock__is_not_stepped_by_a_pause),
		cmocka_unit_test(wall_clock__is_asked_a_bounded_number_of_times),
		cmocka_unit_test(process_clock__is_that_of_the_pid),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
