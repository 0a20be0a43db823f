/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What needs a counter we can set and places we can stop at: epochs, eight hours, handlers inside
 * events, readers between two steps. Built with KYMO_ARCH_HEADER and KY_TESTPOINTS. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static const char *stop_at;
static void (*at_stop)(void);

void ky_testpoint(const char *name)
{
	void (*fn)(void) = at_stop;

	if (!stop_at || strcmp(stop_at, name) != 0)
		return;
	stop_at = NULL;
	fn();
}

static void step_in(const char *name, void (*fn)(void))
{
	at_stop = fn;
	stop_at = name;
}

static void epoch__change_writes_the_full_stamp(void **state)
{
	struct test_recorder test;
	const struct test_record *at;
	uint64_t before, after;
	uint32_t high;

	(void)state;
	test_recorder_open(&test, 0, 0);
	before = kymo_arch_ticks(&high);
	kymo_mark(1);
	test_ticks_offset += UINT64_C(1) << 32;
	kymo_mark(2);
	kymo_mark(3);
	after = kymo_arch_ticks(&high);
	test_recorder_read(&test);
	at = test.ring.records;
	assert_int_equal(test.ring.count, 4);
	assert_int_equal(at[1].type, KYMO_RECORD_TIME);
	assert_int_equal(at[2].type, KYMO_RECORD_MARK);
	assert_true(at[2].ticks - at[0].ticks >= UINT64_C(1) << 32);
	assert_true(at[2].ticks - at[0].ticks <= after - before + 8);
	test_recorder_close(&test);
}

/* 40-bit stamps of 8 ticks wrap after 2^43 ticks: 2.4 hours here. */
static void epoch__eight_hours_stay_exact(void **state)
{
	const uint64_t minute = UINT64_C(60) * 1000000000u;
	struct test_recorder test;
	uint64_t start, passed, marks = 0;
	uint32_t high;

	(void)state;
	test_recorder_open(&test, 1u << 20, 0);
	start = test_ticks_offset;
	passed = kymo_arch_ticks(&high) - start;
	for (uint64_t i = 0; i < 8 * 60; i++) {
		test_ticks_offset = start + i * minute;
		kymo_mark((uint32_t)i);
	}
	test_ticks_offset = start +
			    3 * 8 * 60 * minute; /* sixteen hours of silence: more than a wrap */
	kymo_mark(3 * 8 * 60);
	passed = kymo_arch_ticks(&high) - test_ticks_offset - passed;
	test_recorder_read(&test);
	for (size_t i = 0; i < test.ring.count; i++) {
		const struct test_record *record = &test.ring.records[i];
		uint64_t expected = test.ring.records[0].ticks + record->words[0] * minute;

		if (record->type != KYMO_RECORD_MARK)
			continue;
		marks++;
		assert_true(record->ticks >= expected - 8 &&
			    record->ticks <= expected + passed + 8);
	}
	assert_int_equal(marks, 8 * 60 + 1);
	test_recorder_close(&test);
}

static void emit_pair(void)
{
	kymo_poll_begin(99, 0, 0);
	kymo_wake(98, 0, 0);
	kymo_poll_end(0);
}

static void signal__inside_an_event_is_dropped_and_counted(void **state)
{
	struct test_recorder test;
	const struct test_record *at;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_poll_begin(1, 0, 0);
	step_in("slow.before_publish", emit_pair);
	kymo_poll_begin(2, 0, 0); /* nested: through the slow path, where the "handler" strikes */
	kymo_mark(5);
	kymo_poll_end(0);
	kymo_poll_end(0);
	test_recorder_read(&test);
	at = test.ring.records;
	assert_int_equal(test.ring.count, 6);
	assert_int_equal(at[1].words[0] >> KYMO_NAME_BITS, 2);
	assert_int_equal(at[2].type, KYMO_RECORD_DROPPED);
	assert_int_equal(at[2].arg, KYMO_DROP_SIGNAL);
	assert_int_equal(at[2].words[0], 3);
	assert_int_equal(at[3].type, KYMO_RECORD_MARK);
	assert_int_equal(test.ring.header->dropped_signal_count, 3);
	test_recorder_close(&test);
}

