/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <base/timeline.h>
#include <errno.h>
#include <kymo/base.h>

#define GHZ UINT64_C(1000000000)

static struct ky_timeline line;

static int open_line(void **state)
{
	(void)state;
	ky_timeline_init(&line, 2 * GHZ, false);
	return 0;
}

static int close_line(void **state)
{
	(void)state;
	ky_timeline_release(&line);
	return 0;
}

static void timeline__without_anchors_every_time_is_zero(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_ns(&line, 12345), 0);
	assert_int_equal(ky_timeline_realtime_ns(&line, 5), 0);
	assert_int_equal(ky_timeline_length_ns(&line, 2000), 1000);
	assert_int_equal(ky_timeline_length_ticks(&line, 1000), 2000);
}

static void timeline__anchors_convert_to_themselves_and_between_them_is_a_line(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 1000, 5000, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 3000, 6000, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 7000, 8000, 0, 0), 0);
	assert_int_equal(ky_timeline_ns(&line, 1000), 5000);
	assert_int_equal(ky_timeline_ns(&line, 2000), 5500);
	assert_int_equal(ky_timeline_ns(&line, 3000), 6000);
	assert_int_equal(ky_timeline_ns(&line, 5000), 7000);
	assert_int_equal(ky_timeline_ns(&line, 7000), 8000);
	/* Before the first one with the first slope, never below zero. */
	assert_int_equal(ky_timeline_ns(&line, 0), 4500);
	assert_int_equal(line.jump_count, 0);
}

static void timeline__behind_the_last_anchor_it_goes_on_for_ten_seconds(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 1000, 5000, 0, 0), 0);
	assert_int_equal(ky_timeline_ns(&line, 1000 + 2 * GHZ), 5000 + GHZ);
	assert_int_equal(ky_timeline_ns(&line, 1000 + 2000 * GHZ), 5000 + KY_TIMELINE_AHEAD_MAX_NS);
	assert_int_equal(ky_timeline_ns(&line, UINT64_MAX), 5000 + KY_TIMELINE_AHEAD_MAX_NS);
}

/* Method: anchors at random distances and slightly different rates, ticks at random places; both
 * the inline path (same piece again) and the search are taken. */
static void timeline__more_ticks_never_give_fewer_ns(void **state)
{
	struct test_prng prng = {17};
	uint64_t ticks = 1u << 20, ns = 1u << 20, last = 0;

	(void)state;
	for (int i = 0; i < 500; i++) {
		uint64_t step = 1 + (test_random(&prng) >> (20 + test_below(&prng, 43)));

		assert_true(ky_timeline_add(&line, ticks, ns, 0, 0) >= 0);
		ticks += step;
		ns += 1 + step / 2 + test_below(&prng, 7);
	}
	/* Ten looks into every piece, and its ends. */
	for (size_t i = 0; i + 1 < line.count; i++) {
		uint64_t begin = line.points[i].ticks, span = line.points[i + 1].ticks - begin;

		for (uint64_t k = 0; k <= 10; k++) {
			uint64_t at = k == 10 ? begin + span - 1 : begin + span / 10 * k;
			uint64_t seen = ky_timeline_ns(&line, at);

			assert_true(seen >= last && seen <= line.points[i + 1].ns);
			last = seen;
		}
	}
	for (size_t i = 0; i < line.count; i++)
		assert_true(ky_timeline_ns(&line, line.points[i].ticks) == line.points[i].ns);
}

static void timeline__anchor_that_is_not_newer_is_refused(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 1000, 5000, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 1000, 6000, 0, 0), KYMO_E_AGAIN);
	assert_int_equal(ky_timeline_add(&line, 2000, 5000, 0, 0), KYMO_E_AGAIN);
	assert_int_equal(ky_timeline_add(&line, 999, 4999, 0, 0), KYMO_E_AGAIN);
	assert_int_equal(line.refused_count, 3);
	assert_int_equal(line.count, 1);
}

