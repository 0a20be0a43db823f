/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records that were overwritten, or written before the trace. */
#include "../../lib/drain_case.h"

static void drain__overwritten_sub_buffers_are_an_exact_loss(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns, before;
	struct ky_drain_stats stats;

	(void)state;
	case_begin(&c, &w, 8);
	ns = case_polls(&w, T0, 100);
	case_step(&c, ns + 10 * MS);
	before = ns;
	/* Several rounds of the ring without a step. */
	ns = case_polls(&w, ns + MS, 9000);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_true(case_lost(&c) > 0);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, is_exact), 1);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, tid), 501);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "overwritten");
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, from_ns) <= before);
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, to_ns) > before);
	assert_int_equal(stats.records_read + case_lost(&c), w.record_count);
	assert_int_equal(stats.records_lost, case_lost(&c));
	assert_int_equal(COUNT(&c, POLL_START), COUNT(&c, POLL_END));
	case_close(&c);
}

static void drain__stream_of_a_flight_ring_counts_earlier_records(void **state)
{
	struct ky_drain_stats stats;
	struct drain_case c;
	struct test_writer w;
	uint64_t ns;

	(void)state;
	case_open(&c, 4);
	c.ring.header->flags |= KY_RING_FLIGHT;
	test_writer_open(&w, &c.ring, 501, T0);
	ns = case_polls(&w, T0, 4000);
	case_start(&c);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "flight");
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), stats.records_flown);
	assert_int_equal(stats.records_lost, 0);
	assert_true(COUNT(&c, POLL_START) > 300);
	/* The first of them began before the trace. */
	assert_int_equal(COUNT(&c, POLL_START) + 1, COUNT(&c, POLL_END));
	assert_true(COUNT(&c, OPEN_POLL) > 0);
	case_close(&c);
}

/* Two ways for a thread to be known by name only. */
static void drain__threads_never_seen_are_lost_from_their_start_on(void **state)
{
	for (uint64_t dropped = 0; dropped < 2; dropped++) {
		struct drain_case c;
		struct test_writer w, unseen;
		const struct test_event *loss = NULL;
		uint64_t ns;

		(void)state;
		case_open(&c, 4);
		test_writer_open(&w, &c.ring, 501, T0);
		test_writer_open(&unseen, &c.ring, 502, T0 + MS);
		ns = case_polls(&w, T0, 4000);
		c.ring.header->dropped_no_slot_count = 7 * dropped;
		case_start(&c);
		case_finish(&c, ns + 10 * MS);
		for (size_t i = 0; i < COUNT(&c, LOSS); i++)
			if (NUMBER(EVENT(&c, LOSS, i), LOSS, tid) == 502)
				loss = EVENT(&c, LOSS, i);
		assert_non_null(loss);
		assert_true(loss->ns >= T0 + MS - 8);
		assert_true(NUMBER(loss, LOSS, from_ns) >= T0 + MS - 8);
		assert_false(NUMBER(loss, LOSS, is_exact));
		/* What the ring had no room for is counted by the header already. */
		assert_string_equal(TEXT(loss, LOSS, cause), dropped ? "no-slot" : "overwritten");
		assert_int_equal(NUMBER(loss, LOSS, record_count), dropped ? 0 : 1);
		case_close(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__overwritten_sub_buffers_are_an_exact_loss),
		cmocka_unit_test(drain__stream_of_a_flight_ring_counts_earlier_records),
		cmocka_unit_test(drain__threads_never_seen_are_lost_from_their_start_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
