/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans of a ring as a trace has them. */
#include "../../lib/cut_case.h"

#define SPAN_WORD(id, name) kymo_task_word(id, name)

static void begin_span(struct test_writer *w, uint64_t ns, uint64_t id, uint64_t parent)
{
	test_emit(w, ns, KYMO_RECORD_SPAN_BEGIN, 0, 2, SPAN_WORD(id, 0), parent, 0);
}

static void end_span(struct test_writer *w, uint64_t ns, uint64_t id, uint64_t begin_ns)
{
	test_emit(w, ns, KYMO_RECORD_SPAN_END, 0, 2, SPAN_WORD(id, 0), test_ticks(begin_ns), 0);
}

static void open_in_ring(struct test_ring *ring, uint32_t entry, uint64_t id, uint64_t begin_ns)
{
	atomic_store(&ring->side->spans[entry].begin_ticks, test_ticks(begin_ns));
	atomic_store(&ring->side->spans[entry].word, SPAN_WORD(id, 0));
}

static void span__is_written_with_its_task_and_its_parent(void **state)
{
	struct ky_event_sums sums;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	begin_span(&w, T0, 1, 0);
	test_poll(&w, T0 + MS, 42, 0);
	begin_span(&w, T0 + 2 * MS, 2, 1);
	end_span(&w, T0 + 5 * MS, 2, T0 + 2 * MS);
	test_poll_end(&w, T0 + 6 * MS, 0);
	end_span(&w, T0 + 9 * MS, 1, T0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, SPAN_ENTER), 2);
	assert_int_equal(COUNT(&c, SPAN_EXIT), 2);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_ENTER, 0), SPAN_ENTER, span_id), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_ENTER, 1), SPAN_ENTER, span_id), 2);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_ENTER, 1), SPAN_ENTER, parent_span_id), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_ENTER, 1), SPAN_ENTER, task_id), 42);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_EXIT, 0), SPAN_EXIT, span_id), 2);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_EXIT, 0), SPAN_EXIT, task_id), 42);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_EXIT, 1), SPAN_EXIT, span_id), 1);
	assert_in_range(NUMBER(EVENT(&c, SPAN_EXIT, 1), SPAN_EXIT, start_ns), T0 - 10, T0 + 10);
	ky_drain_watch(c.drain, &sums);
	assert_in_range(sums.span_max_ns, 9 * MS - 20, 9 * MS + 20);
	assert_int_equal(sums.span_max_word, SPAN_WORD(1, 0));
	case_close(&c);
}

static void span__says_which_thread_works_for_it_and_what_it_follows(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	begin_span(&w, T0, 1, 0);
	test_poll(&w, T0 + MS, 42, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_SPAN_IN, 0, 1, SPAN_WORD(1, 0), 0, 0);
	test_emit(&w, T0 + 3 * MS, KYMO_RECORD_SPAN_FOLLOWS, 0, 2, SPAN_WORD(1, 0), 77, 0);
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_SPAN_OUT, 0, 1, SPAN_WORD(1, 0), 0, 0);
	test_poll_end(&w, T0 + 6 * MS, 0);
	end_span(&w, T0 + 9 * MS, 1, T0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, SPAN_RUN_START), 1);
	assert_int_equal(COUNT(&c, SPAN_RUN_END), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_RUN_START, 0), SPAN_RUN_START, span_id), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_RUN_START, 0), SPAN_RUN_START, tid), 501);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_RUN_START, 0), SPAN_RUN_START, task_id), 42);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_RUN_END, 0), SPAN_RUN_END, span_id), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_FOLLOWS, 0), SPAN_FOLLOWS, follows_from), 77);
	assert_int_equal(COUNT(&c, SPAN_EXIT), 1); /* what comes after is read in its place */
	case_close(&c);
}

static void cut__has_the_open_spans(void **state)
{
	static struct cut_case c; /* large */
	struct test_writer w;

	(void)state;
	cut_open(&c, 8);
	test_writer_open(&w, &c.ring, 501, T0);
	begin_span(&w, T0 + MS, 7, 0);
	open_in_ring(&c.ring, 7, 7, T0 + MS);
	open_in_ring(&c.ring, 8, 3, T0 - 500 * MS);    /* older than everything in the ring */
	open_in_ring(&c.ring, 9, 4, T0 + 900000 * MS); /* hostile: in the future */
	cut_take(&c, T0 + 100 * MS);
	assert_int_equal(COUNT(&c, SPAN_ENTER), 1);
	assert_int_equal(COUNT(&c, OPEN_SPAN), 3);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_SPAN, 0), OPEN_SPAN, span_id), 7);
	assert_in_range(NUMBER(EVENT(&c, OPEN_SPAN, 0), OPEN_SPAN, start_ns), T0 + MS - 10,
			T0 + MS + 10);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_SPAN, 0), OPEN_SPAN, is_at_exit), 0);
	assert_in_range(NUMBER(EVENT(&c, OPEN_SPAN, 2), OPEN_SPAN, start_ns), 0, T0 + 101 * MS);
	c.options.is_dead = true;
	cut_take(&c, T0 + 100 * MS);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_SPAN, 0), OPEN_SPAN, is_at_exit), 1);
	cut_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(span__is_written_with_its_task_and_its_parent),
		cmocka_unit_test(span__says_which_thread_works_for_it_and_what_it_follows),
		cmocka_unit_test(cut__has_the_open_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
