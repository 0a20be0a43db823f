/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a thread remembers of chains by itself, on stacks that are arrays. */
#include "../../lib/cmocka_all.h"

#include <pthread.h>
#include <record/sample/chain_memo.h>
#include <string.h>

#define STACK_WORDS 64u
#define PC UINT64_C(0x5555000)
#define NUMBER 77u

static struct ky_place_head head, other_head; /* of which the address counts alone */
static _Atomic uint64_t tables;
static _Alignas(1024) uint64_t stack[STACK_WORDS];
static struct kymo_stack_start start;

static uint64_t end_of_stack(void)
{
	return (uint64_t)(uintptr_t)(stack + STACK_WORDS);
}

static int setup(void **state)
{
	(void)state;
	ky_chain_memo_thread_end();
	atomic_store(&tables, UINT64_C(5) << 32 | 3);
	for (uint32_t i = 0; i < STACK_WORDS; i++)
		stack[i] = 0x7000000 + i;
	start = (struct kymo_stack_start){
		.pc = PC, .sp = (uint64_t)(uintptr_t)stack, .fp = 11, .second = 12};
	return 0;
}

/* Of `count` words, each third of the stack. */
static struct ky_memo_item item_of(uint32_t count)
{
	struct ky_memo_item item = {.head = &head,
				    .tables = &tables,
				    .changes = atomic_load(&tables) >> 32,
				    .start = &start,
				    .until_sp = end_of_stack(),
				    .is = {.stack = NUMBER},
				    .count = count};

	for (uint32_t i = 0; i < count && i < KY_MEMO_WORDS_MAX; i++)
		item.at[i] = (uint16_t)(3 * i % STACK_WORDS);
	return item;
}

static const struct ky_memo_chain *find_for(const struct ky_place_head *of)
{
	return ky_chain_memo_find(of, &start, end_of_stack());
}

static bool is_known(void)
{
	const struct ky_memo_chain *chain = find_for(&head);

	return chain && chain->is.stack == NUMBER && !chain->is.is_truncated;
}

static void keep(uint32_t count)
{
	const struct ky_memo_item item = item_of(count);

	ky_chain_memo_keep(&item);
}

static void chain__is_known_while_each_of_its_words_is_the_same(void **state)
{
	(void)state;
	for (uint32_t count = 0; count <= KY_MEMO_WORDS_MAX; count++) {
		const struct ky_memo_item item = item_of(count);

		ky_chain_memo_thread_end(); /* each finds its way free */
		assert_false(is_known());
		ky_chain_memo_keep(&item);
		assert_true(is_known());
		for (uint32_t i = 0; i < STACK_WORDS; i++) {
			bool is_word = false;

			for (uint32_t k = 0; k < count; k++)
				is_word |= item.at[k] == i;
			stack[i] ^= UINT64_C(1) << i;
			assert_int_equal(is_known(), !is_word);
			stack[i] ^= UINT64_C(1) << i;
		}
		assert_true(is_known());
	}
}

static void chain__of_more_words_than_there_is_room_for_is_not_kept(void **state)
{
	(void)state;
	keep(KY_MEMO_WORDS_MAX + 1);
	assert_false(is_known());
}

static void chain__is_of_one_place_of_code_and_of_the_stack(void **state)
{
	const struct kymo_stack_start was = start;

	(void)state;
	keep(4);
	start.pc++;
	assert_false(is_known());
	start = was;
	start.sp += 16;
	assert_false(is_known());
	start = was;
	assert_null(ky_chain_memo_find(&head, &start, end_of_stack() - 8));
	assert_true(is_known());
}

static void chain__that_was_left_by_a_register_is_not_known_by_another_value(void **state)
{
	struct ky_memo_item item = item_of(4);

	(void)state;
	keep(4);
	start.fp++;
	start.second++;
	assert_true(is_known()); /* neither counts */
	item.has_fp = true;
	start.pc++;
	ky_chain_memo_keep(&item);
	start.second++;
	assert_true(is_known());
	start.fp++;
	assert_false(is_known());
	item.has_fp = false;
	item.has_second = true;
	start.pc++;
	ky_chain_memo_keep(&item);
	start.fp++;
	assert_true(is_known());
	start.second++;
	assert_false(is_known());
}

static void chains__of_one_place_are_told_apart(void **state)
{
	(void)state;
	keep(4);
	stack[0]++;
	assert_false(is_known());
	keep(4);
	assert_true(is_known());
	stack[0]--;
	assert_true(is_known());
}

static void chains__are_forgotten_with_their_tables(void **state)
{
	(void)state;
	keep(4);
	assert_null(find_for(&other_head));
	atomic_fetch_add(&tables, UINT64_C(1) << 32);
	assert_false(is_known());
	start.pc++;
	keep(4);
	assert_true(is_known());
	start.pc--;
	assert_false(is_known());
	atomic_store(&tables, 0); /* as the memory of a ring that is closed */
	assert_false(is_known());
	keep(4);
	assert_false(is_known());
}

static void chains__of_a_busy_place_are_replaced_in_time(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		keep(4);
		stack[0]++;
	}
	for (uint32_t i = 0; i < 100 && !is_known(); i++)
		keep(4);
	assert_true(is_known());
}

/* What a handler finds that comes in the middle of a comparison. */
static void memo__in_use_neither_says_nor_keeps_anything(void **state)
{
	uintptr_t was;

	(void)state;
	keep(4);
	was = ky_chain_memo_self->head;
	ky_chain_memo_self->head = KY_MEMO_IN_USE;
	assert_false(is_known());
	start.pc++;
	keep(4);
	assert_int_equal(ky_chain_memo_self->head, KY_MEMO_IN_USE);
	ky_chain_memo_self->head = was;
	assert_false(is_known());
	start.pc--;
	assert_true(is_known());
}

static void *keep_and_end(void *ctx)
{
	bool *is_kept = ctx;

	keep(4);
	*is_kept = is_known();
	ky_chain_memo_thread_end();
	return NULL;
}

static void memo__is_given_back_by_threads_that_end(void **state)
{
	pthread_t thread;
	bool is_kept;

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		assert_int_equal(pthread_create(&thread, NULL, keep_and_end, &is_kept), 0);
		pthread_join(thread, NULL);
		assert_true(is_kept);
	}
	keep(4);
	assert_true(is_known());
	ky_chain_memo_thread_end();
	assert_false(is_known());
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(chain__is_known_while_each_of_its_words_is_the_same),
		CASE(chain__of_more_words_than_there_is_room_for_is_not_kept),
		CASE(chain__is_of_one_place_of_code_and_of_the_stack),
		CASE(chain__that_was_left_by_a_register_is_not_known_by_another_value),
		CASE(chains__of_one_place_are_told_apart),
		CASE(chains__are_forgotten_with_their_tables),
		CASE(chains__of_a_busy_place_are_replaced_in_time),
		CASE(memo__in_use_neither_says_nor_keeps_anything),
		CASE(memo__is_given_back_by_threads_that_end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
