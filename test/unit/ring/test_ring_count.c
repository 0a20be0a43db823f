/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"

#include <ring/ring_count.h>
#include <errno.h>
#include <string.h>

#include "../../lib/alloc_fail.h"

#define SLOTS 8u
#define NS UINT64_C(2000000000)

static struct test_ring ring;
static struct ky_ring_view view;

static int open_ring(void **state)
{
	(void)state;
	test_ring_open(&ring, SLOTS);
	return ky_ring_view_init(&view, ring.image, ring.image_bytes);
}

static int close_ring(void **state)
{
	(void)state;
	test_ring_close(&ring);
	return 0;
}

static void polls(struct test_writer *writer, uint64_t count)
{
	while (count-- > 0) {
		test_poll(writer, NS + count, 1, 0);
		test_poll_end(writer, NS + count, 0);
	}
}

static void count(struct ky_ring_count *out)
{
	assert_int_equal(ky_ring_count(out, &view), 0);
}

static void ring_count__between_two_readings_is_what_was_written(void **state)
{
	struct test_writer a, b;
	struct ky_ring_count first, second;

	(void)state;
	test_writer_open(&a, &ring, 101, NS);
	polls(&a, 10);
	count(&first);
	assert_int_equal(ky_ring_count_between(&first, &first), 0);
	polls(&a, 5);
	test_writer_claim(&a, NS + 100);
	polls(&a, 3);
	test_writer_open(&b, &ring, 102, NS);
	polls(&b, 20);
	count(&second);
	assert_int_equal(ky_ring_count_between(&first, &second), 2 * (5 + 3 + 20));
	assert_int_equal(second.slots_by_state[KY_SLOT_OPEN], 2);
	assert_int_equal(second.slots_by_state[KY_SLOT_CLOSED], 1);
	assert_int_equal(second.slots_by_state[KY_SLOT_FREE], SLOTS - 3);
	ky_ring_count_release(&first);
	ky_ring_count_release(&second);
}

static void ring_count__threads_that_continue_a_sub_buffer_are_counted(void **state)
{
	struct test_writer a, heir;
	struct ky_ring_count first, second;

	(void)state;
	test_writer_open(&a, &ring, 101, NS);
	polls(&a, 10);
	count(&first);
	test_writer_exit(&a, NS + 50, true);
	test_writer_open(&heir, &ring, 102, NS + 60);
	test_writer_continue(&heir, &a, NS + 60);
	polls(&heir, 7);
	count(&second);
	/* The record that says whose it is from here on is one, too. */
	assert_int_equal(ky_ring_count_between(&first, &second), 2 * 7 + 1);
	ky_ring_count_release(&first);
	ky_ring_count_release(&second);
}

static void ring_count__overwritten_sub_buffers_do_not_matter(void **state)
{
	struct test_writer a;
	struct ky_ring_count first, second;
	uint64_t i;

	(void)state;
	test_writer_open(&a, &ring, 101, NS);
	polls(&a, 1);
	count(&first);
	for (i = 0; i < 3 * SLOTS; i++) {
		test_writer_claim(&a, NS + i);
		polls(&a, 10);
	}
	count(&second);
	assert_int_equal(ky_ring_count_between(&first, &second), 3 * SLOTS * 20);
	ky_ring_count_release(&first);
	ky_ring_count_release(&second);
}

static void ring_count__garbage_is_survived(void **state)
{
	struct test_writer a;
	struct ky_ring_count out;
	struct ky_sub_buffer *sub;

	(void)state;
	test_writer_open(&a, &ring, 101, NS);
	polls(&a, 10);
	sub = test_ring_slot(&ring, 0);
	sub->thread = UINT32_MAX;
	count(&out);
	assert_int_equal(out.thread_count, 0);
	ky_ring_count_release(&out);
	sub->thread = 1;
	memset((uint8_t *)sub + KY_SLOT_HEADER_BYTES, 0xff, 64);
	count(&out);
	assert_int_equal(out.threads[1].record_count, 0);
	ky_ring_count_release(&out);
	atomic_store(&sub->published, 3);
	count(&out);
	ky_ring_count_release(&out);
	atomic_store(&sub->claim, UINT64_MAX);
	count(&out);
	ky_ring_count_release(&out);
}

static void ring_count__nth_allocation_fails_cleanly(void **state)
{
	struct test_writer a;
	struct ky_ring_count out;
	uint64_t n;
	int err = -ENOMEM;

	(void)state;
	test_writer_open(&a, &ring, 101, NS);
	polls(&a, 1);
	for (n = 0; err == -ENOMEM; n++) {
		test_alloc_fail_at(n);
		err = ky_ring_count(&out, &view);
		test_alloc_normal();
		ky_ring_count_release(&out);
	}
	assert_int_equal(err, 0);
	assert_true(n > 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_count__between_two_readings_is_what_was_written),
		TEST(ring_count__threads_that_continue_a_sub_buffer_are_counted),
		TEST(ring_count__overwritten_sub_buffers_do_not_matter),
		TEST(ring_count__garbage_is_survived),
		TEST(ring_count__nth_allocation_fails_cleanly),
	};

	return cmocka_run_group_tests_name("ring_count", tests, NULL, NULL);
}
