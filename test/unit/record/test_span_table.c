/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans in the host: what the ring holds of them while they are open, and what is recorded. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <kymo/span.h>
#include <pthread.h>
#include <wire/ring_span.h>

#define THREADS 4
#define ROUNDS 20000

static uint32_t open_count(struct test_recorder *test, struct ky_open_span *last)
{
	const struct ky_ring_header *header;
	const struct ky_ring_side *side;
	uint32_t count = 0;

	test_recorder_read(test);
	header = test->ring.header;
	side = (const struct ky_ring_side *)(const void *)((const uint8_t *)header +
							   header->side_offset);
	for (uint32_t entry = 0; entry < KY_SPANS; entry++) {
		struct ky_open_span span;

		if (!ky_ring_span(side, entry, &span))
			continue;
		*last = span;
		count++;
	}
	return count;
}

static size_t record_count(const struct test_recorder *test, uint32_t type)
{
	size_t count = 0;

	for (size_t i = 0; i < test->ring.count; i++)
		count += test->ring.records[i].type == type;
	return count;
}

static void span__is_in_the_ring_while_it_is_open(void **state)
{
	struct ky_open_span seen = {0};
	struct kymo_span span, inner;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_span_begin(&span, 7, 0); /* makes the ring */
	assert_int_equal(open_count(&test, &seen), 1);
	assert_int_equal(seen.id, span.id);
	assert_int_equal(seen.name, 7);
	assert_int_equal(seen.begin_ticks, span.begin_ticks);
	kymo_span_begin(&inner, 8, span.id);
	assert_true(inner.id > span.id);
	assert_int_equal(open_count(&test, &seen), 2);
	kymo_span_enter(inner.id);
	kymo_span_follows(inner.id, span.id);
	kymo_span_leave(inner.id);
	kymo_span_enter(0); /* no span */
	kymo_span_follows(inner.id, 0);
	kymo_span_end(&inner);
	kymo_span_end(&inner); /* nothing is left to end */
	kymo_span_end(&span);
	assert_int_equal(open_count(&test, &seen), 0);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_BEGIN), 2);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_END), 2);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_IN), 1);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_OUT), 1);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_FOLLOWS), 1);
	test_recorder_close(&test);
}

static void gate__decides_at_the_begin(void **state)
{
	struct kymo_span before, during;
	struct ky_open_span seen = {0};
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_span_begin(&before, 1, 0);
	kymo_recorder_gates(0, KYMO_GATE_SPAN);
	kymo_span_begin(&during, 1, 0);
	assert_int_equal(during.id, 0);
	assert_int_equal(open_count(&test, &seen), 1);
	kymo_span_end(&before); /* not open for ever because the gate was closed */
	kymo_recorder_gates(KYMO_GATE_SPAN, 0);
	kymo_span_end(&during);
	assert_int_equal(open_count(&test, &seen), 0);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_BEGIN), 1);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_END), 1);
	test_recorder_close(&test);
}

static void span__beyond_the_table_is_recorded_all_the_same(void **state)
{
	static struct kymo_span spans[2 * KY_SPANS];
	struct ky_open_span seen = {0};
	struct test_recorder test;
	uint32_t shown = 0;

	(void)state;
	test_recorder_open(&test, 1u << 20, 0);
	for (uint32_t i = 0; i < 2 * KY_SPANS; i++)
		kymo_span_begin(&spans[i], 1, 0);
	for (uint32_t i = 0; i < 2 * KY_SPANS; i++)
		shown += spans[i].slot != 0;
	assert_int_equal(shown, KY_SPANS - 1);
	assert_int_equal(open_count(&test, &seen), shown);
	for (uint32_t i = 0; i < 2 * KY_SPANS; i++)
		kymo_span_end(&spans[i]);
	assert_int_equal(open_count(&test, &seen), 0);
	assert_int_equal(record_count(&test, KYMO_RECORD_SPAN_END), 2 * KY_SPANS);
	test_recorder_close(&test);
}

static void span__open_over_a_close_is_in_the_next_ring(void **state)
{
	struct ky_open_span seen = {0};
	struct test_recorder test;
	struct kymo_span span;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_span_begin(&span, 5, 0);
	test_recorder_close(&test);
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	assert_int_equal(open_count(&test, &seen), 1);
	assert_int_equal(seen.id, span.id);
	kymo_span_end(&span);
	assert_int_equal(open_count(&test, &seen), 0);
	test_recorder_close(&test);
}

static void *span_many(void *ctx)
{
	struct kymo_span spans[8];

	(void)ctx;
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 8; k++)
			kymo_span_begin(&spans[k], 1, 0);
		for (int k = 0; k < 8; k++)
			kymo_span_end(&spans[k]);
	}
	return NULL;
}

/* The ring starts while they begin and end: none stays open in it. */
static void span__of_many_threads_while_the_ring_starts(void **state)
{
	struct ky_open_span seen = {0};
	pthread_t threads[THREADS];
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, span_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(open_count(&test, &seen), 0);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(span__is_in_the_ring_while_it_is_open),
		cmocka_unit_test(gate__decides_at_the_begin),
		cmocka_unit_test(span__beyond_the_table_is_recorded_all_the_same),
		cmocka_unit_test(span__open_over_a_close_is_in_the_next_ring),
		cmocka_unit_test(span__of_many_threads_while_the_ring_starts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
