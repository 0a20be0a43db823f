/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each ring record means in the trace. Rings are built record by record; the drain's output is
 * decoded with the real decoder. */
#include "../../lib/drain_case.h"

#include <kymo/recorder.h>

static void near(uint64_t a, uint64_t b)
{
	/* Stamps lose three bits of 2.5 ticks per ns. */
	assert_true(a > b ? a - b <= 16 : b - a <= 16);
}

static void drain__poll_pair_is_written_with_name_and_time(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint32_t name;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	name = test_ring_name(&c.ring, "app::render", 0, 0);
	test_writer_open(&w, &c.ring, 501, T0);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	test_poll(&w, T0 + 10 * MS, 7, name);
	test_poll_end(&w, T0 + 12 * MS, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	near(EVENT(&c, POLL_START, 0)->ns, T0 + 10 * MS);
	near(EVENT(&c, POLL_END, 0)->ns, T0 + 12 * MS);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, task_id), 7);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, worker_id), 0);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, local_queue), 0);
	assert_string_equal(TEXT(EVENT(&c, POLL_START, 0), POLL_START, spawn_loc), "app::render");
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 1);
	assert_string_equal(TEXT(EVENT(&c, TASK_FIRST_SEEN, 0), TASK_FIRST_SEEN, spawn_loc),
			    "app::render");
	assert_int_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
}

static void drain__ready_poll_ends_the_task_before_the_poll(void **state)
{
	struct drain_case c;
	struct test_writer w;
	size_t terminate = 0, end = 0;

	(void)state;
	case_begin(&c, &w, 16);
	test_poll(&w, T0, 7, 0);
	test_poll_end(&w, T0 + MS, KYMO_POLL_READY);
	/* A waker may outlive its task: no new sight of it. */
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(7, 0), 0, 0);
	test_poll(&w, T0 + 3 * MS, 8, 0);
	test_poll_end(&w, T0 + 4 * MS, KYMO_POLL_READY | KYMO_POLL_CANCELLED);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, TASK_TERMINATE), 2);
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 2);
	assert_int_equal(NUMBER(EVENT(&c, TASK_TERMINATE, 0), TASK_TERMINATE, cancelled), 0);
	assert_int_equal(NUMBER(EVENT(&c, TASK_TERMINATE, 1), TASK_TERMINATE, cancelled), 1);
	for (size_t i = 0; i < c.sink.event_count; i++) {
		if (c.sink.events[i].event == KY_EV_TASK_TERMINATE && !terminate)
			terminate = i;
		if (c.sink.events[i].event == KY_EV_POLL_END && !end)
			end = i;
	}
	assert_true(terminate < end);
	case_close(&c);
}

static void drain__wake_origin_follows_the_open_poll(void **state)
{
	static const struct {
		uint64_t waker, woken, origin, worker;
	} expected[] = {
		{7, 7, 1, 0},   /* in its own poll */
		{7, 8, 2, 0},   /* in another task's */
		{7, 7, 129, 0}, /* derived from the poll's end */
		{0, 8, 3, 0},   /* worker outside a poll */
		{0, 8, 4, 255}, /* no worker */
		{0, 8, 3, 255}, /* said to be the driver's */
	};
	struct drain_case c;
	struct test_writer w, other;

	(void)state;
	case_begin(&c, &w, 16);
	test_writer_open(&other, &c.ring, 502, T0);
	test_poll(&w, T0, 7, 0);
	test_emit(&w, T0 + MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(7, 0), 0, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(8, 0), 0, 0);
	test_poll_end(&w, T0 + 3 * MS, KYMO_POLL_SELF_WAKE);
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(8, 0), 0, 0);
	test_emit(&other, T0 + 5 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(8, 0), 0, 0);
	test_emit(&other, T0 + 6 * MS, KYMO_RECORD_WAKE, KYMO_WAKE_ON_DRIVER, 1,
		  kymo_task_word(8, 0), 0, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, WAKE), 6);
	for (size_t i = 0; i < 6; i++) {
		const struct test_event *wake = EVENT(&c, WAKE, i);

		assert_int_equal(NUMBER(wake, WAKE, waker_task_id), expected[i].waker);
		assert_int_equal(NUMBER(wake, WAKE, woken_task_id), expected[i].woken);
		assert_int_equal(NUMBER(wake, WAKE, origin), expected[i].origin);
		assert_int_equal(NUMBER(wake, WAKE, target_worker), expected[i].worker);
	}
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 2);
	near(EVENT(&c, WAKE, 2)->ns, T0 + 3 * MS);
	case_close(&c);
}

