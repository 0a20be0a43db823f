/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which allocations live at a trace's end, out of a table that the test fills. */
#include "../../lib/cut_case.h"
#include "../../lib/ring_tables.h"

#include <ring/ring_view.h>

#define END (T0 + 100 * MS)
#define LEAF UINT64_C(0x555500001000)
#define ADDRESS UINT64_C(0x7f0000001000)

static struct drain_case c;
static struct test_writer w;

static int setup(void **state)
{
	(void)state;
	case_open(&c, 8);
	test_ring_add_tables(&c.ring);
	c.options.image = c.ring.image;
	c.options.image_bytes = c.ring.image_bytes;
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
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

static double double_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void live__allocation_has_its_bytes_stack_and_start(void **state)
{
	const struct test_event *event;
	struct ky_alloc_entry *entry;

	(void)state;
	entry = test_alloc(&c.ring, 9, ADDRESS, 4096, T0 + 10 * MS,
			   test_alloc_stack(&c.ring, 77, 5, LEAF, 30));
	atomic_store(&entry->weight, UINT64_C(5) << 31); /* 2.5 */
	test_poll(&w, T0 + 90 * MS, 7, 0);               /* the trace ends with its last record */
	test_poll_end(&w, T0 + 91 * MS, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, ALLOC), 1);
	event = EVENT(&c, ALLOC, 0);
	assert_int_equal(NUMBER(event, ALLOC, tid), 501);
	assert_int_equal(NUMBER(event, ALLOC, alloc_bytes), 4096);
	assert_int_equal(NUMBER(event, ALLOC, addr), ADDRESS);
	assert_int_equal(event->frame_count[KY_F_ALLOC_callchain], 30);
	assert_int_equal(event->leaf[KY_F_ALLOC_callchain], LEAF);
	assert_true(double_of(NUMBER(event, ALLOC, weight)) == 2.5);
	assert_int_equal(NUMBER(event, ALLOC, is_truncated), 0);
	assert_int_equal(NUMBER(event, ALLOC, task_id), 0);
	assert_in_range(NUMBER(event, ALLOC, since_ns), T0 + 10 * MS - 1, T0 + 10 * MS + 1);
}

/* An old recorder left no weight, no stack; the stack may be cut. */
static void live__missing_values_have_defined_defaults(void **state)
{
	const struct test_event *event;
	struct ky_alloc_entry *entry;

	(void)state;
	entry = test_alloc(&c.ring, 0, ADDRESS, 64, T0, KY_ALLOC_NO_STACK);
	atomic_store(&entry->weight, 0);
	entry = test_alloc(&c.ring, 1, ADDRESS + 64, 64, T0,
			   test_alloc_stack(&c.ring, 1, 0, LEAF, 2));
	atomic_fetch_or(&entry->about, KY_ALLOC_TRUNCATED);
	atomic_store(&entry->stamp, UINT64_MAX);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, ALLOC), 2);
	event = EVENT(&c, ALLOC, 0);
	assert_true(double_of(NUMBER(event, ALLOC, weight)) == 1.0);
	assert_int_equal(event->frame_count[KY_F_ALLOC_callchain], 0);
	event = EVENT(&c, ALLOC, 1);
	assert_int_equal(NUMBER(event, ALLOC, is_truncated), 1);
	/* 0 would be an allocation at this moment. */
	assert_int_equal(NUMBER(event, ALLOC, since_ns), 1);
}

static void live__skips_free_and_half_written_entries(void **state)
{
	(void)state;
	test_alloc_stack(&c.ring, 1, 0, LEAF, 2);
	(void)test_alloc(&c.ring, 0, 0, 64, T0, 1);
	(void)test_alloc(&c.ring, 1, KY_ALLOC_BUSY, 64, T0, 1);
	(void)test_alloc(&c.ring, KY_ALLOC_ENTRIES - 1, ADDRESS, 64, T0, 1);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, ALLOC), 1);
	assert_int_equal(NUMBER(EVENT(&c, ALLOC, 0), ALLOC, addr), ADDRESS);
}

/* A stream ends with its process, so what was allocated last is written, at its end; a cut ends
 * where it was asked to, and what came after that is not in it. */
