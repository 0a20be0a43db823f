/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A sub-buffer after a loss, a damaged one, one whose thread is busy. */
#include "../../lib/drain_case.h"

static void drain__polls_open_across_a_loss_are_restored(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns;
	int back = 0;

	(void)state;
	case_begin(&c, &w, 4);
	case_polls(&w, T0, 3);
	case_step(&c, T0 + 10 * MS);
	/* Begins in what will be overwritten, ends after it. */
	test_poll(&w, T0 + 20 * MS, 77, 0);
	for (ns = T0 + 21 * MS; ns < T0 + 121 * MS; ns += 10000)
		test_emit(&w, ns, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(1, 0), 0, 0);
	test_poll_end(&w, T0 + 130 * MS, 0);
	case_finish(&c, T0 + 200 * MS);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_int_equal(COUNT(&c, POLL_START), 4);
	assert_int_equal(COUNT(&c, POLL_END), 4);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 3), POLL_START, task_id), 77);
	/* With the time it really began, although that record is lost. */
	assert_true(EVENT(&c, POLL_START, 3)->ns - (T0 + 20 * MS) < 100 ||
		    T0 + 20 * MS - EVENT(&c, POLL_START, 3)->ns < 100);
	/* That is the one step back in the file, after the loss: docs/format.md, section 5. */
	for (size_t i = 1; i < c.sink.event_count; i++) {
		if (c.sink.events[i].ns < c.sink.events[i - 1].ns)
			back += c.sink.events[i].ns == EVENT(&c, POLL_START, 3)->ns ? 1 : 100;
	}
	assert_int_equal(back, 1);
	assert_true(EVENT(&c, POLL_START, 3) > EVENT(&c, LOSS, 0));
	/* The waker of what was read after the loss is known. */
	assert_int_equal(NUMBER(EVENT(&c, WAKE, COUNT(&c, WAKE) - 1), WAKE, waker_task_id), 77);
	case_close(&c);
}

static void drain__polls_that_ended_inside_a_loss_get_no_end(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns;

	(void)state;
	case_begin(&c, &w, 4);
	test_poll(&w, T0, 77, 0);
	case_step(&c, T0 + 10 * MS);
	test_poll_end(&w, T0 + 11 * MS, 0);
	ns = case_polls(&w, T0 + 12 * MS, 4000);
	case_finish(&c, ns + 200 * MS);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_int_equal(COUNT(&c, POLL_START), COUNT(&c, POLL_END) + 1);
	case_close(&c);
}

static void drain__corrupt_sub_buffer_is_counted_by_the_next_one(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;
	uint64_t ns, *word;

	(void)state;
	case_begin(&c, &w, 8);
	ns = case_polls(&w, T0, 300);
	word = (uint64_t *)(void *)((uint8_t *)test_ring_slot(&c.ring, 0) + KY_SLOT_HEADER_BYTES +
				    24 * 100);
	*word = 0; /* no such record */
	ns = case_polls(&w, ns, 300);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.slots_skipped_corrupt, 1);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "corrupt");
	assert_int_equal(stats.records_read + case_lost(&c), w.record_count);
	case_close(&c);
}

static void drain__busy_thread_holds_the_merge_for_at_most_200_ms(void **state)
{
	struct drain_case c;
	struct test_writer a, b;
	struct ky_drain_stats stats;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	case_polls(&a, T0, 1);
	test_busy(&a, true);
	case_polls(&b, T0 + 5 * MS, 1);
	case_step(&c, T0 + 20 * MS);
	case_step(&c, T0 + 120 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.chunks_written, 0);
	/* It publishes in time: nothing is late. */
	case_polls(&a, T0 + MS, 1);
	test_busy(&a, true);
	case_polls(&b, T0 + 6 * MS, 1);
	case_step(&c, T0 + 130 * MS);
	case_step(&c, T0 + 320 * MS);
	case_step(&c, T0 + 340 * MS); /* patience is over */
	case_polls(&a, T0 + 2 * MS, 1);
	case_finish(&c, T0 + 400 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_late, 2);
	assert_int_equal(COUNT(&c, POLL_START), 5);
	for (size_t i = 1; i < 4; i++)
		assert_true(EVENT(&c, POLL_START, i - 1)->ns <= EVENT(&c, POLL_START, i)->ns);
	assert_true(EVENT(&c, POLL_START, 4)->ns < EVENT(&c, POLL_START, 3)->ns);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__polls_open_across_a_loss_are_restored),
		cmocka_unit_test(drain__polls_that_ended_inside_a_loss_get_no_end),
		cmocka_unit_test(drain__corrupt_sub_buffer_is_counted_by_the_next_one),
		cmocka_unit_test(drain__busy_thread_holds_the_merge_for_at_most_200_ms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
