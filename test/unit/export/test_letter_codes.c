/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Read back by zlib. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <export/letter_codes.h>
#include <string.h>
#include <zlib.h>

#define BYTES_MAX (1u << 20)

static uint8_t bytes[BYTES_MAX], back[BYTES_MAX + 1];

static size_t check(size_t count)
{
	struct ky_buf out;
	uLongf back_bytes = sizeof(back);
	size_t used;

	ky_buf_init(&out, 0);
	(void)ky_buf_append(&out, "before", 6);
	ky_letter_codes_put(&out, bytes, count);
	assert_int_equal(out.failed, 0);
	assert_memory_equal(out.bytes, "before", 6);
	used = out.used - 6;
	assert_int_equal(uncompress(back, &back_bytes, out.bytes + 6, used), Z_OK);
	assert_int_equal(back_bytes, count);
	assert_memory_equal(back, bytes, count);
	ky_buf_release(&out);
	return used;
}

static void put__gives_what_zlib_reads(void **state)
{
	struct test_prng prng = {7};

	(void)state;
	(void)check(0);
	for (size_t count = 1; count < 70; count++) {
		memset(bytes, (int)count, count);
		(void)check(count);
	}
	for (size_t i = 0; i < BYTES_MAX; i++)
		bytes[i] = (uint8_t)test_random(&prng);
	(void)check(256);
	(void)check(BYTES_MAX); /* no byte is rare: longer than it was */
	for (int few = 2; few < 40; few++) {
		for (size_t i = 0; i < 5000; i++)
			bytes[i] = (uint8_t)test_below(&prng, (uint32_t)few);
		assert_true(check(5000) < 5000);
	}
}

/* Each letter as often as the two before together: codes as long as there are letters, without the
 * limit of 15 bits. */
static void put__limits_the_length_of_codes(void **state)
{
	size_t count = 0, often = 1, before = 1;

	(void)state;
	for (uint8_t letter = 0; count + often < BYTES_MAX; letter++) {
		size_t next = often + before;

		memset(bytes + count, letter, often);
		count += often;
		before = often;
		often = next;
	}
	assert_true(check(count) < count / 2);
}

static void put__without_memory_appends_nothing(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 64);
	ky_letter_codes_put(&out, bytes, 1000);
	assert_int_not_equal(out.failed, 0);
	assert_int_equal(out.used, 0);
	ky_buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__gives_what_zlib_reads),
		cmocka_unit_test(put__limits_the_length_of_codes),
		cmocka_unit_test(put__without_memory_appends_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