static void drain__task_id_carries_the_copy(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint32_t name;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	name = test_ring_name(&c.ring, "x", 0, 3);
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0, 7, name);
	test_poll_end(&w, T0 + MS, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(7, 3), 0, 0);
	test_emit(&w, T0 + 3 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(7, 0), 0, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_true(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, task_id) ==
		    (7 | UINT64_C(3) << 48));
	assert_true(NUMBER(EVENT(&c, WAKE, 0), WAKE, woken_task_id) == (7 | UINT64_C(3) << 48));
	assert_int_equal(NUMBER(EVENT(&c, WAKE, 1), WAKE, woken_task_id), 7);
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 2);
	case_close(&c);
}

static void drain__nested_polls_leave_the_pair_of_the_worker_alone(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 16);
	test_poll(&w, T0, 7, 0);
	test_poll(&w, T0 + MS, 8, 0);
	test_poll_end(&w, T0 + 2 * MS, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	test_poll_end(&w, T0 + 4 * MS, 0); /* of a poll without a begin */
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 1);
	assert_int_equal(COUNT(&c, NESTED_POLL_END), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, depth), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, task_id), 8);
	near(EVENT(&c, POLL_END, 0)->ns, T0 + 3 * MS);
	case_close(&c);
}

static void drain__blocking_runs_are_events_of_their_own(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 16);
	test_emit(&w, T0, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	test_emit(&w, T0 + MS, KYMO_RECORD_BLOCKING_END, KYMO_POLL_READY, 0, 0, 0, 0);
	test_emit(&w, T0 + 2 * MS, KYMO_RECORD_BLOCKING_END, KYMO_POLL_READY, 0, 0, 0, 0);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, BLOCKING_START), 1);
	assert_int_equal(COUNT(&c, BLOCKING_END), 1);
	assert_int_equal(COUNT(&c, POLL_START), 0);
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 0);
	assert_int_equal(NUMBER(EVENT(&c, BLOCKING_END, 0), BLOCKING_END, task_id), 9);
	case_close(&c);
}

static void drain__parks_belong_to_workers_and_stop_their_cpu_clock(void **state)
{
	struct drain_case c;
	struct test_writer w, other;

	(void)state;
	case_begin(&c, &w, 16);
	test_writer_open(&other, &c.ring, 502, T0);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	test_emit(&w, T0 + 10 * MS, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
	test_emit(&w, T0 + 40 * MS, KYMO_RECORD_UNPARK, 5, 0, 0, 0, 0);
	test_emit(&w, T0 + 60 * MS, KYMO_RECORD_PARK, KYMO_WAIT_FUTEX | kymo_park_timeout(250), 0,
		  0, 0, 0);
	test_emit(&w, T0 + 70 * MS, KYMO_RECORD_UNPARK, 0xffff, 0, 0, 0, 0);
	test_emit(&other, T0 + 10 * MS, KYMO_RECORD_PARK, KYMO_WAIT_FUTEX, 0, 0, 0, 0);
	case_finish(&c, T0 + 90 * MS);
	assert_int_equal(COUNT(&c, WORKER_PARK), 2);
	assert_int_equal(COUNT(&c, WORKER_UNPARK), 2);
	near(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, cpu_time_ns), 10 * MS);
	near(NUMBER(EVENT(&c, WORKER_UNPARK, 0), WORKER_UNPARK, cpu_time_ns), 10 * MS);
	near(NUMBER(EVENT(&c, WORKER_PARK, 1), WORKER_PARK, cpu_time_ns), 30 * MS);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, wait), 1);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 1), WORKER_PARK, wait), 2);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 1), WORKER_PARK, timeout_ms), 250);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, tid), 501);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_UNPARK, 0), WORKER_UNPARK, ready_count), 5);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_UNPARK, 1), WORKER_UNPARK, ready_count), 0);
	assert_false(EVENT(&c, WORKER_UNPARK, 0)->is_present[KY_F_WORKER_UNPARK_sched_wait_ns]);
	case_close(&c);
}

