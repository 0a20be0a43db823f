/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A tracer's semaphores and the path that records take. What a tracer gets: test/cli/test_usdt.py.
 */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <kymo/usdt.h>
#include <record/emit/usdt.h>

void ky_testpoint(const char *name)
{
	(void)name;
}

static void attach(enum kymo_usdt_word word, uint64_t count)
{
	__atomic_store_n(&kymo_usdt_semaphores[word], count, __ATOMIC_RELAXED);
}

static const struct ky_thread *self(void)
{
	return (const struct ky_thread *)(const void *)kymo_thread_self;
}

static void poll(uint64_t task)
{
	kymo_poll_begin(task, 0, KYMO_QUEUE_UNKNOWN);
	kymo_poll_end(0);
}

static void path__is_slow_while_a_tracer_is_attached(void **state)
{
	static const uint64_t one = 1;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	poll(1);
	assert_non_null(self()->hot.limit);
	/* The last of the four of a word, too. */
	attach(KYMO_USDT_TASKS, one << 48);
	kymo_wake(2, 0, 0);
	assert_non_null(self()->hot.limit);
	kymo_poll_begin(2, 0, KYMO_QUEUE_UNKNOWN);
	assert_null(self()->hot.limit);
	assert_int_equal(self()->traced, 1);
	attach(KYMO_USDT_TASKS, 0);
	kymo_poll_end(0);
	assert_non_null(self()->hot.limit);
	assert_int_equal(self()->traced, 0);
	attach(KYMO_USDT_WAKES, one);
	kymo_wake(2, 0, 0);
	assert_null(self()->hot.limit);
	poll(3);
	assert_int_equal(self()->traced, 0);
	attach(KYMO_USDT_WAKES, 0);
	attach(KYMO_USDT_WORKERS, one);
	kymo_park(0);
	assert_null(self()->hot.limit);
	attach(KYMO_USDT_WORKERS, 0);
	kymo_unpark(0);
	assert_non_null(self()->hot.limit);
	test_recorder_read(&test);
	/* Three polls, two wakes, park and unpark: all of them recorded. */
	assert_int_equal(test.ring.count, 3 * 2 + 2 + 2);
	test_recorder_close(&test);
}

/* A thread that has no fast path never leaves a poll remembered that ended without it. */
static void poll__is_forgotten_where_the_tracer_went_inside_it(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	attach(KYMO_USDT_TASKS, 1);
	kymo_poll_begin(1, 0, KYMO_QUEUE_UNKNOWN);
	kymo_poll_begin(2, 0, KYMO_QUEUE_UNKNOWN);
	assert_int_equal(self()->traced, 3);
	kymo_poll_end(0);
	assert_int_equal(self()->traced, 1);
	attach(KYMO_USDT_TASKS, 0);
	kymo_wake(1, 0, 0);
	assert_int_equal(self()->traced, 0);
	attach(KYMO_USDT_TASKS, 1);
	kymo_poll_end(0);
	poll(3);
	assert_int_equal(self()->traced, 0);
	attach(KYMO_USDT_TASKS, 0);
	test_recorder_close(&test);
}

static void poll__deeper_than_is_remembered_is_recorded(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	attach(KYMO_USDT_TASKS, 1);
	for (uint64_t i = 1; i <= KY_OPEN_DEPTH + 3; i++)
		kymo_poll_begin(i, 0, KYMO_QUEUE_UNKNOWN);
	assert_int_equal(self()->traced, (1u << KY_OPEN_DEPTH) - 1);
	for (uint64_t i = 1; i <= KY_OPEN_DEPTH + 3; i++)
		kymo_poll_end(0);
	assert_int_equal(self()->traced, 0);
	attach(KYMO_USDT_TASKS, 0);
	test_recorder_read(&test);
	assert_int_equal(test.ring.count, 2 * (KY_OPEN_DEPTH + 3));
	test_recorder_close(&test);
}

/* Nothing is open: then nothing is fired, and no thread has a state to remember it in. */
static void semaphore__does_nothing_without_a_recorder(void **state)
{
	(void)state;
	attach(KYMO_USDT_TASKS, 1);
	poll(1);
	kymo_task_end(1, 0);
	attach(KYMO_USDT_TASKS, 0);
}

static uint64_t asked;

static const struct kymo_usdt_place *place_of(uint64_t task)
{
	asked = task;
	return NULL;
}

static void place__is_asked_for_only_while_a_tracer_is_attached(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_usdt_places_by(place_of);
	poll(7);
	kymo_task_end(7, 0);
	assert_int_equal(asked, 0);
	attach(KYMO_USDT_TASKS, 1);
	poll(8);
	assert_int_equal(asked, 8);
	kymo_task_end(9, 0);
	assert_int_equal(asked, 9);
	attach(KYMO_USDT_TASKS, 0);
	kymo_usdt_places_by(NULL);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__is_slow_while_a_tracer_is_attached),
		cmocka_unit_test(poll__is_forgotten_where_the_tracer_went_inside_it),
		cmocka_unit_test(poll__deeper_than_is_remembered_is_recorded),
		cmocka_unit_test(semaphore__does_nothing_without_a_recorder),
		cmocka_unit_test(place__is_asked_for_only_while_a_tracer_is_attached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
