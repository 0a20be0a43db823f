/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Clocks of its own: each reading takes READ_NS, and a pause lies before one of them. */
#include "../../lib/cmocka_all.h"

#include <time.h>

#define READ_NS UINT64_C(20)
#define PAUSE_NS UINT64_C(70000000)
#define OFFSET_NS UINT64_C(1700000000000000000)

static uint64_t ticking_ns;
static unsigned reading, paused_reading;

static int read_fake_clock(clockid_t clock, struct timespec *out)
{
	uint64_t now_ns;

	ticking_ns += READ_NS + (reading++ == paused_reading ? PAUSE_NS : 0);
	now_ns = ticking_ns + (clock == CLOCK_REALTIME ? OFFSET_NS : 0);
	out->tv_sec = (time_t)(now_ns / 1000000000u);
	out->tv_nsec = (long)(now_ns % 1000000000u);
	return 0;
}

#define clock_gettime read_fake_clock
#include <base/now.h>

static void wall_clock__is_not_stepped_by_a_pause(void **state)
{
	(void)state;
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
	reading = 0;
	paused_reading = UINT32_MAX;
	(void)ky_realtime_at_ns(ticking_ns);
	assert_int_equal(reading, 3);
	reading = paused_reading = 0;
	(void)ky_realtime_at_ns(ticking_ns);
	assert_in_range(reading, 3, 3 * KY_CLOCKS_TRIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wall_clock__is_not_stepped_by_a_pause),
		cmocka_unit_test(wall_clock__is_asked_a_bounded_number_of_times),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
