/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <base/bytes.h>

static void bytes__varint_round_trips_at_every_length(void **state)
{
	struct test_prng prng = {1};
	uint8_t bytes[KY_VARINT_BYTES_MAX];
	uint64_t seen;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t value = i < 64 ? UINT64_C(1) << i : test_random_length(&prng);
		int count = (int)(ky_varint_put(bytes, value) - bytes);

		assert_int_equal(ky_varint_get(bytes, sizeof(bytes), &seen), count);
		assert_true(seen == value);
		assert_int_equal(ky_varint_get(bytes, (size_t)count - 1, &seen), 0);
	}
}

static void bytes__varint_beyond_64_bits_is_refused(void **state)
{
	uint8_t bytes[11];
	uint64_t seen;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(ky_varint_get(bytes, sizeof(bytes), &seen), -1);
	bytes[9] = 1;
	assert_int_equal(ky_varint_get(bytes, sizeof(bytes), &seen), 10);
	assert_true(seen == UINT64_MAX);
	bytes[9] = 2;
	assert_int_equal(ky_varint_get(bytes, sizeof(bytes), &seen), -1);
	bytes[9] = 0x80;
	assert_int_equal(ky_varint_get(bytes, sizeof(bytes), &seen), -1);
}

static void bytes__numbers_lie_little_endian_and_unaligned(void **state)
{
	uint8_t bytes[16] = {0};

	(void)state;
	assert_ptr_equal(ky_put_u16(bytes + 1, 0x0201), bytes + 3);
	assert_ptr_equal(ky_put_u32(bytes + 3, 0x06050403), bytes + 7);
	assert_ptr_equal(ky_put_u64(bytes + 7, UINT64_C(0x0e0d0c0b0a090807)), bytes + 15);
	for (uint8_t i = 0; i < 15; i++)
		assert_int_equal(bytes[i], i);
	assert_int_equal(ky_get_u16(bytes + 1), 0x0201);
	assert_int_equal(ky_get_u32(bytes + 3), 0x06050403);
	assert_true(ky_get_u64(bytes + 7) == UINT64_C(0x0e0d0c0b0a090807));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes__varint_round_trips_at_every_length),
		cmocka_unit_test(bytes__varint_beyond_64_bits_is_refused),
		cmocka_unit_test(bytes__numbers_lie_little_endian_and_unaligned),
	};

	return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
