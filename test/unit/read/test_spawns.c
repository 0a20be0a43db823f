/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "read_case.h"

#include <read/spawns.h>

#define RUN 5u
#define ROOT (KY_TASK_ID_ROOT | 1)

static void window(struct read_case *c, uint32_t tid, uint64_t task, uint64_t begin_ns,
		   uint64_t end_ns, uint64_t first_id, uint64_t count)
{
	ky_trc_enc_event(&c->enc, KY_EV_SPAWN_WINDOW, end_ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_varint(&c->enc, begin_ns);
	ky_trc_enc_varint(&c->enc, first_id);
	ky_trc_enc_varint(&c->enc, count);
}

static void run(struct read_case *c, uint64_t from_ns, uint64_t to_ns, uint64_t task, uint32_t tid)
{
	uint32_t name = case_text(c, "svc::run");

	ky_trc_enc_event(&c->enc, KY_EV_BLOCKING_START, from_ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
	ky_trc_enc_event(&c->enc, KY_EV_BLOCKING_END, to_ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, task);
}

static const struct ky_spawn *spawn_of(const struct read_case *c, uint64_t id)
{
	return ky_trace_spawn(c->trace, ky_trace_task(c->trace, id));
}

static uint64_t submitter_of(const struct read_case *c, uint64_t id)
{
	uint32_t task = ky_trace_submitter(c->trace, ky_trace_task(c->trace, id));

	return task == KY_NONE ? 0 : c->trace->tasks[task].id;
}

static void spawns__are_of_the_only_window_that_has_them(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 7);
	window(&c, 11, 7, 1000, 2000, 20, 2);
	window(&c, 12, 8, 2500, 2600, 22, 1);
	case_poll(&c, 3000, 3100, 0, 20);
	case_poll(&c, 3200, 3300, 0, 21);
	case_poll(&c, 2700, 2800, 1, 22);
	run(&c, 3400, 3500, 25, 13); /* which no window has */
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), 7);
	assert_int_equal(submitter_of(&c, 21), 7);
	assert_int_equal(submitter_of(&c, 22), 8);
	assert_int_equal(c.trace->tasks[ky_trace_task(c.trace, 22)].parent,
			 ky_trace_task(c.trace, 8));
	assert_int_equal(spawn_of(&c, 20)->from_ns, 1000);
	assert_int_equal(spawn_of(&c, 20)->to_ns, 2000);
	assert_int_equal(spawn_of(&c, 25)->from_ns, 2600); /* after those that were given before */
	assert_int_equal(spawn_of(&c, 25)->to_ns, 3400);
	assert_int_equal(spawn_of(&c, 25)->polls, 0);
	assert_int_equal(submitter_of(&c, 25), 0);
	case_finish(&c);
}

static void spawns__of_a_place_where_unseen_threads_spawn_are_of_no_one_for_sure(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 7);
	window(&c, 11, 7, 1000, 2000, 20, 2);
	case_poll(&c, 2100, 2200, 0, 20);
	run(&c, 2300, 2400, 21, 12);
	run(&c, 2500, 2600, 22, 12); /* which no window has */
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), 7);
	assert_int_equal(submitter_of(&c, 21), 0);
	assert_true(spawn_of(&c, 21)->is_place_unseen);
	assert_int_equal(spawn_of(&c, 21)->polls, 1);
	case_finish(&c);
}

static void spawns__in_several_windows_have_several_submitters(void **state)
{
	uint32_t list[4];
	struct read_case c;

	(void)state;
	case_begin(&c);
	window(&c, 11, 7, 1000, 2000, 20, 3);
	window(&c, 12, 8, 1500, 1800, 21, 1);
	window(&c, 13, RUN, 500, 5000, 20, 9);
	run(&c, 500, 5000, RUN, 13);
	for (uint64_t id = 20; id < 23; id++)
		case_poll(&c, 3000 + 100 * (id - 20), 3010 + 100 * (id - 20), 0, id);
	case_poll(&c, 4000, 4100, 0, 24);
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), 0);
	assert_int_equal(spawn_of(&c, 20)->polls, 1);
	assert_int_equal(spawn_of(&c, 20)->runs, 1);
	assert_int_equal(spawn_of(&c, 20)->to_ns, 1500); /* 21 was next then, so 20 was before it */
	assert_int_equal(spawn_of(&c, 21)->polls, 2);
	assert_int_equal(spawn_of(&c, 21)->from_ns, 1500);
	assert_int_equal(spawn_of(&c, 21)->to_ns, 1800);
	assert_int_equal(spawn_of(&c, 22)->from_ns, 1800);
	assert_int_equal(ky_trace_submitters(c.trace, ky_trace_task(c.trace, 21), list, 4), 3);
	assert_int_equal(c.trace->tasks[list[0]].id, 8); /* the shortest, closures last */
	assert_int_equal(c.trace->tasks[list[1]].id, 7);
	assert_int_equal(c.trace->tasks[list[2]].id, RUN);
	assert_int_equal(ky_trace_submitters(c.trace, ky_trace_task(c.trace, 21), list, 1), 1);
	assert_int_equal(submitter_of(&c, 24), RUN); /* the only one */
	case_finish(&c);
}

