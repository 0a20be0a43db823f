/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loss, continued sub-buffers, time stamps that wrap, busy threads, late records. */
#include "../../lib/drain_case.h"

/* `count` polls of task 1, two records each, every 10 us. */
static uint64_t polls(struct test_writer *w, uint64_t ns, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		test_poll(w, ns, 1, 0);
		test_poll_end(w, ns + 5000, 0);
		ns += 10000;
	}
	return ns;
}

static uint64_t lost(struct drain_case *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT(c, LOSS); i++)
		sum += NUMBER(EVENT(c, LOSS, i), LOSS, record_count);
	return sum;
}

static void drain__overwritten_sub_buffers_are_an_exact_loss(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns, before;
	struct ky_drain_stats stats;

	(void)state;
	case_begin(&c, &w, 8);
	ns = polls(&w, T0, 100);
	case_step(&c, ns + 10 * MS);
	before = ns;
	/* Several rounds of the ring without a step. */
	ns = polls(&w, ns + MS, 9000);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_true(lost(&c) > 0);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, is_exact), 1);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, tid), 501);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "overwritten");
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, from_ns) <= before);
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, to_ns) > before);
	assert_int_equal(stats.records_read + lost(&c), w.record_count);
	assert_int_equal(stats.records_lost, lost(&c));
	assert_int_equal(COUNT(&c, POLL_START), COUNT(&c, POLL_END));
	case_close(&c);
}

static void drain__polls_open_across_a_loss_are_restored(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns;
	int back = 0;

	(void)state;
	case_begin(&c, &w, 4);
	polls(&w, T0, 3);
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
	ns = polls(&w, T0 + 12 * MS, 4000);
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
	ns = polls(&w, T0, 300);
	word = (uint64_t *)(void *)((uint8_t *)test_ring_slot(&c.ring, 0) + KY_SLOT_HEADER_BYTES +
				    24 * 100);
	*word = 0; /* no such record */
	ns = polls(&w, ns, 300);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.slots_skipped_corrupt, 1);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "corrupt");
	assert_int_equal(stats.records_read + lost(&c), w.record_count);
	case_close(&c);
}

