/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <probe/kernel_stacks.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64u
#define SECOND_NS UINT64_C(1000000000)
#define TEXT UINT64_C(0xffffffff81000000)

static struct ky_kernel_stacks *stacks;
static struct ky_sample_class_head head;
static _Alignas(64) uint8_t slots[SLOTS * KY_SAMPLE_SLOT_BYTES];
static const struct ky_sample_ring ring = {&head, slots, SLOTS};

static int begin(void **state)
{
	(void)state;
	memset(&head, 0, sizeof(head));
	memset(slots, 0, sizeof(slots));
	stacks = calloc(1, sizeof(*stacks));
	return stacks ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	free(stacks);
	return 0;
}

static uint64_t claims(void)
{
	return KY_SAMPLE_CLAIM(atomic_load(&head.hand));
}

static void kernel_stacks__each_is_kept_once_and_has_one_number(void **state)
{
	uint64_t chain[KY_SWITCH_STACK_MAX + 5], one, other;
	const struct ky_kernel_stack *stack;

	(void)state;
	for (uint32_t i = 0; i < KY_SWITCH_STACK_MAX + 5; i++)
		chain[i] = TEXT + i * 16;
	assert_int_equal(ky_kernel_stacks_add(stacks, chain, 0), 0);
	one = ky_kernel_stacks_add(stacks, chain, 3);
	other = ky_kernel_stacks_add(stacks, chain, 4);
	assert_true(one && other && one != other);
	assert_true(one >> 47 == 0 && other >> 47 == 0);
	assert_int_equal(ky_kernel_stacks_add(stacks, chain, 3), one);
	assert_int_equal(stacks->count, 2);
	stack = ky_kernel_stacks_find(stacks, one);
	assert_non_null(stack);
	assert_int_equal(stack->count, 3);
	assert_int_equal(stack->frames[0], TEXT);
	assert_int_equal(stack->frames[2], TEXT + 31); /* inside the call that returns there */
	assert_int_equal(ky_switch_stack_number(stack->frames, 3), one);
	assert_null(ky_kernel_stacks_find(stacks, one + 1));
	assert_null(ky_kernel_stacks_find(stacks, 0));
	/* What is longer is cut at its outer end. */
	one = ky_kernel_stacks_add(stacks, chain, KY_SWITCH_STACK_MAX + 5);
	assert_int_equal(ky_kernel_stacks_find(stacks, one)->count, KY_SWITCH_STACK_MAX);
	assert_int_equal(ky_kernel_stacks_add(stacks, chain, KY_SWITCH_STACK_MAX), one);
}

static void kernel_stacks__full_table_begins_anew(void **state)
{
	uint64_t frame, number = 0;

	(void)state;
	for (uint64_t i = 0; i < 4 * KY_KERNEL_STACKS; i++) {
		frame = TEXT + i;
		number = ky_kernel_stacks_add(stacks, &frame, 1);
		assert_non_null(ky_kernel_stacks_find(stacks, number));
		assert_in_range(stacks->count, 1, KY_KERNEL_STACKS / 4 * 3);
	}
}

static void kernel_stacks__is_put_beside_its_times_now_and_then(void **state)
{
	uint64_t chain[] = {TEXT, TEXT + 16}, number = ky_kernel_stacks_add(stacks, chain, 2);
	const struct ky_sample_slot *slot = (const void *)slots;

	(void)state;
	ky_kernel_stacks_tell(stacks, &ring, 77, number, 5 * SECOND_NS);
	assert_int_equal(claims(), 1);
	assert_int_equal(slot->kind, KY_SAMPLE_KERNEL);
	assert_int_equal(slot->value, number);
	assert_int_equal(slot->frame_count, 2);
	ky_kernel_stacks_tell(stacks, &ring, 77, number, 5 * SECOND_NS + 1);
	assert_int_equal(claims(), 1);
	ky_kernel_stacks_tell(stacks, &ring, 78, number, 5 * SECOND_NS + 1); /* another's area */
	assert_int_equal(claims(), 2);
	ky_kernel_stacks_tell(stacks, &ring, 77, number, 8 * SECOND_NS); /* again, for dumps */
	assert_int_equal(claims(), 3);
	ky_kernel_stacks_tell(stacks, &ring, 77, number + 1, 9 * SECOND_NS); /* of no stack */
	ky_kernel_stacks_tell(stacks, &ring, 77, 0, 9 * SECOND_NS);
	assert_int_equal(claims(), 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kernel_stacks__each_is_kept_once_and_has_one_number),
		TEST(kernel_stacks__full_table_begins_anew),
		TEST(kernel_stacks__is_put_beside_its_times_now_and_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
