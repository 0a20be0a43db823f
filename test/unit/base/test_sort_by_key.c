/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/sort_by_key.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5000u

struct record {
	uint64_t key;
	uint64_t number; /* as they came */
	uint64_t copy;
};

static struct record records[COUNT];

static uint64_t random_word(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 11;
}

static void check(uint64_t from, uint64_t mask, size_t count)
{
	uint64_t state = 7;

	for (size_t i = 0; i < count; i++) {
		uint64_t key = from + ((random_word(&state) << 20 ^ random_word(&state)) & mask);

		records[i] = (struct record){key, i, ~key};
	}
	assert_true(ky_sort_by_key(records, count, sizeof(records[0])));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(records[i].copy, ~records[i].key);
		if (i == 0)
			continue;
		assert_true(records[i - 1].key <= records[i].key);
		if (records[i - 1].key == records[i].key)
			assert_true(records[i - 1].number < records[i].number);
	}
}

static void sort__orders_by_key_and_leaves_equal_ones_as_they_came(void **state)
{
	(void)state;
	check(0, 0, 1);
	check(5, 0, COUNT); /* all are equal */
	check(0, 1, COUNT);
	check(0x400000, 0xfff, COUNT);
	check(UINT64_C(0xffffffff81000000), 0xffffff, COUNT);
	check(0, UINT64_MAX, COUNT);
	check(0, UINT64_MAX, 2);
}

static void sort__of_nothing_is_nothing(void **state)
{
	(void)state;
	assert_true(ky_sort_by_key(records, 0, sizeof(records[0])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sort__orders_by_key_and_leaves_equal_ones_as_they_came),
		cmocka_unit_test(sort__of_nothing_is_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
