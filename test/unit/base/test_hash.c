/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/hash.h>

/* Vectors of the authors of FNV. */
static void hash__bytes_give_the_published_values(void **state)
{
	(void)state;
	assert_true(ky_hash_bytes(KY_HASH_START, "", 0) == KY_HASH_START);
	assert_true(ky_hash_bytes(KY_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(ky_hash_bytes(KY_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void hash__bytes_in_two_pieces_are_as_one(void **state)
{
	uint64_t hash = ky_hash_bytes(KY_HASH_START, "foo", 3);

	(void)state;
	assert_true(ky_hash_bytes(hash, "bar", 3) == ky_hash_bytes(KY_HASH_START, "foobar", 6));
}

static void hash__neighbouring_numbers_differ_in_high_and_low_bits(void **state)
{
	(void)state;
	for (uint64_t number = 0; number < 1000; number++) {
		uint64_t changed = ky_hash_number(number) ^ ky_hash_number(number + 1);

		assert_true(changed >> 48 != 0);
		assert_true((changed & 0xffff) != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash__bytes_give_the_published_values),
		cmocka_unit_test(hash__bytes_in_two_pieces_are_as_one),
		cmocka_unit_test(hash__neighbouring_numbers_differ_in_high_and_low_bits),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