static void spawn__says_the_place_and_the_first_poll_the_type(void **state)
{
	uint32_t place, type;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	place = test_ring_name(&c.ring, "src/main.rs:7:5", 0, 0);
	type = test_ring_name(&c.ring, "svc::handle", 0, 0);
	test_writer_open(&w, &c.ring, 501, T0);
	test_emit(&w, T0, KYMO_RECORD_SPAWN, 0, 1, kymo_task_word(11, place), 0, 0);
	for (uint64_t i = 1; i < 4; i++) {
		test_poll(&w, T0 + i * MS, 11, type);
		test_emit(&w, T0 + i * MS + MS / 4, KYMO_RECORD_POLL_DELAY, 0, 1, 200000, 0, 0);
		test_poll_end(&w, T0 + i * MS + MS / 2, 0);
	}
	case_finish(&c, T0 + 90 * MS);
	assert_int_equal(COUNT(&c, TASK_SPAWN), 1);
	assert_string_equal(TEXT(EVENT(&c, TASK_SPAWN, 0), TASK_SPAWN, spawn_loc),
			    "src/main.rs:7:5");
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 1);
	assert_string_equal(TEXT(EVENT(&c, TASK_FIRST_SEEN, 0), TASK_FIRST_SEEN, spawn_loc),
			    "svc::handle");
	assert_int_equal(COUNT(&c, POLL_DELAY), 3);
	near(NUMBER(EVENT(&c, POLL_DELAY, 2), POLL_DELAY, ready_ns), T0 + 3 * MS + 50000);
	case_close(&c);
}

static void drain__small_records_become_their_events(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint32_t label;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	label = test_ring_string(&c.ring, "deploy 7");
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0, 7, 0);
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_WAIT, KYMO_WAIT_FUTEX, 1, 5000000, 0, 0);
	test_emit(&w, T0 + 4 * MS, KYMO_RECORD_SPAWN, 0, 1, kymo_task_word(11, 0), 0, 0);
	test_poll_end(&w, T0 + 5 * MS, 0);
	test_emit(&w, T0 + 6 * MS, KYMO_RECORD_DRIVER_TURN, 3, 1, 2500, 0, 0);
	test_emit(&w, T0 + 7 * MS, KYMO_RECORD_NOTIFY, KYMO_WAIT_EVENTFD, 1, 12, 0, 0);
	test_emit(&w, T0 + 8 * MS, KYMO_RECORD_WAKER_CLONE, 0, 1, kymo_task_word(7, 0), 0, 0);
	test_emit(&w, T0 + 9 * MS, KYMO_RECORD_MARK, 0, 1, label, 0, 0);
	test_emit(&w, T0 + 10 * MS, KYMO_RECORD_GATES, 0, 1, 5, 0, 0);
	test_emit(&w, T0 + 11 * MS, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(7, 0), 0, 0);
	test_poll(&w, T0 + 12 * MS, 11, 0);
	test_poll_end(&w, T0 + 13 * MS, 0);
	case_finish(&c, T0 + 90 * MS);
	near(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, duration_ns), 2 * MS);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, reason), 2);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, task_id), 7);
	assert_int_equal(NUMBER(EVENT(&c, TASK_SPAWN, 0), TASK_SPAWN, parent_task_id), 7);
	assert_int_equal(NUMBER(EVENT(&c, TASK_SPAWN, 0), TASK_SPAWN, task_id), 11);
	near(NUMBER(EVENT(&c, DRIVER_TURN, 0), DRIVER_TURN, duration_ns), 1000);
	assert_int_equal(NUMBER(EVENT(&c, DRIVER_TURN, 0), DRIVER_TURN, ready_count), 3);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_NOTIFY, 0), WORKER_NOTIFY, via), 3);
	assert_int_equal(NUMBER(EVENT(&c, WAKER_CLONE, 0), WAKER_CLONE, task_id), 7);
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 0), ANNOTATION, label), "deploy 7");
	assert_int_equal(NUMBER(EVENT(&c, GATES, 0), GATES, gates), 5);
	assert_int_equal(NUMBER(EVENT(&c, TASK_TERMINATE, 0), TASK_TERMINATE, task_id), 7);
	/* Only the task whose spawn was not seen is first seen. */
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 1);
	case_close(&c);
}

static size_t name_by_code(void *ctx, const struct ky_entry_name *entry, char *out, size_t capacity)
{
	(void)ctx;
	if (entry->code_address != 0x5000)
		return 0;
	assert_true(capacity >= 8);
	memcpy(out, "resolved", 8);
	return 8;
}

