/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests in the host: the spans that the ring holds while they are open, and what is recorded. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <kymo/conn.h>
#include <kymo/emit.h>
#include <wire/ring_span.h>

static const struct kymo_conn conn = {
	.number = 3, .name = 7, .descriptor = 12, .peer_port = 443, .since_ticks = 99};

static const struct test_record *find(const struct test_recorder *test, uint32_t type)
{
	for (size_t i = 0; i < test->ring.count; i++)
		if (test->ring.records[i].type == type)
			return &test->ring.records[i];
	return NULL;
}

static uint32_t open_count(const struct test_recorder *test)
{
	const struct ky_ring_header *header = test->ring.header;
	const struct ky_ring_side *side =
		(const struct ky_ring_side *)(const void *)((const uint8_t *)header +
							    header->side_offset);
	struct ky_open_span span;
	uint32_t count = 0;

	for (uint32_t entry = 0; entry < KY_SPANS; entry++)
		count += ky_ring_span(side, entry, &span);
	return count;
}

static void request__is_an_open_span_until_it_ends(void **state)
{
	struct kymo_span span, other;
	struct test_recorder test;
	const struct test_record *record;
	uint64_t word, begin_ticks;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_recorder_gates(KYMO_GATE_CONN, KYMO_GATE_SPAN); /* it has a gate of its own */
	kymo_conn_begin(&span, &conn);
	word = kymo_task_word(span.id, 7);
	begin_ticks = span.begin_ticks;
	kymo_conn_wait(&span, 123);
	test_recorder_read(&test);
	assert_int_equal(open_count(&test), 1);
	kymo_conn_end(&span, &conn, 10, 1 << 23);
	assert_int_equal(span.id, 0);
	kymo_conn_end(&span, &conn, 10, 20); /* nothing is left to end */
	kymo_conn_unseen(5);
	kymo_conn_begin(&other, &conn);
	assert_true(kymo_task_word(other.id, 7) != word);
	kymo_conn_end(&other, &conn, 0, 0);
	test_recorder_read(&test);
	assert_int_equal(open_count(&test), 0);
	record = find(&test, KYMO_RECORD_CONN_BEGIN);
	assert_non_null(record);
	assert_int_equal(record->arg, 443);
	assert_int_equal(record->words[0], word);
	assert_int_equal(record->words[1], UINT64_C(3) << 32 | 12);
	assert_int_equal(record->words[2], 99);
	record = find(&test, KYMO_RECORD_CONN_WAIT);
	assert_non_null(record);
	assert_int_equal(record->words[0], word);
	assert_int_equal(record->words[1], 123);
	record = find(&test, KYMO_RECORD_CONN_END);
	assert_non_null(record);
	assert_int_equal(record->words[0], word);
	assert_int_equal(record->words[1], begin_ticks);
	assert_int_equal(record->words[2],
			 UINT64_C(10) << 40 | (uint64_t)(KYMO_CONN_BYTES_COARSE | 2048) << 16 | 12);
	assert_int_equal(find(&test, KYMO_RECORD_CONN_UNSEEN)->words[0], 5);
	test_recorder_close(&test);
}

static void closed_gate__records_no_begin_and_every_end(void **state)
{
	struct kymo_span before, during;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_recorder_gates(KYMO_GATE_CONN, 0);
	kymo_conn_begin(&before, &conn);
	kymo_recorder_gates(0, KYMO_GATE_CONN);
	kymo_conn_begin(&during, &conn);
	assert_int_equal(during.id, 0);
	kymo_conn_wait(&during, 1);
	kymo_conn_unseen(1);
	kymo_conn_end(&during, &conn, 1, 1);
	kymo_conn_end(&before, &conn, 1, 1);
	test_recorder_read(&test);
	assert_int_equal(open_count(&test), 0);
	assert_non_null(find(&test, KYMO_RECORD_CONN_END));
	assert_null(find(&test, KYMO_RECORD_CONN_WAIT));
	assert_null(find(&test, KYMO_RECORD_CONN_UNSEEN));
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request__is_an_open_span_until_it_ends),
		cmocka_unit_test(closed_gate__records_no_begin_and_every_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
