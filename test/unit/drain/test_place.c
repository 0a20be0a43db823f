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

static double double_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void place__says_where_a_task_waits_and_since_when(void **state)
{
	const struct test_event *event;

	(void)state;
	test_place(&c.ring, 11, 42, name, T0 + 10 * MS,
		   test_place_stack(&c.ring, 5, 3, LEAF, 20)); /* of more than one unit */
	test_place_polled(&c.ring, 42, T0 + 12 * MS);
	test_poll(&w, T0 + 90 * MS, 7, 0); /* the trace ends with its last record */
	test_poll_end(&w, T0 + 91 * MS, 0);
	case_finish(&c, END);
	event = only_place();
	assert_int_equal(NUMBER(event, AWAIT_PLACE, task_id), 42);
	assert_string_equal(TEXT(event, AWAIT_PLACE, task_name), "svc::handler");
	assert_int_equal(event->frame_count[KY_F_AWAIT_PLACE_callchain], 20);
	assert_int_equal(event->leaf[KY_F_AWAIT_PLACE_callchain], LEAF);
	assert_in_range(NUMBER(event, AWAIT_PLACE, since_ns), T0 + 10 * MS - 1, T0 + 10 * MS + 1);
	assert_in_range(NUMBER(event, AWAIT_PLACE, polled_ns), T0 + 12 * MS - POLLED_NS,
			T0 + 12 * MS);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, state), 0);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, is_truncated), 0);
	assert_true(double_of(NUMBER(event, AWAIT_PLACE, inclusion_probability)) == 1.0);
}

/* As 1 of 64 polls; at three leaves at once; of stacks that did not reach the poll. */
static void place__has_its_odds_and_each_of_its_stacks(void **state)
{
	struct ky_place_slot *slot;

	(void)state;
	test_place_stack(&c.ring, 1, 0, LEAF, 2);
	test_place_stack(&c.ring, 2, 1, LEAF + 100, 2);
	test_place_stack(&c.ring, 3, 2, LEAF + 200, 2);
	slot = test_place(&c.ring, 0, 42, name, T0, 1);
	atomic_store(&slot->one_in, 64);
	atomic_store(&slot->stacks, UINT64_C(1) | UINT64_C(2) << 16 | UINT64_C(3) << 32 |
					    (uint64_t)KY_PLACE_TRUNCATED << 48);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct test_event *event = EVENT(&c, AWAIT_PLACE, i);

		assert_int_equal(event->leaf[KY_F_AWAIT_PLACE_callchain], LEAF + 100 * i);
		assert_int_equal(NUMBER(event, AWAIT_PLACE, is_truncated), 1);
		assert_true(double_of(NUMBER(event, AWAIT_PLACE, inclusion_probability)) ==
			    1.0 / 64);
	}
}

static uint64_t state_of_only(void)
{
	case_finish(&c, END);
	return NUMBER(only_place(), AWAIT_PLACE, state);
}

/* It registered its waker somewhere afterwards, in a poll that was not taken. */
static void state__tells_that_it_may_wait_elsewhere(void **state)
{
	struct ky_place_slot *slot = test_place(&c.ring, 0, 42, name, T0 + 10 * MS,
						test_place_stack(&c.ring, 1, 0, 1, 1));

	(void)state;
	atomic_store(&slot->moved_ticks, test_ticks(T0 + 10 * MS + 1));
	assert_int_equal(state_of_only(), 1);
}

static void state__of_a_place_taken_after_the_move_is_that_it_waits(void **state)
{
	struct ky_place_slot *slot = test_place(&c.ring, 0, 42, name, T0 + 10 * MS,
						test_place_stack(&c.ring, 1, 0, 1, 1));

	(void)state;
	atomic_store(&slot->moved_ticks, test_ticks(T0 + 10 * MS));
	assert_int_equal(state_of_only(), 0);
}

/* Whatever the table says: a poll of it is open. */
static void state__of_a_task_in_a_poll_is_polled(void **state)
{
	struct ky_place_slot *slot = test_place(&c.ring, 0, 42, name, T0 + 10 * MS,
						test_place_stack(&c.ring, 1, 0, 1, 1));

	(void)state;
	atomic_store(&slot->moved_ticks, test_ticks(T0 + 20 * MS));
	test_poll(&w, T0 + 30 * MS, 42, 0);
	assert_int_equal(state_of_only(), 2);
}

/* Stamps ahead of the trace's end, or none at all. */
static void time__never_lies_behind_the_trace(void **state)
{
	const struct test_event *event;
	struct ky_place_slot *slot = test_place(&c.ring, 0, 42, name, END + 50 * MS,
						test_place_stack(&c.ring, 1, 0, 1, 1));

	(void)state;
	slot = test_place(&c.ring, 1, 43, name, T0, 1);
	atomic_store(&slot->since_ticks, 0);
	slot = test_place(&c.ring, 2, 44, name, T0, 1);
	atomic_store(&slot->since_ticks, UINT64_MAX);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 3);
	event = EVENT(&c, AWAIT_PLACE, 0);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, since_ns), event->ns);
	assert_int_equal(NUMBER(event, AWAIT_PLACE, polled_ns), 0); /* not known */
	/* 0 would be a place that was taken at this moment. */
	assert_int_equal(NUMBER(EVENT(&c, AWAIT_PLACE, 1), AWAIT_PLACE, since_ns), 1);
	assert_int_equal(NUMBER(EVENT(&c, AWAIT_PLACE, 2), AWAIT_PLACE, since_ns), 1);
}

/* Free, in the middle of being written, of another task than the set says. */
static void table__half_written_entries_are_left_out(void **state)
{
	struct ky_place_slot *slot;

	(void)state;
	test_place_stack(&c.ring, 1, 0, 1, 1);
	slot = test_place(&c.ring, 0, 42, name, T0, 1);
	atomic_store(&slot->sequence, 7);
	slot = test_place(&c.ring, 1, 43, name, T0, 1);
	atomic_store(&slot->task_word, kymo_task_word(99, name));
	test_place(&c.ring, 2, 44, name, T0, 1);
	test_place_set(&c.ring, 0)->tasks[2] = 0;
	test_place(&c.ring, KY_PLACE_SLOTS - 1, 45, name, T0, 1);
	case_finish(&c, END);
	assert_int_equal(NUMBER(only_place(), AWAIT_PLACE, task_id), 45);
}

/* Bits beside the task's number are the recorder's own. */
static void table__marks_of_a_set_are_no_part_of_the_task(void **state)
{
	(void)state;
	test_place(&c.ring, 0, 42, name, T0, test_place_stack(&c.ring, 1, 0, 1, 1));
	test_place_set(&c.ring, 0)->tasks[0] |= KY_PLACE_SPILLED | 3 * KY_PLACE_AWAY_ONE;
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
	test_place(&c.ring, 0, 42, name, T0, test_place_stack(&c.ring, 1, 0, 1, 1));
	atomic_store(&c.ring.header->place_ready, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, AWAIT_PLACE), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(place__says_where_a_task_waits_and_since_when),
		CASE(place__has_its_odds_and_each_of_its_stacks),
		CASE(state__tells_that_it_may_wait_elsewhere),
		CASE(state__of_a_place_taken_after_the_move_is_that_it_waits),
		CASE(state__of_a_task_in_a_poll_is_polled),
		CASE(time__never_lies_behind_the_trace),
		CASE(table__half_written_entries_are_left_out),
		CASE(table__marks_of_a_set_are_no_part_of_the_task),
		CASE(stack__that_cannot_be_has_no_frames),
		CASE(table__that_is_not_ready_is_not_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