static void live__allocation_after_the_end_is_in_a_stream_alone(void **state)
{
	static struct cut_case cut;

	(void)state;
	test_alloc_stack(&c.ring, 1, 0, LEAF, 2);
	(void)test_alloc(&c.ring, 0, ADDRESS, 64, T0 + 50 * MS, 1);
	(void)test_alloc(&c.ring, 1, ADDRESS + 64, 64, T0 + MS / 2, 1);
	memset(&cut, 0, sizeof(cut));
	cut.ring = c.ring;
	test_sink_open(&cut.sink);
	cut.options = (struct ky_cut_options){.image = c.ring.image,
					      .image_bytes = c.ring.image_bytes,
					      .to_ns = T0 + 2 * MS,
					      .anchor = test_ring_anchor,
					      .anchor_ctx = &cut.ring,
					      .chunk = test_sink_chunk,
					      .chunk_ctx = &cut.sink,
					      .hostname = "box",
					      .source = "test"};
	cut_take(&cut, END);
	assert_int_equal(COUNT(&cut, ALLOC), 1);
	assert_int_equal(NUMBER(EVENT(&cut, ALLOC, 0), ALLOC, addr), ADDRESS + 64);
	test_sink_close(&cut.sink);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, ALLOC), 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(NUMBER(EVENT(&c, ALLOC, i), ALLOC, since_ns) <=
			    EVENT(&c, ALLOC, i)->ns);
}

static void table__that_is_not_ready_is_not_read(void **state)
{
	(void)state;
	(void)test_alloc(&c.ring, 0, ADDRESS, 64, T0, test_alloc_stack(&c.ring, 1, 0, LEAF, 2));
	atomic_store(&c.ring.header->alloc_ready, 0);
	case_finish(&c, END);
	assert_int_equal(COUNT(&c, ALLOC), 0);
}

/* Whatever stands there. */
static void stack__that_cannot_be_has_no_frames(void **state)
{
	const uint8_t *area = c.ring.image + c.ring.header->alloc_offset;
	struct ky_alloc_head *head = (void *)(c.ring.image + c.ring.header->alloc_offset);
	struct ky_place_stack *stacks = (void *)(c.ring.image + c.ring.header->alloc_offset +
						 KY_ALLOC_STACKS_OFFSET);
	uint64_t frames[KY_ALLOC_FRAMES_MAX];

	(void)state;
	assert_int_equal(ky_ring_view_alloc_stack(area, 3, frames), 0);
	/* After the table lie the frames: they are no entry, whatever their bytes are. */
	atomic_store(&stacks[KY_ALLOC_STACKS].place, UINT64_C(1) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_alloc_stack(area, KY_ALLOC_STACKS, frames), 0);
	atomic_store(&stacks[3].place,
		     (uint64_t)(KY_ALLOC_FRAMES_MAX + 1) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_alloc_stack(area, 3, frames), 0);
	atomic_store(&stacks[3].place,
		     (KY_ALLOC_UNITS - 1) | UINT64_C(11) << 16 | KY_PLACE_PUBLISHED);
	assert_int_equal(ky_ring_view_alloc_stack(area, 3, frames), 0);
	test_alloc_stack(&c.ring, 3, KY_ALLOC_UNITS - 1, LEAF, 10);
	assert_int_equal(ky_ring_view_alloc_stack(area, 3, frames), 10);
	assert_int_equal(frames[9], LEAF + 9);
	/* More than there are may be counted as used. */
	atomic_store(&head->units_used, KY_ALLOC_UNITS + 5);
	assert_int_equal(ky_ring_view_alloc_units(area), KY_ALLOC_UNITS);
	atomic_store(&head->units_used, 5);
	assert_int_equal(ky_ring_view_alloc_units(area), 5);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(live__allocation_has_its_bytes_stack_and_start),
		CASE(live__missing_values_have_defined_defaults),
		CASE(live__skips_free_and_half_written_entries),
		CASE(live__allocation_after_the_end_is_in_a_stream_alone),
		CASE(table__that_is_not_ready_is_not_read),
		CASE(stack__that_cannot_be_has_no_frames),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
