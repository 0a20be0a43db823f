/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ids that were given out while something ran, from their record to their event. */
#include "../../lib/drain_case.h"

#define WINDOW(first, count) ((uint64_t)(first) << KYMO_NAME_BITS | (count))

static void near(uint64_t a, uint64_t b)
{
	/* Stamps lose three bits of 2.5 ticks per ns. */
	assert_true(a > b ? a - b <= 16 : b - a <= 16);
}

static const struct test_event *window(const struct drain_case *c, uint32_t index, uint64_t task,
				       uint64_t begin_ns)
{
	const struct test_event *event = EVENT(c, SPAWN_WINDOW, index);

	assert_int_equal(NUMBER(event, SPAWN_WINDOW, task_id), task);
	if (begin_ns)
		near(NUMBER(event, SPAWN_WINDOW, begin_ns), begin_ns);
	else
		assert_int_equal(NUMBER(event, SPAWN_WINDOW, begin_ns), 0);
	return event;
}

static void spawn_window__is_of_the_innermost_poll(void **state)
{
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	/* Nothing is open: its begin was lost. */
	test_emit(&w, T0 + MS / 2, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_POLL, 1, WINDOW(40, 1),
		  0, 0);
	test_poll(&w, T0 + MS, 7, 0);
	test_poll(&w, T0 + 2 * MS, 8, 0);
	test_emit(&w, T0 + 3 * MS, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_POLL, 1, WINDOW(41, 2),
		  0, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_SPAWN_WINDOW,
		  KYMO_SPAWN_BY_POLL | 2u << KYMO_SPAWN_COPY_SHIFT, 1, WINDOW(50, 1), 0, 0);
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, SPAWN_WINDOW), 2);
	event = window(&c, 0, 8, T0 + 2 * MS);
	assert_int_equal(NUMBER(event, SPAWN_WINDOW, tid), 501);
	assert_int_equal(NUMBER(event, SPAWN_WINDOW, first_id), 41);
	assert_int_equal(NUMBER(event, SPAWN_WINDOW, given_count), 2);
	event = window(&c, 1, 7, T0 + MS);
	assert_int_equal(NUMBER(event, SPAWN_WINDOW, first_id),
			 50 | UINT64_C(2) << KY_TASK_COPY_SHIFT);
	case_close(&c);
}

static void spawn_window__of_a_closure_and_of_roots(void **state)
{
	const uint64_t root = (KYMO_ROOT_BIT | 1) << KYMO_NAME_BITS;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	/* Seen for the first time: since when it runs is not known. */
	test_emit(&w, T0 + MS, KYMO_RECORD_ROOT_BEGIN, KYMO_ROOT_CLONED, 1, root, 0, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_ROOT, 1, WINDOW(3, 1), 0,
		  0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_ROOT_END, KYMO_ROOT_WAITS, 1, root, 0, 0);
	test_emit(&w, T0 + 5 * MS, KYMO_RECORD_ROOT_BEGIN, KYMO_ROOT_WOKEN, 1, root, 0, 0);
	test_emit(&w, T0 + 6 * MS, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_ROOT, 1, WINDOW(4, 1), 0,
		  0);
	test_emit(&w, T0 + 6 * MS, KYMO_RECORD_ROOT_END, 0, 1, root, 0, 0);
	test_emit(&w, T0 + 8 * MS, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	test_emit(&w, T0 + 9 * MS, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_RUN, 1, WINDOW(10, 1), 0,
		  0);
	test_emit(&w, T0 + 9 * MS, KYMO_RECORD_BLOCKING_END, KYMO_POLL_READY, 0, 0, 0, 0);
	/* It is over. */
	test_emit(&w, T0 + 10 * MS, KYMO_RECORD_SPAWN_WINDOW, KYMO_SPAWN_BY_RUN, 1, WINDOW(11, 1),
		  0, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, SPAWN_WINDOW), 3);
	window(&c, 0, KYMO_ROOT_BIT | 1, 0);
	window(&c, 1, KYMO_ROOT_BIT | 1, T0 + 5 * MS);
	window(&c, 2, 9, T0 + 8 * MS);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spawn_window__is_of_the_innermost_poll),
		cmocka_unit_test(spawn_window__of_a_closure_and_of_roots),
	};

	return cmocka_run_group_tests_name("spawn_event", tests, NULL, NULL);
}