static void drain__dropped_records_and_header_counters_are_reported_once(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;

	(void)state;
	case_begin(&c, &w, 8);
	polls(&w, T0, 1);
	atomic_store(&c.ring.header->dropped_no_slot_count, 5);
	atomic_store(&c.ring.header->dropped_signal_count, 2);
	test_emit(&w, T0 + MS, KYMO_RECORD_DROPPED, KYMO_DROP_NO_SLOT, 1, 3, 0, 0);
	case_step(&c, T0 + 10 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	/* What the counters reported already: 2 of no-slot and 2 of signal. */
	test_emit(&w, T0 + 11 * MS, KYMO_RECORD_DROPPED, KYMO_DROP_NO_SLOT, 1, 2, 0, 0);
	test_emit(&w, T0 + 12 * MS, KYMO_RECORD_DROPPED, KYMO_DROP_SIGNAL, 1, 2, 0, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(lost(&c), 7);
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
	polls(&a, T0, 3);
	case_step(&c, T0 + 10 * MS);
	test_writer_exit(&a, T0 + 11 * MS, true);
	case_step(&c, T0 + 20 * MS);
	test_writer_open(&b, &c.ring, 502, T0 + 21 * MS);
	test_writer_continue(&b, &a, T0 + 21 * MS);
	polls(&b, T0 + 22 * MS, 2);
	case_step(&c, T0 + 40 * MS);
	case_finish(&c, T0 + 60 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(lost(&c), 0);
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
	polls(&w, T0, 1);
	case_step(&c, T0 + MS * 10);
	polls(&w, T0 + 2 * hour, 1); /* 40 bits of 8 ticks are 58 minutes here */
	case_step(&c, T0 + 2 * hour + 10 * MS);
	polls(&w, T0 + 8 * hour, 1);
	case_finish(&c, T0 + 8 * hour + 10 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 3);
	for (size_t i = 0; i < 3; i++) {
		uint64_t expected = T0 + (i == 0 ? 0 : i == 1 ? 2 : 8) * hour;

		assert_true(EVENT(&c, POLL_START, i)->ns - expected + 50 < 100);
	}
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
	polls(&a, T0, 1);
	test_busy(&a, true);
	polls(&b, T0 + 5 * MS, 1);
	case_step(&c, T0 + 20 * MS);
	case_step(&c, T0 + 120 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.chunks_written, 0);
	/* It publishes in time: nothing is late. */
	polls(&a, T0 + MS, 1);
	test_busy(&a, true);
	polls(&b, T0 + 6 * MS, 1);
	case_step(&c, T0 + 130 * MS);
	case_step(&c, T0 + 320 * MS);
	case_step(&c, T0 + 340 * MS); /* patience is over */
	polls(&a, T0 + 2 * MS, 1);
	case_finish(&c, T0 + 400 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_late, 2);
	assert_int_equal(COUNT(&c, POLL_START), 5);
	for (size_t i = 1; i < 4; i++)
		assert_true(EVENT(&c, POLL_START, i - 1)->ns <= EVENT(&c, POLL_START, i)->ns);
	assert_true(EVENT(&c, POLL_START, 4)->ns < EVENT(&c, POLL_START, 3)->ns);
	case_close(&c);
}

static void drain__nothing_newer_than_the_watermark_is_written(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	test_poll_end(&w, T0 + 10 * MS, 0);
	case_step(&c, T0 + 10 * MS + 500000); /* T lies half a millisecond before the end */
	assert_int_equal(ky_drain_seal(c.drain), 0);
	test_sink_decode(&c.sink);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 0);
	case_finish(&c, T0 + 20 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(COUNT(&c, POLL_END), 1);
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
	ns = polls(&w, T0, 4000);
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

static void drain__small_memory_changes_nothing_but_the_steps(void **state)
{
	struct test_writer w[5];
	struct ky_drain_stats stats;
	struct drain_case c;
	uint64_t last = 0;

	(void)state;
	case_open(&c, 64);
	c.options.memory_bytes_max = 256 << 10;
	for (uint32_t i = 0; i < 5; i++)
		test_writer_open(&w[i], &c.ring, 501 + i, T0);
	for (uint64_t ns = T0; ns < T0 + 20 * MS; ns += 10000) {
		for (uint32_t i = 0; i < 5; i++)
			polls(&w[i], ns + i * 100, 1);
	}
	case_start(&c);
	case_finish(&c, T0 + 100 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_late, 0);
	assert_int_equal(COUNT(&c, POLL_END), 10000);
	for (size_t i = 0; i < c.sink.event_count; i++) {
		assert_true(c.sink.events[i].ns >= last);
		last = c.sink.events[i].ns;
	}
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
		ns = polls(&w, T0, 4000);
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

static void drain__batches_stay_in_order_when_sub_buffers_are_reused(void **state)
{
	struct test_writer w[5];
	struct ky_drain_stats stats;
	struct drain_case c;
	uint64_t ns = T0, last = 0;

	(void)state;
	case_open(&c, 64);
	c.options.memory_bytes_max = 256 << 10;
	case_start(&c);
	for (uint32_t i = 0; i < 5; i++)
		test_writer_open(&w[i], &c.ring, 501 + i, T0);
	for (uint32_t round = 0; round < 4;
	     round++) { /* 40 of the 64 sub-buffers between two steps */
		for (uint32_t n = 0; n < 2500; n++, ns += 10000) {
			for (uint32_t i = 0; i < 5; i++)
				polls(&w[i], ns + i * 100, 1);
		}
		case_step(&c, ns);
	}
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_lost, 0);
	assert_int_equal(stats.records_late, 0);
	assert_int_equal(COUNT(&c, POLL_END), 4 * 2500 * 5);
	for (size_t i = 0; i < c.sink.event_count; i++) {
		assert_true(c.sink.events[i].ns >= last);
		last = c.sink.events[i].ns;
	}
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__overwritten_sub_buffers_are_an_exact_loss),
		cmocka_unit_test(drain__polls_open_across_a_loss_are_restored),
		cmocka_unit_test(drain__polls_that_ended_inside_a_loss_get_no_end),
		cmocka_unit_test(drain__corrupt_sub_buffer_is_counted_by_the_next_one),
		cmocka_unit_test(drain__dropped_records_and_header_counters_are_reported_once),
		cmocka_unit_test(drain__parked_sub_buffer_continues_with_the_next_thread),
		cmocka_unit_test(drain__stamps_survive_hours_of_silence),
		cmocka_unit_test(drain__busy_thread_holds_the_merge_for_at_most_200_ms),
		cmocka_unit_test(drain__nothing_newer_than_the_watermark_is_written),
		cmocka_unit_test(drain__stream_of_a_flight_ring_counts_earlier_records),
		cmocka_unit_test(drain__small_memory_changes_nothing_but_the_steps),
		cmocka_unit_test(drain__threads_never_seen_are_lost_from_their_start_on),
		cmocka_unit_test(drain__batches_stay_in_order_when_sub_buffers_are_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
