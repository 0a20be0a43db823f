/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a long poll cost, from its two records to its event. */
#include "../../lib/drain_case.h"

#include <kymo/recorder.h>

static void emit_cost(struct test_writer *w, uint64_t ns, uint32_t flags, uint64_t cpu)
{
	test_emit(w, ns, KYMO_RECORD_POLL_COUNTS, 4, 3, UINT64_C(2) << 32 | 30,
		  UINT64_C(5) << 32 | 6, UINT64_C(90) << 32 | 7);
	test_emit(w, ns, KYMO_RECORD_POLL_COST, flags, 3, cpu, 3 * MS, 250000);
}

static void open_case(struct drain_case *c, struct test_writer *w)
{
	case_open(c, 16);
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
	test_worker(w, T0, 3, 0x1000, 0x2000);
}

static void cost__is_of_the_poll_that_ended_before_it(void **state)
{
	const struct test_event *event, *start;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	test_poll(&w, T0 + MS, 7, 0);
	test_poll_end(&w, T0 + 11 * MS, 0);
	emit_cost(&w, T0 + 11 * MS, KYMO_POLL_COST_HAS_DELAY, 6 * MS);
	test_poll(&w, T0 + 12 * MS, 8, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, POLL_COST), 1);
	event = EVENT(&c, POLL_COST, 0);
	start = EVENT(&c, POLL_START, 0);
	assert_int_equal(NUMBER(event, POLL_COST, start_ns), start->ns);
	assert_int_equal(NUMBER(event, POLL_COST, worker_id), NUMBER(start, POLL_START, worker_id));
	assert_int_equal(NUMBER(event, POLL_COST, tid), 501);
	assert_int_equal(NUMBER(event, POLL_COST, task_id), 7);
	assert_int_equal(NUMBER(event, POLL_COST, is_on_cpu), 0);
	assert_int_equal(NUMBER(event, POLL_COST, cpu_time_ns), 6 * MS);
	assert_int_equal(NUMBER(event, POLL_COST, run_delay_ns), 3 * MS);
	assert_int_equal(NUMBER(event, POLL_COST, gap_ns), 250000);
	assert_int_equal(NUMBER(event, POLL_COST, minor_faults), 30);
	assert_int_equal(NUMBER(event, POLL_COST, major_faults), 2);
	assert_int_equal(NUMBER(event, POLL_COST, voluntary_switches), 6);
	assert_int_equal(NUMBER(event, POLL_COST, involuntary_switches), 5);
	assert_int_equal(NUMBER(event, POLL_COST, counts_gap_ns), 90000);
	assert_int_equal(NUMBER(event, POLL_COST, wake_count), 7);
	assert_int_equal(NUMBER(event, POLL_COST, nested_count), 4);
	case_close(&c);
}

/* The first word is then in ticks, 2.5 of them a ns. */
static void cost__on_cpu_is_the_duration(void **state)
{
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;
	uint64_t cpu_ns;

	(void)state;
	open_case(&c, &w);
	test_poll(&w, T0 + MS, 7, 0);
	test_poll_end(&w, T0 + 5 * MS, 0);
	test_emit(&w, T0 + 5 * MS, KYMO_RECORD_POLL_COST, KYMO_POLL_COST_ON_CPU, 3, 10 * MS, 0, 0);
	case_finish(&c, T0 + 50 * MS);
	event = EVENT(&c, POLL_COST, 0);
	assert_int_equal(NUMBER(event, POLL_COST, is_on_cpu), 1);
	cpu_ns = NUMBER(event, POLL_COST, cpu_time_ns);
	assert_in_range(cpu_ns, 4 * MS - 100, 4 * MS + 100);
	assert_int_equal(NUMBER(event, POLL_COST, run_delay_ns), 0);
	assert_false(event->is_present[KY_F_POLL_COST_minor_faults]);
	case_close(&c);
}

static void cost__without_a_delay_has_none(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	test_poll(&w, T0 + MS, 7, 0);
	test_poll_end(&w, T0 + 11 * MS, 0);
	emit_cost(&w, T0 + 11 * MS, 0, 6 * MS);
	case_finish(&c, T0 + 50 * MS);
	assert_false(EVENT(&c, POLL_COST, 0)->is_present[KY_F_POLL_COST_run_delay_ns]);
	case_close(&c);
}

/* A poll that is not in the trace has no cost there. */
static void cost__of_a_poll_that_is_not_known_is_left_out(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_case(&c, &w);
	emit_cost(&w, T0 + MS, KYMO_POLL_COST_HAS_DELAY, 6 * MS);
	test_poll(&w, T0 + 2 * MS, 8, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, POLL_COST), 0);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost__is_of_the_poll_that_ended_before_it),
		cmocka_unit_test(cost__on_cpu_is_the_duration),
		cmocka_unit_test(cost__without_a_delay_has_none),
		cmocka_unit_test(cost__of_a_poll_that_is_not_known_is_left_out),
	};

	return cmocka_run_group_tests_name("cost_event", tests, NULL, NULL);
}