static void timeline__rate_that_jumps_is_taken_and_counted(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 0, 1, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 2 * GHZ, 1 + GHZ, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 4 * GHZ, 1 + 2 * GHZ + 100000, 0, 0), 0);
	/* The machine slept: the counter stood still for a second. */
	assert_int_equal(ky_timeline_add(&line, 6 * GHZ, 4 * GHZ, 0, 0), 1);
	assert_int_equal(line.jump_count, 1);
	assert_int_equal(ky_timeline_ns(&line, 6 * GHZ), 4 * GHZ);
}

static void timeline__wide_bracket_excuses_a_short_jump(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 0, 1, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 2000000, 1000001, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 4000000, 2050001, 0, 50000), 0);
	assert_int_equal(line.jump_count, 0);
}

static void timeline__oldest_anchors_go_and_the_newest_stay(void **state)
{
	uint64_t count = 3 * KY_TIMELINE_POINTS_MAX;

	(void)state;
	for (uint64_t i = 1; i <= count; i++)
		assert_int_equal(ky_timeline_add(&line, 2000 * i, 1000 * i, 0, 0), 0);
	assert_true(line.count <= KY_TIMELINE_POINTS_MAX);
	for (uint64_t i = 1; i <= count; i++)
		assert_int_equal(ky_timeline_ns(&line, 2000 * i), 1000 * i);
}

static void timeline__identity_takes_ticks_for_nanoseconds(void **state)
{
	(void)state;
	ky_timeline_init(&line, 0, true);
	assert_int_equal(ky_timeline_add(&line, 77, 5000, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 78, 9000, 0, 0), 0);
	assert_int_equal(ky_timeline_ns(&line, 4000), 4000);
	assert_int_equal(ky_timeline_ns(&line, 7001), 7001);
	assert_int_equal(ky_timeline_ns(&line, 9500), 9500);
}

static void timeline__wall_time_follows_steps_of_the_clock(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 1000, 500, 1000000, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 3000, 1500, 2000000, 0), 0);
	assert_int_equal(ky_timeline_realtime_ns(&line, 500), 1000000);
	assert_int_equal(ky_timeline_realtime_ns(&line, 1499), 1000999);
	assert_int_equal(ky_timeline_realtime_ns(&line, 1500), 2000000);
	assert_int_equal(ky_timeline_realtime_ns(&line, 400), 999900);
}

static void timeline__extreme_anchors_saturate(void **state)
{
	(void)state;
	assert_int_equal(ky_timeline_add(&line, 1, 1, 0, 0), 0);
	assert_true(ky_timeline_add(&line, 2, UINT64_MAX - 1, 0, 0) >= 0);
	assert_true(ky_timeline_ns(&line, 2) == UINT64_MAX - 1);
	assert_true(ky_timeline_length_ns(&line, UINT64_MAX) == UINT64_MAX);
	assert_int_equal(ky_timeline_length_ticks(&line, 0), 0);
}

static void timeline__without_memory_an_anchor_is_not_taken(void **state)
{
	(void)state;
	test_alloc_fail_at(0);
	assert_int_equal(ky_timeline_add(&line, 1000, 5000, 0, 0), -ENOMEM);
	test_alloc_normal();
	assert_int_equal(line.count, 0);
	assert_int_equal(ky_timeline_add(&line, 1000, 5000, 0, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_line, close_line)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(timeline__without_anchors_every_time_is_zero),
		TEST(timeline__anchors_convert_to_themselves_and_between_them_is_a_line),
		TEST(timeline__behind_the_last_anchor_it_goes_on_for_ten_seconds),
		TEST(timeline__more_ticks_never_give_fewer_ns),
		TEST(timeline__anchor_that_is_not_newer_is_refused),
		TEST(timeline__rate_that_jumps_is_taken_and_counted),
		TEST(timeline__wide_bracket_excuses_a_short_jump),
		TEST(timeline__oldest_anchors_go_and_the_newest_stay),
		TEST(timeline__identity_takes_ticks_for_nanoseconds),
		TEST(timeline__wall_time_follows_steps_of_the_clock),
		TEST(timeline__extreme_anchors_saturate),
		TEST(timeline__without_memory_an_anchor_is_not_taken),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
