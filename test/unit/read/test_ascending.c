/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ascending: against counting one by one. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include <read/ascending.h>

#define VALUES 40u

static void compare(const uint64_t *values, uint32_t count, uint64_t value)
{
	uint32_t below = 0, up_to = 0;

	for (uint32_t i = 0; i < count; i++) {
		below += values[i] < value;
		up_to += values[i] <= value;
	}
	assert_int_equal(ky_ascending_below(values, count, value), below);
	assert_int_equal(ky_ascending_up_to(values, count, value), up_to);
}

static void ascending__counts_as_one_by_one(void **state)
{
	static const uint64_t edges[] = {0, 1, UINT64_MAX - 1, UINT64_MAX};
	struct test_prng prng = {8};
	uint64_t values[VALUES];

	(void)state;
	for (uint32_t count = 0; count <= VALUES; count++) {
		for (uint32_t i = 0; i < count; i++)
			values[i] = i % 5 == 4 ? edges[i / 5 % 4] : test_below(&prng, 20);
		ky_ascending_sort(values, count);
		for (uint32_t i = 1; i < count; i++)
			assert_true(values[i - 1] <= values[i]);
		for (uint64_t value = 0; value < 22; value++)
			compare(values, count, value);
		for (uint32_t i = 0; i < 4; i++)
			compare(values, count, edges[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ascending__counts_as_one_by_one),
	};

	return cmocka_run_group_tests_name("ascending", tests, NULL, NULL);
}