static void drain__names_come_from_callback_then_text_then_module(void **state)
{
	static const char *const expected[] = {"resolved", "text", "libapp.so+0x1234", ""};
	struct drain_case c;
	struct test_writer w;
	uint32_t names[4];

	(void)state;
	case_open(&c, 16);
	c.options.name = name_by_code;
	case_start(&c);
	test_ring_module(&c.ring, 0x10000, 0x20000, "/opt/libapp.so");
	names[0] = test_ring_name(&c.ring, "", 0x5000, 0);
	names[1] = test_ring_name(&c.ring, "text", 0x11234, 0);
	names[2] = test_ring_name(&c.ring, "", 0x11234, 0);
	names[3] = test_ring_name(&c.ring, "", 0x99999, 0);
	test_writer_open(&w, &c.ring, 501, T0);
	for (uint32_t i = 0; i < 4; i++) {
		test_poll(&w, T0 + i * MS, 20 + i, names[i]);
		test_poll_end(&w, T0 + i * MS + 1000, 0);
	}
	case_finish(&c, T0 + 90 * MS);
	for (uint32_t i = 0; i < 4; i++)
		assert_string_equal(TEXT(EVENT(&c, POLL_START, i), POLL_START, spawn_loc),
				    expected[i]);
	assert_int_equal(COUNT(&c, PROCESS_MAP), 1);
	assert_string_equal(TEXT(EVENT(&c, PROCESS_MAP, 0), PROCESS_MAP, path), "/opt/libapp.so");
	case_close(&c);
}

static void drain__very_deep_polls_stay_balanced(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 16);
	for (uint32_t i = 0; i < 200; i++)
		test_poll(&w, T0 + i * 1000, 1 + i, 0);
	for (uint32_t i = 0; i < 200; i++)
		test_poll_end(&w, T0 + MS + i * 1000, 0);
	test_poll(&w, T0 + 2 * MS, 1, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	case_finish(&c, T0 + 90 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 2);
	assert_int_equal(COUNT(&c, POLL_END), 2);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), COUNT(&c, NESTED_POLL_END));
	case_close(&c);
}

static void drain__gate_changes_of_sub_buffers_become_events(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 8);
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0, 1, 0);
	test_poll_end(&w, T0 + 1 * MS, 0);
	test_writer_claim(&w, T0 + 2 * MS); /* as before: no event */
	test_poll(&w, T0 + 2 * MS, 1, 0);
	test_poll_end(&w, T0 + 3 * MS, 0);
	test_writer_claim(&w, T0 + 4 * MS);
	w.sub->gates = KYMO_GATES_DEFAULT & ~(uint32_t)KYMO_GATE_WAKE;
	test_poll(&w, T0 + 4 * MS, 1, 0);
	test_poll_end(&w, T0 + 5 * MS, 0);
	test_emit(&w, T0 + 6 * MS, KYMO_RECORD_GATES, 0, 1, KYMO_GATES_DEFAULT, 0, 0);
	test_writer_claim(&w, T0 + 7 * MS); /* says what the record said */
	test_poll(&w, T0 + 7 * MS, 1, 0);
	test_poll_end(&w, T0 + 8 * MS, 0);
	case_start(&c);
	case_finish(&c, T0 + 90 * MS);
	assert_int_equal(COUNT(&c, GATES), 2);
	assert_int_equal(NUMBER(EVENT(&c, GATES, 0), GATES, gates),
			 KYMO_GATES_DEFAULT & ~(uint32_t)KYMO_GATE_WAKE);
	assert_int_equal(NUMBER(EVENT(&c, GATES, 1), GATES, gates), KYMO_GATES_DEFAULT);
	near(EVENT(&c, GATES, 0)->ns, T0 + 4 * MS);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__poll_pair_is_written_with_name_and_time),
		cmocka_unit_test(drain__ready_poll_ends_the_task_before_the_poll),
		cmocka_unit_test(drain__wake_origin_follows_the_open_poll),
		cmocka_unit_test(drain__task_id_carries_the_copy),
		cmocka_unit_test(drain__nested_polls_leave_the_pair_of_the_worker_alone),
		cmocka_unit_test(drain__blocking_runs_are_events_of_their_own),
		cmocka_unit_test(drain__parks_belong_to_workers_and_stop_their_cpu_clock),
		cmocka_unit_test(spawn__says_the_place_and_the_first_poll_the_type),
		cmocka_unit_test(drain__small_records_become_their_events),
		cmocka_unit_test(drain__gate_changes_of_sub_buffers_become_events),
		cmocka_unit_test(drain__names_come_from_callback_then_text_then_module),
		cmocka_unit_test(drain__very_deep_polls_stay_balanced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
