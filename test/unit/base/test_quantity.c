/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/quantity.h>
#include <errno.h>

struct written {
	const char *text;
	uint64_t value;
};

static void quantity__sizes_take_either_case(void **state)
{
	static const struct written sizes[] = {
		{"0", 0},
		{"65536", 65536},
		{"64k", 65536},
		{"64K", 65536},
		{"64KiB", 65536},
		{"3m", 3u << 20},
		{"3MiB", 3u << 20},
		{"2g", UINT64_C(2) << 30},
		{"2T", UINT64_C(2) << 40},
		{"17179869183G", UINT64_C(17179869183) << 30},
		{"18446744073709551615", UINT64_MAX},
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(ky_quantity_bytes(sizes[i].text, &value), 0);
		assert_true(value == sizes[i].value);
	}
}

static void quantity__durations_have_a_unit(void **state)
{
	static const struct written durations[] = {
		{"0", 0},
		{"0.0", 0},
		{"1.5s", 1500000000},
		{"20ms", 20000000},
		{"3us", 3000},
		{"7ns", 7},
		{"2m", UINT64_C(120000000000)},
		{"1.123456789123h", UINT64_C(4044444440400)},
		{"0.0000000019s", 1},
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		assert_int_equal(ky_quantity_ns(durations[i].text, &value), 0);
		assert_true(value == durations[i].value);
	}
}

static void quantity__refuses_the_rest(void **state)
{
	static const char *const wrong[] = {"", " 1", "+1", "-1", "x", "1x", "1 ", "1K ", "1e3s"};
	static const char *const no_size[] = {"1KB", "1.5M", "1Ki", "1P", "1kk", "1s"};
	static const char *const no_duration[] = {"5", "1.5", "s", ".5s", "1.5x", "5d", "1K", "1S"};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(ky_quantity_number(wrong[i], &value), -EINVAL);
		assert_int_equal(ky_quantity_bytes(wrong[i], &value), -EINVAL);
		assert_int_equal(ky_quantity_ns(wrong[i], &value), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(no_size) / sizeof(no_size[0]); i++)
		assert_int_equal(ky_quantity_bytes(no_size[i], &value), -EINVAL);
	for (size_t i = 0; i < sizeof(no_duration) / sizeof(no_duration[0]); i++)
		assert_int_equal(ky_quantity_ns(no_duration[i], &value), -EINVAL);
}

static void quantity__overflow_is_an_error(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(ky_quantity_number("18446744073709551616", &value), -ERANGE);
	assert_int_equal(ky_quantity_bytes("18446744073709551616", &value), -ERANGE);
	assert_int_equal(ky_quantity_bytes("17179869184G", &value), -ERANGE);
	assert_int_equal(ky_quantity_ns("99999999999999999999s", &value), -ERANGE);
	assert_int_equal(ky_quantity_ns("18446744073709551615h", &value), -ERANGE);
}

static void quantity__bounds_are_part_of_it(void **state)
{
	uint64_t value;

	(void)state;
	assert_true(ky_quantity_in(ky_quantity_bytes, "1K", 1024, 2048, &value));
	assert_false(ky_quantity_in(ky_quantity_bytes, "1023", 1024, 2048, &value));
	assert_false(ky_quantity_in(ky_quantity_bytes, "3K", 1024, 2048, &value));
	assert_false(ky_quantity_in(ky_quantity_bytes, "off", 0, 2048, &value));
	assert_true(ky_quantity_or_off(ky_quantity_bytes, "off", 1024, 2048, &value));
	assert_true(value == 0);
	assert_true(ky_quantity_or_off(ky_quantity_ns, "1us", 1, 2048, &value));
	assert_true(value == 1000);
	assert_false(ky_quantity_or_off(ky_quantity_ns, "Off", 0, 2048, &value));
}

static void quantity__texts_are_exact_and_read_back(void **state)
{
	static const struct written durations[] = {
		{"0ns", 0},
		{"999ns", 999},
		{"1us", 1000},
		{"1.5ms", 1500000},
		{"1.050007ms", 1050007},
		{"59s", UINT64_C(59000000000)},
		{"1m", UINT64_C(60000000000)},
		{"90s", UINT64_C(90000000000)},
		{"90.5s", UINT64_C(90500000000)},
		{"1h", UINT64_C(3600000000000)},
		{"61m", UINT64_C(3660000000000)},
	};
	static const struct written sizes[] = {
		{"0", 0},         {"1000", 1000},        {"64K", 65536},
		{"65537", 65537}, {"1025K", 1025 << 10}, {"3T", UINT64_C(3) << 40},
	};
	char text[KY_QUANTITY_TEXT_BYTES];
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		assert_string_equal(ky_quantity_ns_text(text, durations[i].value),
				    durations[i].text);
		assert_int_equal(ky_quantity_ns(text, &value), 0);
		assert_true(value == durations[i].value);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_string_equal(ky_quantity_bytes_text(text, sizes[i].value), sizes[i].text);
		assert_int_equal(ky_quantity_bytes(text, &value), 0);
		assert_true(value == sizes[i].value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantity__sizes_take_either_case),
		cmocka_unit_test(quantity__durations_have_a_unit),
		cmocka_unit_test(quantity__refuses_the_rest),
		cmocka_unit_test(quantity__overflow_is_an_error),
		cmocka_unit_test(quantity__bounds_are_part_of_it),
		cmocka_unit_test(quantity__texts_are_exact_and_read_back),
	};

	return cmocka_run_group_tests_name("quantity", tests, NULL, NULL);
}