static void signal__inside_a_sub_buffer_switch_is_dropped_and_counted(void **state)
{
	struct test_recorder test;
	uint64_t reported = 0;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(0);
	step_in("slot.filling", emit_pair);
	for (int i = 0; i < 2000; i++)
		kymo_mark(1);
	assert_null(stop_at);
	test_recorder_read(&test);
	assert_int_equal(test.ring.bad_count, 0);
	for (size_t i = 0; i < test.ring.count; i++)
		if (test.ring.records[i].type == KYMO_RECORD_DROPPED)
			reported += test.ring.records[i].words[0];
	assert_int_equal(reported, 3);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 2001);
	test_recorder_close(&test);
}

static void handler(int number)
{
	(void)number;
	emit_pair();
}

static void raise_it(void)
{
	raise(SIGUSR1);
}

static void *first_event(void *ctx)
{
	(void)ctx;
	kymo_mark(1);
	return NULL;
}

/* The thread has no state yet and holds the lock: whatever waited for it would wait for ever. */
static void signal__inside_a_first_event_does_not_register_twice(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	signal(SIGUSR1, handler);
	step_in("thread.registering", raise_it);
	test_in_thread(first_event, NULL);
	signal(SIGUSR1, SIG_DFL);
	test_recorder_read(&test);
	assert_int_equal(test.ring.header->thread_count, 1);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 1);
	assert_int_equal(test.ring.header->dropped_signal_count, 3);
	test_recorder_close(&test);
}

static struct test_recorder observed;
static size_t bad_seen, open_seen;

static void read_whole(void)
{
	test_recorder_read(&observed);
	bad_seen += observed.ring.bad_count;
	open_seen += observed.ring.slot_states[KY_SLOT_OPEN];
}

/* A reader at every step of a switch finds only whole records and the open polls somewhere. */
static void reader__between_the_steps_of_a_switch_sees_whole_sub_buffers(void **state)
{
	static const char *const points[] = {"slot.before_claim", "slot.filling", "slot.two_open",
					     "slow.before_publish"};
	static const size_t expected_open[] = {1, 1, 2, 1};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		test_recorder_open(&observed, 0, 0);
		for (int k = 0; k < 9000; k++) /* once round: the sub-buffers hold old records */
			kymo_mark(1);
		bad_seen = open_seen = 0;
		step_in(points[i], read_whole);
		for (int k = 0; k < 600 && stop_at; k++)
			kymo_mark(2);
		assert_null(stop_at);
		assert_int_equal(bad_seen, 0);
		assert_int_equal(open_seen, expected_open[i]);
		test_recorder_close(&observed);
	}
}

static void take_over(void)
{
	test_in_thread(first_event, NULL);
}

/* Another thread takes the very sub-buffer between the search and the claim. */
static void claim__lost_race_takes_the_next_sub_buffer(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	step_in("slot.before_claim", take_over);
	for (int i = 0; i < 600; i++)
		kymo_mark(2);
	assert_null(stop_at);
	test_recorder_read(&test);
	assert_int_equal(test.ring.bad_count, 0);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 602);
	assert_int_equal(test.ring.header->thread_count, 2);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epoch__change_writes_the_full_stamp),
		cmocka_unit_test(epoch__eight_hours_stay_exact),
		cmocka_unit_test(signal__inside_an_event_is_dropped_and_counted),
		cmocka_unit_test(signal__inside_a_sub_buffer_switch_is_dropped_and_counted),
		cmocka_unit_test(signal__inside_a_first_event_does_not_register_twice),
		cmocka_unit_test(reader__between_the_steps_of_a_switch_sees_whole_sub_buffers),
		cmocka_unit_test(claim__lost_race_takes_the_next_sub_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
