/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

static void alloc__memory_is_zeroed(void **state)
{
	uint8_t *memory = ky_alloc(100);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(memory[i], 0);
	ky_free(memory);
}

static void alloc__hook_is_asked_with_the_size_and_refuses(void **state)
{
	void *memory, *same;

	(void)state;
	test_alloc_fail_at(1);
	memory = ky_alloc(10);
	assert_non_null(memory);
	assert_int_equal(test_alloc_bytes, 10);
	assert_null(ky_alloc(20));
	same = ky_realloc(memory, 30);
	test_alloc_normal();
	assert_null(same);
	ky_free(memory);
	ky_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc__memory_is_zeroed),
		cmocka_unit_test(alloc__hook_is_asked_with_the_size_and_refuses),
	};

	return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
