/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where live tasks wait, out of tables that the test fills, damaged ones among them. */
#include "../../lib/drain_case.h"
#include "../../lib/ring_tables.h"

#include <ring/ring_view.h>

#define END (T0 + 100 * MS)
#define LEAF UINT64_C(0x555500001000)
/* The counter has 2.5 ticks a nanosecond, and what is kept of a poll's end lacks 12 bits of it. */
#define POLLED_NS 1700

static struct drain_case c;
static struct test_writer w;
static uint32_t name;

static int setup(void **state)
{
	(void)state;
	case_open(&c, 8);
	test_ring_add_tables(&c.ring);
	c.options.image = c.ring.image;
	c.options.image_bytes = c.ring.image_bytes;
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	name = test_ring_name(&c.ring, "svc::handler", 0, 0);
	test_poll(&w, T0, 7, 0);
	test_poll_end(&w, T0 + MS, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_close(&c);
	return 0;
}

static const struct test_event *only_place(void)
{
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 1);
	return EVENT(&c, AWAIT_PLACE, 0);
}

/* Each of one frame: LEAF + 100 * its number. */
static void add_stacks(void)
{
	for (uint32_t i = 1; i <= 3; i++)
		test_place_stack(&c.ring, i, i - 1, LEAF + 100 * i, 1);
}

#define NONE KY_PLACE_NO_STACK

static void place__has_the_stack_and_the_start_of_a_wait(void **state)
{
	const struct test_event *event;

	(void)state;
	test_place_stack(&c.ring, 5, 3, LEAF, 20); /* of more than one unit */
	test_points(&c.ring, 9, TEST_POINTS(5, NONE, NONE));
	test_place(&c.ring, 11, 42, name, T0 + 12 * MS, 9);
	test_poll(&w, T0 + 90 * MS, 7, 0); /* the trace ends with its last record */
	test_poll_end(&w, T0 + 91 * MS, 0);
	case_finish(&c, END);
	event = only_place();
	assert_int_equal(NUMBER(event, AWAIT_PLACE, task_id), 42);
	assert_string_equal(TEXT(event, AWAIT_PLACE, task_name), "svc::handler");
	assert_int_equal(event->frame_count[KY_F_AWAIT_PLACE_callchain], 20);
	assert_int_equal(event->leaf[KY_F_AWAIT_PLACE_callchain], LEAF);
	assert_in_range(NUMBER(event, AWAIT_PLACE, polled_ns), T0 + 12 * MS - POLLED_NS,
			T0 + 12 * MS);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, since_ns),
			 NUMBER(event, AWAIT_PLACE, polled_ns));
	assert_int_equal(NUMBER(event, AWAIT_PLACE, wait_ns), 0); /* it still does */
	assert_int_equal(NUMBER(event, AWAIT_PLACE, state), 0);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, is_truncated), 0);
}

/* At three leaves at once, of which one is known from an earlier poll, and one of an unknown
 * stack. */
static void place__has_each_of_its_points(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, 2, 3) | KY_PLACE_TRUNCATED(1) | KY_PLACE_OLDER(2));
	test_place(&c.ring, 0, 42, name, T0 + 50 * MS, 9);
	test_place_since(&c.ring, 0, T0 + 20 * MS);
	test_poll(&w, T0 + 90 * MS, 7, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct test_event *event = EVENT(&c, AWAIT_PLACE, i);
		uint64_t since_ns = T0 + (i == 2 ? 20 : 50) * MS;

		assert_int_equal(event->leaf[KY_F_AWAIT_PLACE_callchain], LEAF + 100 * (i + 1));
		assert_int_equal(NUMBER(event, AWAIT_PLACE, is_truncated), i == 1);
		assert_int_equal(NUMBER(event, AWAIT_PLACE, point), i);
		assert_in_range(NUMBER(event, AWAIT_PLACE, since_ns), since_ns - POLLED_NS,
				since_ns);
	}
}

/* ---- waits that end ---- */

static void poll_task(uint64_t from_ns, uint64_t to_ns, uint32_t points)
{
	test_poll(&w, from_ns, 42, name);
	test_poll_end(&w, to_ns, points << KYMO_POLL_POINTS_SHIFT);
}

