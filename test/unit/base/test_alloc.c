/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <string.h>

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

static void alloc__grown_array_keeps_what_it_has_and_new_elements_are_zero(void **state)
{
	uint32_t *list = NULL, capacity = 0;

	(void)state;
	assert_int_equal(ky_grow(&list, &capacity, 1, sizeof(*list)), 0);
	assert_int_equal(capacity, 16);
	memset(list, 0xff, capacity * sizeof(*list));
	assert_int_equal(ky_grow(&list, &capacity, 16, sizeof(*list)), 0);
	assert_int_equal(capacity, 16);
	assert_int_equal(ky_grow(&list, &capacity, 33, sizeof(*list)), 0);
	assert_int_equal(capacity, 64);
	for (uint32_t i = 0; i < capacity; i++)
		assert_int_equal(list[i], i < 16 ? UINT32_MAX : 0);
	ky_free(list);
}

static void alloc__array_that_cannot_grow_stays_as_it_was(void **state)
{
	uint32_t *list = NULL, capacity = 0, *before;

	(void)state;
	assert_int_equal(ky_grow(&list, &capacity, 1, sizeof(*list)), 0);
	before = list;
	assert_int_equal(ky_grow(&list, &capacity, UINT32_MAX, sizeof(*list)), -ENOMEM);
	test_alloc_fail_at(0);
	assert_int_equal(ky_grow(&list, &capacity, 17, sizeof(*list)), -ENOMEM);
	test_alloc_normal();
	assert_ptr_equal(list, before);
	assert_int_equal(capacity, 16);
	ky_free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc__memory_is_zeroed),
		cmocka_unit_test(alloc__hook_is_asked_with_the_size_and_refuses),
		cmocka_unit_test(alloc__grown_array_keeps_what_it_has_and_new_elements_are_zero),
		cmocka_unit_test(alloc__array_that_cannot_grow_stays_as_it_was),
	};

	return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
