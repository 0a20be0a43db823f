/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <base/byte_source.h>
#include <errno.h>

static void byte_source__memory_is_read_in_pieces_and_again(void **state)
{
	struct ky_byte_source source;
	uint8_t out[8];

	(void)state;
	assert_int_equal(ky_byte_source_memory(&source, "0123456789", 10, "ten"), 0);
	assert_string_equal(source.name, "ten");
	assert_string_equal(source.container, "raw");
	assert_int_equal(source.stored_bytes, 10);
	assert_int_equal(source.read(source.ctx, out, 8), 8);
	assert_int_equal(source.read(source.ctx, out, 8), 2);
	assert_memory_equal(out, "89", 2);
	assert_int_equal(source.read(source.ctx, out, 8), 0);
	assert_int_equal(source.seek(source.ctx, 4), 0);
	assert_int_equal(source.read(source.ctx, out, 1), 1);
	assert_int_equal(out[0], '4');
	assert_int_equal(source.seek(source.ctx, 10), 0);
	assert_int_equal(source.read(source.ctx, out, 8), 0);
	assert_int_equal(source.seek(source.ctx, 11), -EINVAL);
	source.close(source.ctx);
}

static void byte_source__open_without_memory_fails_cleanly(void **state)
{
	struct ky_byte_source source;

	(void)state;
	test_alloc_fail_at(0);
	assert_int_equal(ky_byte_source_memory(&source, "", 0, "none"), -ENOMEM);
	test_alloc_normal();
	assert_null(source.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(byte_source__memory_is_read_in_pieces_and_again),
		cmocka_unit_test(byte_source__open_without_memory_fails_cleanly),
	};

	return cmocka_run_group_tests_name("byte_source", tests, NULL, NULL);
}