static void wait__of_10_ms_is_told_when_it_ends(void **state)
{
	const struct test_event *event;

	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	poll_task(T0 + 2 * MS, T0 + 3 * MS, 9);
	poll_task(T0 + 13 * MS - 1000, T0 + 14 * MS, 9); /* a little less */
	poll_task(T0 + 24 * MS + 1000, T0 + 25 * MS, 0); /* a little more */
	poll_task(T0 + 50 * MS, T0 + 51 * MS, 9);        /* long, and nothing known of it */
	case_finish(&c, END);
	event = only_place();
	assert_in_range(event->ns, T0 + 24 * MS + 997, T0 + 24 * MS + 1003);
	assert_in_range(NUMBER(event, AWAIT_PLACE, wait_ns), 10 * MS + 994, 10 * MS + 1006);
	assert_int_equal(event->ns - NUMBER(event, AWAIT_PLACE, wait_ns),
			 NUMBER(event, AWAIT_PLACE, polled_ns));
	assert_int_equal(NUMBER(event, AWAIT_PLACE, task_id), 42);
	assert_int_equal(event->leaf[KY_F_AWAIT_PLACE_callchain], LEAF + 100);
	assert_string_equal(TEXT(event, AWAIT_PLACE, task_name), "svc::handler");
}

/* A leaf that keeps its waker through two polls. */
static void wait__says_since_when_an_older_point_is_known(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	test_points(&c.ring, 10, TEST_POINTS(1, NONE, NONE) | KY_PLACE_OLDER(0));
	test_points(&c.ring, 11, TEST_POINTS(2, 1, NONE) | KY_PLACE_OLDER(1));
	poll_task(T0 + 2 * MS, T0 + 3 * MS, 9);
	poll_task(T0 + 20 * MS, T0 + 21 * MS, 10);
	poll_task(T0 + 40 * MS, T0 + 41 * MS, 11);
	poll_task(T0 + 60 * MS, T0 + 61 * MS, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 4);
	for (uint32_t i = 0; i < 4; i++) {
		static const uint64_t since_ms[] = {3, 3, 41, 3};
		uint64_t since_ns = T0 + since_ms[i] * MS;

		assert_in_range(NUMBER(EVENT(&c, AWAIT_PLACE, i), AWAIT_PLACE, since_ns),
				since_ns - 3, since_ns + 3);
	}
}

/* As at a shutdown: nothing polls it again. */
static void wait__ends_with_the_task(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	poll_task(T0 + 2 * MS, T0 + 3 * MS, 9);
	test_emit(&w, T0 + 33 * MS, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(42, name), 0, 0);
	case_finish(&c, END);
	assert_in_range(NUMBER(only_place(), AWAIT_PLACE, wait_ns), 30 * MS - 3, 30 * MS + 3);
}

static void wait__at_one_of_its_points_says_so(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, 2, NONE) | KY_PLACE_UNSURE);
	poll_task(T0 + 2 * MS, T0 + 3 * MS, 9);
	poll_task(T0 + 20 * MS, T0 + 21 * MS, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 2);
	assert_int_equal(NUMBER(EVENT(&c, AWAIT_PLACE, 0), AWAIT_PLACE, state), 1);
	assert_int_equal(NUMBER(EVENT(&c, AWAIT_PLACE, 1), AWAIT_PLACE, state), 1);
}

/* ---- states ---- */

static uint64_t state_of_only(void)
{
	case_finish(&c, END);
	return NUMBER(only_place(), AWAIT_PLACE, state);
}

static void state__tells_that_it_may_wait_elsewhere(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE) | KY_PLACE_UNSURE);
	test_place(&c.ring, 0, 42, name, T0 + 10 * MS, 9);
	assert_int_equal(state_of_only(), 1);
}

/* Whatever the table says: a poll of it is open. */
static void state__of_a_task_in_a_poll_is_polled(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	test_place(&c.ring, 0, 42, name, T0 + 10 * MS, 9);
	test_poll(&w, T0 + 30 * MS, 42, 0);
	assert_int_equal(state_of_only(), 2);
}

/* Stamps ahead of the trace's end. */
static void time__never_exceeds_the_end_of_the_trace(void **state)
{
	const struct test_event *event;

	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE) | KY_PLACE_OLDER(0));
	test_place(&c.ring, 0, 42, name, END + 50 * MS, 9);
	test_place_since(&c.ring, 0, END + 60 * MS);
	case_finish(&c, END);
	event = only_place();
	assert_in_range(NUMBER(event, AWAIT_PLACE, since_ns), 1, event->ns);
	assert_in_range(NUMBER(event, AWAIT_PLACE, polled_ns), 0, event->ns);
}

/* Free, or without points; and points that are none. */
static void table__entries_without_points_are_left_out(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	test_place(&c.ring, 0, 0, name, T0, 9);
	test_place(&c.ring, 1, 43, name, T0, 0);
	test_place(&c.ring, 2, 44, name, T0, 8);
	test_place(&c.ring, 3, 46, name, T0, KY_PLACE_POINTS);
	test_place(&c.ring, KY_PLACE_ENTRIES - 1, 45, name, T0, 9);
	case_finish(&c, END);
	assert_int_equal(NUMBER(only_place(), AWAIT_PLACE, task_id), 45);
}

