/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <drain/pace.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define SLOTS 4096u
#define FOUND (5 * SECOND)
#define SAMPLES_AT 16384u

static struct {
	_Alignas(64) uint8_t image[SAMPLES_AT + KY_SAMPLE_BYTES_MIN];
	struct ky_ring_header *header;
	struct ky_ring_view view;
	struct ky_drain_pace pace;
} c;

static int open_ring(void **state)
{
	(void)state;
	memset(&c, 0, sizeof(c));
	c.header = (struct ky_ring_header *)(void *)c.image;
	c.header->version = KY_RING_VERSION;
	c.header->page_bytes = 4096;
	c.header->file_bytes = sizeof(c.image);
	c.header->directory_offset = 8192;
	c.header->slots_offset = 8192;
	c.header->slot_count = SLOTS;
	c.header->slot_bytes = KY_SLOT_BYTES;
	c.header->sample_offset = SAMPLES_AT;
	c.header->sample_bytes = KY_SAMPLE_BYTES_MIN;
	atomic_store(&c.header->usable_count, SLOTS);
	atomic_store(&c.header->magic, KY_RING_MAGIC);
	ky_drain_pace_begin(&c.pace, FOUND);
	return ky_ring_view_init(&c.view, c.image, sizeof(c.image));
}

static uint64_t step(uint64_t now_ns, uint64_t longest_ns)
{
	ky_drain_pace_step(&c.pace, &c.view, now_ns, longest_ns);
	return c.pace.due_ns - now_ns;
}

static void claim(uint64_t slots)
{
	atomic_fetch_add(&c.header->claim_index, slots);
}

static void pace__new_ring_is_due_at_once(void **state)
{
	(void)state;
	assert_true(ky_drain_pace_is_due(&c.pace, &c.view, FOUND));
	assert_int_equal(ky_drain_pace_rest(&c.pace, FOUND, SECOND), 0);
	/* The time was taken before the ring was found. */
	assert_int_equal(step(FOUND - MS, SECOND), 20 * MS);
}

static void pace__steps_grow_with_the_age_of_the_ring(void **state)
{
	uint64_t now_ns = FOUND, before_ns = 0;
	uint32_t steps = 0;

	(void)state;
	for (; now_ns < FOUND + SECOND; steps++) {
		uint64_t rest_ns = step(now_ns, SECOND);

		assert_in_range(rest_ns, before_ns, SECOND);
		assert_in_range(rest_ns, 20 * MS, SECOND);
		before_ns = rest_ns;
		now_ns += rest_ns;
	}
	assert_in_range(steps, 5, 12);
	assert_int_equal(step(FOUND + 60 * SECOND, SECOND), SECOND);
	assert_int_equal(step(FOUND + 61 * SECOND, 200 * MS), 200 * MS);
}

static void pace__quarter_of_the_ring_is_not_exceeded_at_the_last_rate(void **state)
{
	uint64_t now_ns = FOUND + 60 * SECOND;

	(void)state;
	step(now_ns, SECOND);
	claim(SLOTS); /* in half a second: a quarter in an eighth of one */
	now_ns += SECOND / 2;
	assert_in_range(step(now_ns, SECOND), SECOND / 8, SECOND / 8 + MS);
	/* However fast, a step is not followed by the next at once. */
	claim(1000000);
	assert_int_equal(step(now_ns + MS, SECOND), 5 * MS);
	/* Slow again. */
	claim(1);
	assert_int_equal(step(now_ns + SECOND, SECOND), SECOND);
}

static void pace__burst_after_silence_is_due_at_the_next_check(void **state)
{
	uint64_t now_ns = FOUND + 60 * SECOND;

	(void)state;
	step(now_ns, SECOND);
	assert_int_equal(ky_drain_pace_rest(&c.pace, now_ns, 100 * MS), 100 * MS);
	now_ns += 100 * MS;
	claim(SLOTS / 4);
	assert_false(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
	claim(1);
	assert_true(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
	step(now_ns, SECOND);
	assert_false(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
}

static void pace__ring_is_empty_until_a_sub_buffer_is_begun(void **state)
{
	(void)state;
	claim(3);
	assert_false(ky_drain_pace_is_empty(&c.pace, &c.view));
	step(FOUND + SECOND, SECOND);
	assert_true(ky_drain_pace_is_empty(&c.pace, &c.view));
	claim(1);
	assert_false(ky_drain_pace_is_empty(&c.pace, &c.view));
}

static void pace__step_may_be_an_eighth_of_the_rest_early(void **state)
{
	(void)state;
	assert_int_equal(ky_drain_pace_slack(&c.pace), 0); /* due at once */
	step(FOUND + 60 * SECOND, SECOND);
	assert_int_equal(ky_drain_pace_slack(&c.pace), SECOND / 8);
	c.pace.due_ns = 0;
	assert_int_equal(ky_drain_pace_slack(&c.pace), 0);
}

static void pace__burst_of_samples_is_due_too(void **state)
{
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)(c.image + SAMPLES_AT);
	uint64_t now_ns = FOUND + 60 * SECOND, offset;
	uint32_t cells = ky_sample_range(KY_SAMPLE_BYTES_MIN, 1, &offset);

	(void)state;
	step(now_ns, SECOND);
	/* The pages of the class are not there: nothing is read. */
	atomic_store(&head->classes[1].claim_index, cells);
	assert_false(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
	atomic_store(&c.header->sample_classes, 1u << 1);
	assert_true(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
	step(now_ns, SECOND);
	assert_false(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
	atomic_fetch_add(&head->classes[1].claim_index, cells / 4 + 1);
	assert_true(ky_drain_pace_is_due(&c.pace, &c.view, now_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pace__new_ring_is_due_at_once, open_ring),
		cmocka_unit_test_setup(pace__steps_grow_with_the_age_of_the_ring, open_ring),
		cmocka_unit_test_setup(pace__quarter_of_the_ring_is_not_exceeded_at_the_last_rate,
				       open_ring),
		cmocka_unit_test_setup(pace__burst_after_silence_is_due_at_the_next_check,
				       open_ring),
		cmocka_unit_test_setup(pace__burst_of_samples_is_due_too, open_ring),
		cmocka_unit_test_setup(pace__ring_is_empty_until_a_sub_buffer_is_begun, open_ring),
		cmocka_unit_test_setup(pace__step_may_be_an_eighth_of_the_rest_early, open_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
