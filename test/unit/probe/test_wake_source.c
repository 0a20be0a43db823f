/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Filters of wake-ups, by a perf_event of the test's own. What is read: test_switch_wakes.c. The
 * machine's own: test_wake_kernel.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"

#include <errno.h>
#include <probe/wake_source.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define T0 UINT64_C(1000000000000)
#define MS UINT64_C(1000000)

static struct ky_wakes *wakes;

static int setup(void **state)
{
	(void)state;
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = T0;
	fake_perf_reset();
	wakes = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_wakes_close(wakes);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

static void ranges__have_all_and_as_few_others_as_they_can(void **state)
{
	struct ky_wake_ranges ranges;
	uint32_t tids[4 * KY_WAKE_RANGES_MAX], others = 0;

	(void)state;
	ky_wake_ranges_make(&ranges, tids, 0);
	assert_int_equal(ranges.count, 0);
	assert_false(ky_wake_ranges_has(&ranges, 0));
	/* Pairs, ever further apart. */
	for (uint32_t i = 0; i < 4 * KY_WAKE_RANGES_MAX; i++)
		tids[i] = 100 + i / 2 * i / 2 * 100 + i % 2;
	ky_wake_ranges_make(&ranges, tids, 4);
	assert_int_equal(ranges.count, 2);
	ky_wake_ranges_make(&ranges, tids, 4 * KY_WAKE_RANGES_MAX);
	assert_int_equal(ranges.count, KY_WAKE_RANGES_MAX);
	for (uint32_t i = 0; i < 4 * KY_WAKE_RANGES_MAX; i++)
		assert_true(ky_wake_ranges_has(&ranges, tids[i]));
	assert_false(ky_wake_ranges_has(&ranges, tids[0] - 1));
	assert_false(ky_wake_ranges_has(&ranges, tids[4 * KY_WAKE_RANGES_MAX - 1] + 1));
	for (uint32_t i = 1; i < ranges.count; i++)
		assert_true(ranges.list[i].first > ranges.list[i - 1].last + 1);
	/* The widest gaps are left out. */
	for (uint32_t i = 4 * KY_WAKE_RANGES_MAX - 2; i > 3 * KY_WAKE_RANGES_MAX; i -= 2)
		others += ky_wake_ranges_has(&ranges, tids[i] - 1);
	assert_in_range(others, 0, KY_WAKE_RANGES_MAX / 2);
}

/* Its wake-ups count from the filter's moment on, not from before it. */
static void covers__from_the_moment_the_filter_has_it(void **state)
{
	const uint32_t own_tid = (uint32_t)syscall(SYS_gettid), later = own_tid + 1000;
	const uint32_t both[2] = {own_tid, later};

	(void)state;
	assert_int_equal(ky_wakes_open(&wakes), 0);
	test_now.ns = T0;
	assert_int_equal(ky_wakes_follow(wakes, both, 1), 0);
	assert_true(ky_wakes_covers(wakes, own_tid, T0));
	assert_true(ky_wakes_covers(wakes, own_tid + KY_WAKE_ROOM, T0));
	assert_false(ky_wakes_covers(wakes, own_tid, T0 - 1));
	assert_false(ky_wakes_covers(wakes, later, UINT64_MAX));
	test_now.ns = T0 + MS;
	assert_int_equal(ky_wakes_follow(wakes, both, 2), 0);
	assert_true(ky_wakes_covers(wakes, own_tid, T0));
	assert_true(ky_wakes_covers(wakes, later, T0 + MS));
	assert_false(ky_wakes_covers(wakes, later, T0 + MS - 1));
}

/* An event a CPU; room after the ranges for threads that are made next. */
static void filter__has_the_ranges_and_room_after_them(void **state)
{
	const uint32_t tids[] = {100, 101, 102, 500};
	char text[128];

	(void)state;
	assert_int_equal(ky_wakes_open(&wakes), 0);
	assert_int_equal(ky_wakes_follow(wakes, tids, 4), 0);
	(void)snprintf(text, sizeof(text), "(pid >= 100 && pid <= %u) || (pid >= 500 && pid <= %u)",
		       102 + KY_WAKE_ROOM, 500 + KY_WAKE_ROOM);
	for (int cpu = 0; cpu < (int)FAKE_PERF_CPUS; cpu++) {
		const struct fake_perf_event *event = fake_perf_find(PERF_TYPE_TRACEPOINT,
								     FAKE_WAKING, cpu, 0);

		assert_string_equal(event->filter, text);
		assert_false(event->is_enabled);
	}
	/* Those that it has are no reason for another one. */
	fake_perf.filter_error = -EINVAL;
	assert_int_equal(ky_wakes_follow(wakes, tids, 3), 0);
}

/* While it is at work the new one counts before the old one is shut. */
static void filter__that_is_renewed_counts_at_once(void **state)
{
	const uint32_t tids[] = {100, 500};

	(void)state;
	assert_int_equal(ky_wakes_open(&wakes), 0);
	assert_int_equal(ky_wakes_pause(wakes, false), 0);
	assert_int_equal(ky_wakes_follow(wakes, tids, 1), 0);
	assert_int_equal(ky_wakes_follow(wakes, tids, 2), 0);
	for (uint32_t i = 0; i < FAKE_PERF_CPUS; i++)
		assert_true(
			fake_perf_find(PERF_TYPE_TRACEPOINT, FAKE_WAKING, (int)i, 0)->is_enabled);
	/* One a CPU, and the rings. */
	assert_int_equal(fake_perf_open_count(), 2 * FAKE_PERF_CPUS);
	assert_int_equal(ky_wakes_pause(wakes, true), 0);
	assert_false(fake_perf_find(PERF_TYPE_TRACEPOINT, FAKE_WAKING, 0, 0)->is_enabled);
}

static void refused__filter_covers_no_thread(void **state)
{
	const uint32_t tids[] = {100, 500};

	(void)state;
	assert_int_equal(ky_wakes_open(&wakes), 0);
	assert_int_equal(ky_wakes_follow(wakes, tids, 1), 0);
	fake_perf.filter_error = -ENOMEM;
	assert_int_equal(ky_wakes_follow(wakes, tids, 2), -ENOMEM);
	assert_false(ky_wakes_covers(wakes, 100, UINT64_MAX));
	assert_false(ky_wakes_covers(wakes, 500, UINT64_MAX));
}

static void refused__is_an_event_that_opens_and_reports_nothing(void **state)
{
	(void)state;
	fake_perf.is_silent = true;
	assert_int_equal(ky_wakes_open(&wakes), -ENODATA);
	assert_null(wakes);
	fake_perf.open_error = -EACCES;
	assert_int_equal(ky_wakes_open(&wakes), -EACCES);
	assert_int_equal(fake_perf_open_count(), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(ranges__have_all_and_as_few_others_as_they_can),
		CASE(covers__from_the_moment_the_filter_has_it),
		CASE(filter__has_the_ranges_and_room_after_them),
		CASE(filter__that_is_renewed_counts_at_once),
		CASE(refused__filter_covers_no_thread),
		CASE(refused__is_an_event_that_opens_and_reports_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
