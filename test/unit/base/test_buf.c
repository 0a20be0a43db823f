/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <base/buf.h>
#include <errno.h>
#include <kymo/base.h>

static void buf__append_keeps_all_bytes_while_it_grows(void **state)
{
	struct ky_buf buf;

	(void)state;
	ky_buf_init(&buf, 0);
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(ky_buf_append(&buf, &i, sizeof(i)), 0);
	assert_int_equal(buf.used, 40000);
	for (uint32_t i = 0; i < 10000; i++)
		assert_memory_equal(buf.bytes + 4 * i, &i, 4);
	ky_buf_clear(&buf);
	assert_int_equal(buf.used, 0);
	assert_true(buf.capacity >= 40000);
	ky_buf_release(&buf);
}

static void buf__limit_is_reached_exactly_and_sticks(void **state)
{
	struct ky_buf buf;

	(void)state;
	ky_buf_init(&buf, 1000);
	assert_int_equal(ky_buf_reserve(&buf, 1000), 0);
	assert_true(buf.capacity <= 1000);
	buf.used = 999;
	assert_int_equal(ky_buf_append(&buf, "ab", 2), KYMO_E_LIMIT);
	assert_int_equal(buf.used, 999);
	assert_int_equal(ky_buf_append(&buf, "a", 1), KYMO_E_LIMIT);
	ky_buf_clear(&buf);
	assert_int_equal(ky_buf_append(&buf, "a", 1), 0);
	assert_int_equal(ky_buf_reserve(&buf, SIZE_MAX), KYMO_E_LIMIT);
	ky_buf_release(&buf);
}

static void buf__failed_growth_keeps_the_content(void **state)
{
	struct ky_buf buf;

	(void)state;
	ky_buf_init(&buf, 0);
	assert_int_equal(ky_buf_append(&buf, "kept", 4), 0);
	test_alloc_fail_at(0);
	assert_int_equal(ky_buf_reserve(&buf, 100000), -ENOMEM);
	test_alloc_normal();
	assert_int_equal(buf.failed, -ENOMEM);
	assert_memory_equal(buf.bytes, "kept", 4);
	ky_buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf__append_keeps_all_bytes_while_it_grows),
		cmocka_unit_test(buf__limit_is_reached_exactly_and_sticks),
		cmocka_unit_test(buf__failed_growth_keeps_the_content),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