/* Bits beside the task's number are the recorder's own. */
static void table__marks_of_a_set_are_no_part_of_the_task(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	test_place(&c.ring, 0, 42, name, T0, 9);
	test_place_row(&c.ring, 0)->task |= KY_PLACE_SPILLED | 3 * KY_PLACE_AWAY_ONE;
	case_finish(&c, END);
	assert_int_equal(NUMBER(only_place(), AWAIT_PLACE, task_id), 42);
}

/* Numbers, units and lengths that reach beyond their tables: no frames, and nothing read there. */
static void stack__that_cannot_be_has_no_frames(void **state)
{
	const uint8_t *area = c.ring.image + c.ring.header->place_offset;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	struct ky_place_stack *stacks = (void *)(c.ring.image + c.ring.header->place_offset +
						 KY_PLACE_STACKS_OFFSET);

	(void)state;
	assert_int_equal(ky_ring_view_place_stack(area, 1, frames), 0); /* not published */
	/* Behind the table lie the frames: they are no entry, whatever they look like. */
	atomic_store(&stacks[KY_PLACE_STACKS].place, UINT64_C(1) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_place_stack(area, KY_PLACE_STACKS, frames), 0);
	assert_int_equal(ky_ring_view_place_stack(area, UINT32_MAX, frames), 0);
	atomic_store(&stacks[1].place,
		     (uint64_t)(KYMO_PLACE_FRAMES_MAX + 1) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_place_stack(area, 1, frames), 0);
	atomic_store(&stacks[1].place,
		     (KY_PLACE_UNITS - 1) | UINT64_C(11) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_place_stack(area, 1, frames), 0);
	/* Ten frames fill the last unit. */
	test_place_stack(&c.ring, 1, KY_PLACE_UNITS - 1, LEAF, 10);
	assert_int_equal(ky_ring_view_place_stack(area, 1, frames), 10);
	assert_int_equal(frames[9], LEAF + 9);
}

/* The recorder makes its pages first. */
static void table__that_is_not_ready_is_not_read(void **state)
{
	(void)state;
	add_stacks();
	test_points(&c.ring, 9, TEST_POINTS(1, NONE, NONE));
	test_place(&c.ring, 0, 42, name, T0, 9);
	atomic_store(&c.ring.header->place_ready, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 0);
}

/* The number of a stack in a WAKE is one of the same table; 0 or one that is not there: none. */
static void wake__has_the_stack_that_its_record_names(void **state)
{
	static const uint32_t numbers[] = {4, 0, 2, 4, 1000};

	(void)state;
	test_place_stack(&c.ring, 1, 0, LEAF, 3);
	test_place_stack(&c.ring, 3, 1, LEAF + 100, 12);
	for (uint32_t i = 0; i < 5; i++)
		test_emit(&w, T0 + (10 + i) * MS, KYMO_RECORD_WAKE,
			  numbers[i] << KYMO_WAKE_STACK_SHIFT, 1, kymo_task_word(7, 0), 0, 0);
	test_poll(&w, T0 + 90 * MS, 7, 0);
	test_poll_end(&w, T0 + 91 * MS, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, WAKE), 5);
	for (uint32_t i = 0; i < 5; i++) {
		const struct test_event *wake = EVENT(&c, WAKE, i);
		uint32_t count = numbers[i] == 4 ? 12 : numbers[i] == 2 ? 3 : 0;

		assert_int_equal(wake->frame_count[KY_F_WAKE_callchain], count);
		if (count)
			assert_int_equal(wake->leaf[KY_F_WAKE_callchain],
					 count == 12 ? LEAF + 100 : LEAF);
		assert_int_equal(NUMBER(wake, WAKE, tid), 0); /* target_worker names it */
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(place__has_the_stack_and_the_start_of_a_wait),
		CASE(place__has_each_of_its_points),
		CASE(wait__of_10_ms_is_told_when_it_ends),
		CASE(wait__says_since_when_an_older_point_is_known),
		CASE(wait__ends_with_the_task),
		CASE(wait__at_one_of_its_points_says_so),
		CASE(state__tells_that_it_may_wait_elsewhere),
		CASE(state__of_a_task_in_a_poll_is_polled),
		CASE(time__never_exceeds_the_end_of_the_trace),
		CASE(table__entries_without_points_are_left_out),
		CASE(table__marks_of_a_set_are_no_part_of_the_task),
		CASE(stack__that_cannot_be_has_no_frames),
		CASE(table__that_is_not_ready_is_not_read),
		CASE(wake__has_the_stack_that_its_record_names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
