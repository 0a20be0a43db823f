/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests on connections as a trace has them. */
#include "../../lib/cut_case.h"

#include <kymo/conn.h>

#define WORD(id) kymo_task_word(id, 0)

static void begin_request(struct test_writer *w, uint64_t ns, uint64_t id, uint64_t since_ns)
{
	test_emit(w, ns, KYMO_RECORD_CONN_BEGIN, 5432, 3, WORD(id), UINT64_C(17) << 32 | 9,
		  since_ns ? test_ticks(since_ns) : 0);
}

static void end_request(struct test_writer *w, uint64_t ns, uint64_t id, uint64_t begin_ns,
			uint64_t bytes_in, uint64_t bytes_out)
{
	test_emit(w, ns, KYMO_RECORD_CONN_END, 0, 3, WORD(id), test_ticks(begin_ns),
		  (uint64_t)kymo_conn_bytes(bytes_in) << 40 |
			  (uint64_t)kymo_conn_bytes(bytes_out) << 16 | 9);
}

static void request__is_written_with_its_connection_and_its_bytes(void **state)
{
	struct ky_event_sums sums;
	struct drain_case c;
	struct test_writer w, other;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0 + MS, 42, 0);
	begin_request(&w, T0 + 2 * MS, 1, T0 + MS);
	test_emit(&w, T0 + 3 * MS, KYMO_RECORD_CONN_WAIT, 0, 2, WORD(1), test_ticks(T0 + 2 * MS),
		  0);
	end_request(&w, T0 + 5 * MS, 1, T0 + 2 * MS, 8388607, 1 << 30);
	test_poll_end(&w, T0 + 6 * MS, 0);
	test_writer_open(&other, &c.ring, 502, T0);
	begin_request(&other, T0 + 7 * MS, 2, 0); /* by a thread without a task */
	test_emit(&w, T0 + 8 * MS, KYMO_RECORD_CONN_UNSEEN, 0, 1, 3, 0, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, CONN_ENTER), 2);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, span_id), 1);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, task_id), 42);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, connection), 17);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, fd), 9);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, peer_port), 5432);
	assert_in_range(NUMBER(EVENT(&c, CONN_ENTER, 0), CONN_ENTER, idle_since_ns), T0 + MS - 10,
			T0 + MS + 10);
	assert_int_equal(NUMBER(EVENT(&c, CONN_ENTER, 1), CONN_ENTER, worker_id), 255);
	assert_int_equal(COUNT(&c, CONN_WAIT), 1);
	assert_int_equal(NUMBER(EVENT(&c, CONN_WAIT, 0), CONN_WAIT, span_id), 1);
	assert_in_range(NUMBER(EVENT(&c, CONN_WAIT, 0), CONN_WAIT, since_ns), T0 + 2 * MS - 10,
			T0 + 2 * MS + 10);
	assert_int_equal(COUNT(&c, CONN_EXIT), 1);
	assert_in_range(NUMBER(EVENT(&c, CONN_EXIT, 0), CONN_EXIT, start_ns), T0 + 2 * MS - 10,
			T0 + 2 * MS + 10);
	assert_int_equal(NUMBER(EVENT(&c, CONN_EXIT, 0), CONN_EXIT, fd), 9);
	assert_int_equal(NUMBER(EVENT(&c, CONN_EXIT, 0), CONN_EXIT, bytes_in), 8388607);
	assert_int_equal(NUMBER(EVENT(&c, CONN_EXIT, 0), CONN_EXIT, bytes_out), 1 << 30);
	assert_int_equal(COUNT(&c, CONN_UNSEEN), 1);
	assert_int_equal(NUMBER(EVENT(&c, CONN_UNSEEN, 0), CONN_UNSEEN, unseen_count), 3);
	ky_drain_watch(c.drain, &sums); /* for the rule `span` */
	assert_in_range(sums.span_max_ns, 3 * MS - 20, 3 * MS + 20);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request__is_written_with_its_connection_and_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
