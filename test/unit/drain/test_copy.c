/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The watermark, and memory that is short. */
#include "../../lib/drain_case.h"

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
			case_polls(&w[i], ns + i * 100, 1);
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
				case_polls(&w[i], ns + i * 100, 1);
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
		cmocka_unit_test(drain__nothing_newer_than_the_watermark_is_written),
		cmocka_unit_test(drain__small_memory_changes_nothing_but_the_steps),
		cmocka_unit_test(drain__batches_stay_in_order_when_sub_buffers_are_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