/* Task 8 is polled inside the poll of task 7. */
static void spawns__of_an_inner_poll_are_not_of_the_outer_one(void **state)
{
	uint32_t list[4];
	struct read_case c;

	(void)state;
	case_begin(&c);
	window(&c, 11, 8, 1500, 1800, 21, 1);
	window(&c, 11, 7, 1000, 2000, 20, 3);
	for (uint64_t id = 20; id < 23; id++)
		case_poll(&c, 3000 + 100 * (id - 20), 3010 + 100 * (id - 20), 0, id);
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), 7);
	assert_int_equal(submitter_of(&c, 21), 8);
	assert_int_equal(submitter_of(&c, 22), 7);
	assert_int_equal(ky_trace_submitters(c.trace, ky_trace_task(c.trace, 21), list, 4), 1);
	case_finish(&c);
}

static void spawns__of_a_root_whose_begin_is_not_known(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 100, 200, 0, 3);
	window(&c, 11, ROOT, 0, 2000, 20, 2);
	case_poll(&c, 3000, 3100, 0, 10);
	case_poll(&c, 3200, 3300, 0, 20);
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), ROOT);
	assert_int_equal(spawn_of(&c, 20)->from_ns, 100); /* the first moment of the trace */
	/* It says nothing of those that were given out before. */
	assert_int_equal(spawn_of(&c, 10)->to_ns, 2000);
	assert_int_equal(spawn_of(&c, 10)->polls, 0);
	case_finish(&c);
}

static void spawns__give_closures_their_time_in_line(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	window(&c, 11, 7, 1000, 2000, 20, 1);
	run(&c, 9000, 9500, 20, 13);
	case_open(&c);
	assert_int_equal(c.trace->blocking_runs[0].wait_ns, 7000);
	assert_int_equal(c.trace->blocking_runs[0].wait_max_ns, 8000);
	case_finish(&c);
}

/* Another copy of the runtime's library has a counter of its own. */
static void spawns__of_copies_do_not_mix(void **state)
{
	const uint64_t copy = UINT64_C(1) << KY_TASK_COPY_SHIFT;
	struct read_case c;

	(void)state;
	case_begin(&c);
	window(&c, 11, 7, 1000, 2000, 20, 1);
	window(&c, 12, copy | 7, 1100, 1200, copy | 5, 1);
	case_poll(&c, 9000, 9100, 0, 20);
	case_poll(&c, 8000, 8100, 1, copy | 5);
	case_poll(&c, 8200, 8300, 1, copy | 3);
	case_open(&c);
	assert_int_equal(submitter_of(&c, 20), 7);
	assert_int_equal(submitter_of(&c, copy | 5), copy | 7);
	assert_int_equal(spawn_of(&c, copy | 3)->to_ns, 1100);
	assert_int_equal(spawn_of(&c, 20)->to_ns, 2000);
	case_finish(&c);
}

static void spawns__windows_that_contradict_themselves_say_nothing(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 500, 600, 0, 20);
	window(&c, 11, 7, 3000, 2000, 20, 1);
	window(&c, 11, 7, 1000, 2000, 20, 0);
	window(&c, 11, 7, 1000, 2000, 0, 5);
	window(&c, 11, 0, 1000, 2000, 20, 5);
	window(&c, 11, 7, 1000, 2000, UINT64_MAX, 2);
	case_open(&c);
	assert_int_equal(c.trace->spawn_window_count, 0);
	assert_null(spawn_of(&c, 20));
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spawns__are_of_the_only_window_that_has_them),
		cmocka_unit_test(
			spawns__of_a_place_where_unseen_threads_spawn_are_of_no_one_for_sure),
		cmocka_unit_test(spawns__in_several_windows_have_several_submitters),
		cmocka_unit_test(spawns__of_an_inner_poll_are_not_of_the_outer_one),
		cmocka_unit_test(spawns__of_a_root_whose_begin_is_not_known),
		cmocka_unit_test(spawns__give_closures_their_time_in_line),
		cmocka_unit_test(spawns__of_copies_do_not_mix),
		cmocka_unit_test(spawns__windows_that_contradict_themselves_say_nothing),
	};

	return cmocka_run_group_tests_name("spawns", tests, NULL, NULL);
}
