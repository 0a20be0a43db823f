/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records that say whose they are, what time it is, and how many were dropped. */
#include "../../lib/drain_case.h"

static void drain__dropped_records_and_header_counters_are_reported_once(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;

	(void)state;
	case_begin(&c, &w, 8);
	case_polls(&w, T0, 1);
	atomic_store(&c.ring.header->dropped_no_slot_count, 5);
	atomic_store(&c.ring.header->dropped_signal_count, 2);
	test_emit(&w, T0 + MS, KYMO_RECORD_DROPPED, KYMO_DROP_NO_SLOT, 1, 3, 0, 0);
	case_step(&c, T0 + 10 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	/* What the counters reported already: 2 of no-slot and 2 of signal. */
	test_emit(&w, T0 + 11 * MS, KYMO_RECORD_DROPPED, KYMO_DROP_NO_SLOT, 1, 2, 0, 0);
	test_emit(&w, T0 + 12 * MS, KYMO_RECORD_DROPPED, KYMO_DROP_SIGNAL, 1, 2, 0, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(case_lost(&c), 7);
	/* All of them are the header's: the two numbers must not be added up. */
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_lost, 7);
	assert_int_equal(stats.records_dropped, 7);
	assert_int_equal(COUNT(&c, LOSS), 3);
	case_close(&c);
}

static void drain__parked_sub_buffer_continues_with_the_next_thread(void **state)
{
	struct drain_case c;
	struct test_writer a, b;
	struct ky_drain_stats stats;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	case_polls(&a, T0, 3);
	case_step(&c, T0 + 10 * MS);
	test_writer_exit(&a, T0 + 11 * MS, true);
	case_step(&c, T0 + 20 * MS);
	test_writer_open(&b, &c.ring, 502, T0 + 21 * MS);
	test_writer_continue(&b, &a, T0 + 21 * MS);
	case_polls(&b, T0 + 22 * MS, 2);
	case_step(&c, T0 + 40 * MS);
	case_finish(&c, T0 + 60 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(case_lost(&c), 0);
	assert_int_equal(COUNT(&c, LOSS), 0);
	assert_int_equal(COUNT(&c, POLL_START), 5);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 4), POLL_START, worker_id), 1);
	assert_int_equal(stats.records_read, a.record_count + b.record_count);
	case_close(&c);
}

static void drain__stamps_survive_hours_of_silence(void **state)
{
	static const uint64_t hour = UINT64_C(3600000000000);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	case_polls(&w, T0, 1);
	case_step(&c, T0 + MS * 10);
	case_polls(&w, T0 + 2 * hour, 1); /* 40 bits of 8 ticks are 58 minutes here */
	case_step(&c, T0 + 2 * hour + 10 * MS);
	case_polls(&w, T0 + 8 * hour, 1);
	case_finish(&c, T0 + 8 * hour + 10 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 3);
	for (size_t i = 0; i < 3; i++) {
		uint64_t expected = T0 + (i == 0 ? 0 : i == 1 ? 2 : 8) * hour;

		assert_true(EVENT(&c, POLL_START, i)->ns - expected + 50 < 100);
	}
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__dropped_records_and_header_counters_are_reported_once),
		cmocka_unit_test(drain__parked_sub_buffer_continues_with_the_next_thread),
		cmocka_unit_test(drain__stamps_survive_hours_of_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
