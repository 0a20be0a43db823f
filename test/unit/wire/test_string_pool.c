/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <stdio.h>
#include <string.h>
#include <wire/string_pool.h>

static void string_pool__numbers_follow_first_use_until_the_reset(void **state)
{
	struct ky_string_pool pool;
	char text[32];
	uint32_t id;

	(void)state;
	assert_int_equal(ky_string_pool_init(&pool), 0);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 5000; i++) {
			size_t count = (size_t)snprintf(text, sizeof(text), "r%u-%u", round, i);

			assert_int_equal(ky_string_pool_add(&pool, 0, text, count, &id), 1);
			assert_int_equal(id, i);
		}
		for (uint32_t i = 0; i < 5000; i++) {
			size_t count = (size_t)snprintf(text, sizeof(text), "r%u-%u", round, i);

			assert_int_equal(ky_string_pool_add(&pool, i + 1, text, count, &id), 0);
			assert_int_equal(id, i);
			/* The key alone is enough now. */
			assert_int_equal(ky_string_pool_add(&pool, i + 1, NULL, 0, &id), 0);
			assert_int_equal(id, i);
		}
		ky_string_pool_reset(&pool);
	}
	ky_string_pool_release(&pool);
}

static void string_pool__lengths_and_prefixes_distinguish_texts(void **state)
{
	struct ky_string_pool pool;
	uint8_t zeros[64] = {0};
	uint32_t id;

	(void)state;
	assert_int_equal(ky_string_pool_init(&pool), 0);
	for (uint32_t i = 0; i <= sizeof(zeros); i++) {
		assert_int_equal(ky_string_pool_add(&pool, 0, zeros, i, &id), 1);
		assert_int_equal(id, i);
	}
	assert_int_equal(ky_string_pool_add(&pool, 0, NULL, 0, &id), 0);
	assert_int_equal(id, 0);
	ky_string_pool_release(&pool);
}

static void string_pool__generation_that_wraps_brings_nothing_back(void **state)
{
	struct ky_string_pool pool;
	uint32_t id;

	(void)state;
	assert_int_equal(ky_string_pool_init(&pool), 0);
	assert_int_equal(ky_string_pool_add(&pool, 9, "old", 3, &id), 1);
	pool.generation = UINT32_MAX;
	ky_string_pool_reset(&pool);
	assert_int_equal(ky_string_pool_add(&pool, 9, "new", 3, &id), 1);
	assert_int_equal(ky_string_pool_add(&pool, 0, "old", 3, &id), 1);
	assert_int_equal(id, 1);
	ky_string_pool_release(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(string_pool__numbers_follow_first_use_until_the_reset),
		cmocka_unit_test(string_pool__lengths_and_prefixes_distinguish_texts),
		cmocka_unit_test(string_pool__generation_that_wraps_brings_nothing_back),
	};

	return cmocka_run_group_tests_name("string_pool", tests, NULL, NULL);
}
