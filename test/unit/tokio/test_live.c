/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Words of this program's read-only data and of its writable data, changed and restored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../../adapters/tokio/live.h"

/* Pointers: the loader seals them after relocation. */
static const char *const sealed[4] __attribute__((used)) = {"a", "b", "c", "d"};
static const uintptr_t never_writable[4] __attribute__((used)) = {1, 2, 3, 4};
static uintptr_t writable[2] = {5, 6};

static uintptr_t *word_of(const void *place)
{
	return (uintptr_t *)(uintptr_t)place;
}

static uintptr_t value_of(const void *place)
{
	return *(const volatile uintptr_t *)place;
}

static void live__words_are_changed_and_restored(void **state)
{
	uintptr_t sealed_before = value_of(&sealed[1]), sealed_last = value_of(&sealed[3]);

	(void)state;
	assert_true(ky_tokio_live_note(word_of(&sealed[1]), sealed_before, 101));
	assert_true(ky_tokio_live_note(word_of(&sealed[3]), sealed_last, 103));
	assert_true(ky_tokio_live_note(word_of(&never_writable[2]), 3, 102));
	assert_true(ky_tokio_live_note(&writable[0], 5, 105));
	assert_int_equal(ky_tokio_live_count(), 4);
	assert_int_equal(value_of(&sealed[1]), sealed_before);
	assert_int_equal(ky_tokio_live_apply(), 0);
	assert_int_equal(value_of(&sealed[1]), 101);
	assert_int_equal(value_of(&sealed[3]), 103);
	assert_int_equal(value_of(&never_writable[2]), 102);
	assert_int_equal(value_of(&never_writable[1]), 2);
	assert_int_equal(value_of(&writable[0]), 105);
	assert_int_equal(ky_tokio_live_restore(), 0);
	assert_int_equal(value_of(&sealed[1]), sealed_before);
	assert_int_equal(value_of(&sealed[3]), sealed_last);
	assert_int_equal(value_of(&never_writable[2]), 3);
	assert_int_equal(value_of(&writable[0]), 5);
	assert_int_equal(ky_tokio_live_count(), 0);
}

/* Code that changed a word later keeps its value. */
static void live__what_another_replaced_stays(void **state)
{
	(void)state;
	writable[0] = 5;
	writable[1] = 6;
	assert_true(ky_tokio_live_note(&writable[0], 5, 105));
	assert_true(ky_tokio_live_note(&writable[1], 7, 106));
	assert_int_equal(ky_tokio_live_apply(), 0);
	assert_int_equal(writable[0], 105);
	assert_int_equal(writable[1], 6);
	writable[0] = 205;
	assert_int_equal(ky_tokio_live_restore(), 0);
	assert_int_equal(writable[0], 205);
	assert_int_equal(writable[1], 6);
}

static void live__words_of_an_object_that_is_gone_are_left_out(void **state)
{
	uintptr_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

	(void)state;
	page[0] = 1;
	assert_true(ky_tokio_live_note(&page[0], 1, 2));
	munmap(page, 4096);
	assert_int_equal(ky_tokio_live_apply(), 0);
	assert_int_equal(ky_tokio_live_restore(), 0);
	assert_int_equal(ky_tokio_live_count(), 0);
}

static void live__no_more_words_than_there_is_room_for(void **state)
{
	static uintptr_t words[KY_TOKIO_WORDS_MAX + 1];

	(void)state;
	for (uint32_t i = 0; i < KY_TOKIO_WORDS_MAX; i++)
		assert_true(ky_tokio_live_note(&words[i], 0, 1));
	assert_false(ky_tokio_live_note(&words[KY_TOKIO_WORDS_MAX], 0, 1));
	assert_true(ky_tokio_live_note(&words[7], 0, 2)); /* known already */
	assert_true(ky_tokio_live_note(&words[8], 3, 3)); /* nothing to change */
	assert_int_equal(ky_tokio_live_count(), KY_TOKIO_WORDS_MAX);
	assert_int_equal(ky_tokio_live_restore(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live__words_are_changed_and_restored),
		cmocka_unit_test(live__what_another_replaced_stays),
		cmocka_unit_test(live__words_of_an_object_that_is_gone_are_left_out),
		cmocka_unit_test(live__no_more_words_than_there_is_room_for),
	};

	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
