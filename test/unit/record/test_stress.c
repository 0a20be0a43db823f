/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writers that wrap a small ring, threads that come and go, a gate that flaps, names that are
 * interned, and a reader that reads the same addresses all the while. Made for ThreadSanitizer;
 * without it the reader's checks still bite. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITERS 3
#define EVENTS 60000
#define READS 150
#define CHURNED 300

static uint32_t is_over;

static void *write_events(void *ctx)
{
	uint32_t own = 0;

	(void)ctx;
	for (int i = 0; i < EVENTS; i++) {
		kymo_poll_begin(1, 0, 0);
		kymo_mark(own++);
		kymo_poll_end(0);
	}
	return NULL;
}

static void *write_little(void *ctx)
{
	(void)ctx;
	for (uint32_t i = 0; i < 20; i++)
		kymo_mark(i);
	return NULL;
}

static void *churn(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < CHURNED; i++)
		test_in_thread(write_little, NULL);
	return NULL;
}

static void *flap(void *ctx)
{
	char text[32];

	(void)ctx;
	for (int i = 0; !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); i++) {
		int count = snprintf(text, sizeof(text), "name %d", i % 500);

		kymo_recorder_gates(i % 2 ? KYMO_GATE_WAKE : 0, i % 2 ? 0 : KYMO_GATE_WAKE);
		(void)kymo_name_intern(text, (size_t)count, 0, 0, 0);
	}
	return NULL;
}

/* Inside one slot the marks of a thread follow each other, and so do its record numbers. */
static void check(const struct test_ring *ring)
{
	for (size_t i = 1; i < ring->count; i++) {
		const struct test_record *record = &ring->records[i], *before = record - 1;

		if (record->claim != before->claim || record->thread != before->thread)
			continue;
		assert_int_equal(record->number, before->number + 1);
		assert_true(record->ticks >= before->ticks);
		if (record->type != KYMO_RECORD_POLL_END || before->type != KYMO_RECORD_MARK ||
		    i < 5)
			continue;
		before = record - 4; /* begin, mark, end, begin, mark, end */
		if (before->claim == record->claim && before->thread == record->thread &&
		    before->type == KYMO_RECORD_MARK && record[-1].number == before->number + 3)
			assert_int_equal(record[-1].words[0], before->words[0] + 1);
	}
}

static void ring__holds_under_writers_churn_and_readers(void **state)
{
	pthread_t writers[WRITERS], churner, flapper;
	struct test_recorder test;
	struct test_ring shared;
	size_t torn = 0;

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	memset(&shared, 0, sizeof(shared));
	shared.image = ky_engine.ring->base;
	shared.image_bytes = ky_engine.ring->mapped_bytes;
	shared.header = ky_engine.ring->header;
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_events, NULL), 0);
	assert_int_equal(pthread_create(&churner, NULL, churn, NULL), 0);
	assert_int_equal(pthread_create(&flapper, NULL, flap, NULL), 0);
	for (int i = 0; i < READS; i++) {
		test_ring_read(&shared);
		assert_int_equal(shared.bad_count, 0);
		check(&shared);
		torn += shared.torn_count;
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	pthread_join(churner, NULL);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	pthread_join(flapper, NULL);
	test_ring_read(&shared);
	assert_int_equal(shared.bad_count + shared.torn_count, 0);
	check(&shared);
	print_message("# %zu slots were overwritten while being read\n", torn);
	free(shared.records);
	test_recorder_close(&test);
}

static void *emit_until_closed(void *ctx)
{
	(void)ctx;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		kymo_poll_begin(1, 0, 0);
		kymo_mark(1);
		kymo_poll_end(0);
	}
	return NULL;
}

/* Events continue while recorders are closed and opened under them. */
static void close__under_emitting_threads_is_safe(void **state)
{
	struct test_recorder test;
	pthread_t writers[WRITERS];

	(void)state;
	__atomic_store_n(&is_over, 0, __ATOMIC_RELEASE);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, emit_until_closed, NULL), 0);
	for (int i = 0; i < 20; i++) {
		test_recorder_open(&test, i % 2 ? 256u << 10 : 0, i % 3 ? 0 : KYMO_RECORDER_EAGER);
		kymo_mark(1);
		test_in_thread(write_little, NULL);
		test_recorder_read(&test);
		assert_int_equal(test.ring.bad_count, 0);
		assert_true(test.ring.count > 0);
		test_recorder_close(&test);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring__holds_under_writers_churn_and_readers),
		cmocka_unit_test(close__under_emitting_threads_is_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
