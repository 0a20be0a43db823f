/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ticks to ns: exact at anchors, straight between them, never backwards. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <base/timeline.h>
#include <kymo/base.h>

#define S UINT64_C(1000000000)

static void timeline__anchors_are_exact_and_lines_straight(void **state)
{
	struct ky_timeline line;

	(void)state;
	ky_timeline_init(&line, 2 * S, false);
	assert_int_equal(ky_timeline_ns(&line, 5), 0); /* no anchor yet */
	assert_int_equal(ky_timeline_add(&line, 1000, S, 9 * S, 0), 0);
	assert_int_equal(ky_timeline_ns(&line, 3000), S + 1000); /* nominal rate */
	assert_int_equal(ky_timeline_add(&line, 1000 + 4 * S, 3 * S, 11 * S, 0), 0);
	assert_int_equal(ky_timeline_ns(&line, 1000), S);
	assert_int_equal(ky_timeline_ns(&line, 1000 + 2 * S), 2 * S);
	assert_int_equal(ky_timeline_ns(&line, 1000 + 4 * S), 3 * S);
	assert_int_equal(ky_timeline_ns(&line, 1000 + 5 * S), 3 * S + S / 2);
	assert_int_equal(ky_timeline_ns(&line, 0), S - 500);
	assert_int_equal(ky_timeline_realtime_ns(&line, 2 * S), 10 * S);
	/* Far ahead of the newest anchor it stops. */
	assert_int_equal(ky_timeline_ns(&line, UINT64_MAX), 3 * S + KY_TIMELINE_AHEAD_MAX_NS);
	ky_timeline_release(&line);
}

static void timeline__backward_anchor_is_refused_and_jump_is_reported(void **state)
{
	struct ky_timeline line;

	(void)state;
	ky_timeline_init(&line, S, false);
	ky_timeline_add(&line, S, S, S, 0);
	ky_timeline_add(&line, 2 * S, 2 * S, 2 * S, 0);
	assert_int_equal(ky_timeline_add(&line, 2 * S, 3 * S, 0, 0), KYMO_E_AGAIN);
	assert_int_equal(ky_timeline_add(&line, 3 * S, 2 * S, 0, 0), KYMO_E_AGAIN);
	assert_int_equal(line.refused_count, 2);
	/* 100 ppm are the clock being steered, 1,000 are something else. */
	assert_int_equal(ky_timeline_add(&line, 3 * S, 3 * S + 100000, 0, 0), 0);
	assert_int_equal(ky_timeline_add(&line, 4 * S, 4 * S + 1100000, 0, 0), 1);
	assert_int_equal(line.jump_count, 1);
	ky_timeline_release(&line);
}

static void timeline__never_runs_backwards(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct test_prng prng = {seed};
		uint64_t ticks = test_random(&prng) >> 20, ns = test_random(&prng) >> 20;
		uint64_t first = ticks, last_ns = 0, at;
		struct ky_timeline line;

		ky_timeline_init(&line, 1 + test_random_length(&prng), false);
		for (uint32_t i = 0; i < 6000; i++) {
			ticks += 1 + (test_random_length(&prng) >> 24);
			ns += 1 + (test_random_length(&prng) >> 24);
			assert_true(ky_timeline_add(&line, ticks, ns, ns, 0) >= 0);
		}
		at = first > S ? first - S : 0;
		for (uint32_t i = 0; i < 20000; i++) {
			uint64_t now = ky_timeline_ns(&line, at);

			assert_true(now >= last_ns);
			last_ns = now;
			at += test_random(&prng) % ((ticks - first) / 15000 + 2);
		}
		ky_timeline_release(&line);
	}
}

static void timeline__identity_takes_ns_as_ticks(void **state)
{
	struct ky_timeline line;

	(void)state;
	ky_timeline_init(&line, 12345, true);
	ky_timeline_add(&line, 77, S, S, 0);
	ky_timeline_add(&line, 78, 2 * S, S, 0);
	assert_int_equal(ky_timeline_ns(&line, S + 123456789), S + 123456789);
	assert_int_equal(ky_timeline_length_ns(&line, 42), 42);
	assert_int_equal(ky_timeline_length_ticks(&line, 42), 42);
	ky_timeline_release(&line);
}

static void timeline__ticks_lead_back_to_their_time(void **state)
{
	struct ky_timeline line;
	uint64_t state_word = 5;

	(void)state;
	ky_timeline_init(&line, 2500000000u, false);
	assert_int_equal(ky_timeline_ticks(&line, 5), 0);
	for (uint64_t i = 1; i < 50; i++)
		ky_timeline_add(&line, i * 2500000000u + i * i * 7, 1000000000u * i, 0, 10);
	for (int i = 0; i < 10000; i++) {
		uint64_t ns, ticks;

		state_word = state_word * UINT64_C(6364136223846793005) + 1442695040888963407u;
		ns = 500000000u + (state_word >> 20) % UINT64_C(57000000000);
		ticks = ky_timeline_ticks(&line, ns);
		assert_in_range(ky_timeline_ns(&line, ticks), ns - 1, ns + 1);
	}
	assert_true(ky_timeline_ticks(&line, UINT64_MAX) > ky_timeline_ticks(&line, 1u << 30));
	ky_timeline_release(&line);
}

static void timeline__settled_slope_is_that_of_a_long_stretch(void **state)
{
	struct ky_timeline line;

	(void)state;
	ky_timeline_init(&line, 2500000000u, false);
	line.ahead_max_ns = UINT64_MAX / 4;
	ky_timeline_add(&line, 2500000000u, 1000000000u, 0, 10);
	ky_timeline_add(&line, 5000000000u, 2000000000u, 0, 10);
	/* 10 us later, read 50 ns too late: half a percent too fast. */
	ky_timeline_add(&line, 5000025000u, 2000010050u, 0, 50);
	ky_timeline_settle(&line, UINT64_C(100000000000));
	/* An hour ahead: 50 ns in a second are 180 us. */
	assert_in_range(ky_timeline_ns(&line, UINT64_C(2500000000) * 3602), UINT64_C(3602000000000),
			UINT64_C(3602000200000));
	ky_timeline_release(&line);
	/* Too short a stretch to say more than the nominal rate. */
	ky_timeline_init(&line, 2500000000u, false);
	line.ahead_max_ns = UINT64_MAX / 4;
	ky_timeline_add(&line, 5000000000u, 2000000000u, 0, 10);
	ky_timeline_add(&line, 5000025000u, 2000010050u, 0, 50);
	ky_timeline_settle(&line, UINT64_C(100000000000));
	assert_in_range(ky_timeline_ns(&line, UINT64_C(2500000000) * 3602), UINT64_C(3602000000000),
			UINT64_C(3602000000100));
	ky_timeline_release(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timeline__ticks_lead_back_to_their_time),
		cmocka_unit_test(timeline__settled_slope_is_that_of_a_long_stretch),
		cmocka_unit_test(timeline__anchors_are_exact_and_lines_straight),
		cmocka_unit_test(timeline__backward_anchor_is_refused_and_jump_is_reported),
		cmocka_unit_test(timeline__never_runs_backwards),
		cmocka_unit_test(timeline__identity_takes_ns_as_ticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
