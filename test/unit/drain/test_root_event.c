/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Roots, from what their thread records to the bounds of their polls. */
#include "../../lib/drain_case.h"

#include <kymo/recorder.h>

#define ROOT (KYMO_ROOT_BIT | 501)
#define WORD (ROOT << KYMO_NAME_BITS)

static void open_case(struct drain_case *c, struct test_writer *w)
{
	case_open(c, 16);
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
}

static void begin(struct test_writer *w, uint64_t ns, uint32_t how)
{
	test_emit(w, ns, KYMO_RECORD_ROOT_BEGIN, how, 1, WORD, 0, 0);
}

static void end(struct test_writer *w, uint64_t ns, uint32_t flags)
{
	test_emit(w, ns, KYMO_RECORD_ROOT_END, flags, 1, WORD, 0, 0);
}

static void root__poll_lies_between_clones_and_waits(void **state)
{
	const struct test_event *first, *second;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	begin(&w, T0 + 2 * MS, KYMO_ROOT_CLONED);
	begin(&w, T0 + 3 * MS, KYMO_ROOT_CLONED);
	end(&w, T0 + 4 * MS, KYMO_ROOT_WAITS);
	test_emit(&w, T0 + 19 * MS, KYMO_RECORD_WAKE, 0, 1, WORD, 0, 0);
	begin(&w, T0 + 20 * MS, KYMO_ROOT_WOKEN);
	end(&w, T0 + 21 * MS, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, ROOT_POLL), 2);
	first = EVENT(&c, ROOT_POLL, 0);
	second = EVENT(&c, ROOT_POLL, 1);
	assert_int_equal(NUMBER(first, ROOT_POLL, task_id), ROOT);
	assert_int_equal(NUMBER(first, ROOT_POLL, tid), 501);
	assert_int_equal(NUMBER(first, ROOT_POLL, begin_min_ns), 0);
	assert_int_equal(
		NUMBER(first, ROOT_POLL, end_min_ns) - NUMBER(first, ROOT_POLL, begin_max_ns), MS);
	assert_int_equal(first->ns - NUMBER(first, ROOT_POLL, end_min_ns), MS);
	assert_int_equal(NUMBER(first, ROOT_POLL, woken_ns), 0);
	assert_int_equal(NUMBER(first, ROOT_POLL, is_pending), 1);
	assert_int_equal(NUMBER(second, ROOT_POLL, begin_min_ns),
			 NUMBER(second, ROOT_POLL, begin_max_ns));
	assert_int_equal(
		NUMBER(second, ROOT_POLL, begin_min_ns) - NUMBER(second, ROOT_POLL, woken_ns), MS);
	assert_int_equal(NUMBER(second, ROOT_POLL, is_pending), 0);
	case_close(&c);
}

/* A root is none of the tasks that are counted, and no wake of it makes one. */
static void root__is_no_task(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	test_emit(&w, T0 + MS, KYMO_RECORD_WAKE, 0, 1, WORD, 0, 0);
	begin(&w, T0 + 2 * MS, KYMO_ROOT_CLONED);
	end(&w, T0 + 4 * MS, KYMO_ROOT_WAITS);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 0);
	assert_int_equal(COUNT(&c, WAKE), 1);
	assert_int_equal(NUMBER(EVENT(&c, WAKE, 0), WAKE, woken_task_id), ROOT);
	case_close(&c);
}

/* It begins after what the thread did before: a task's poll, on the way that is taken for most
 * records and on the other. */
static void root__poll_begins_after_the_threads_last_poll(void **state)
{
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	for (uint32_t i = 0; i < 8; i++) {
		test_poll(&w, T0 + (1 + 10 * i) * MS, 7, 0);
		test_poll_end(&w, T0 + (3 + 10 * i) * MS, 0);
		test_emit(&w, T0 + (4 + 10 * i) * MS, KYMO_RECORD_WAKE, 0, 1,
			  UINT64_C(7) << KYMO_NAME_BITS, 0, 0);
		begin(&w, T0 + (5 + 10 * i) * MS, KYMO_ROOT_CLONED);
		end(&w, T0 + (6 + 10 * i) * MS, KYMO_ROOT_WAITS);
	}
	case_finish(&c, T0 + 200 * MS);
	assert_int_equal(COUNT(&c, ROOT_POLL), 8);
	for (uint32_t i = 0; i < 8; i++) {
		event = EVENT(&c, ROOT_POLL, i);
		assert_int_equal(NUMBER(event, ROOT_POLL, begin_min_ns),
				 EVENT(&c, POLL_END, i)->ns);
	}
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root__poll_lies_between_clones_and_waits),
		cmocka_unit_test(root__is_no_task),
		cmocka_unit_test(root__poll_begins_after_the_threads_last_poll),
	};

	return cmocka_run_group_tests_name("root_event", tests, NULL, NULL);
}
