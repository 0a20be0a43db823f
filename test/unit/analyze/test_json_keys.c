/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <analyze/json_keys.h>
#include <errno.h>
#include <string.h>

static void expect(const char *const *names, const char *const *wanted, uint32_t count, int clash)
{
	struct ky_json_keys keys;
	size_t bytes;

	ky_json_keys_init(&keys);
	for (uint32_t i = 0; i < count; i++)
		ky_json_keys_add(&keys, names[i], strlen(names[i]));
	assert_int_equal(ky_json_keys_finish(&keys), clash);
	assert_int_equal(keys.count, count);
	for (uint32_t i = 0; i < count; i++) {
		const char *key = ky_json_keys_get(&keys, i, &bytes);

		assert_int_equal(bytes, strlen(wanted[i]));
		assert_memory_equal(key, wanted[i], bytes);
	}
	ky_json_keys_release(&keys);
}

static void json_keys__names_that_differ_stay(void **state)
{
	static const char *const names[] = {"b", "", "a#2", "a", "ab"};

	(void)state;
	expect(names, names, 5, 0);
	expect(names, names, 0, 0);
}

static void json_keys__each_repeated_name_gets_the_next_free_number(void **state)
{
	static const char *const names[] = {"a", "a", "a#3", "a", "a#3", "\xff", "\xfe", "a"};
	static const char *const wanted[] = {
		"a", "a#2", "a#3", "a#4", "a#3#2", "\xef\xbf\xbd", "\xef\xbf\xbd#2", "a#5"};

	(void)state;
	expect(names, wanted, 8, 1);
}

/* As many as a schema can have: this must not take the square of it. */
static void json_keys__many_equal_names_are_all_different(void **state)
{
	struct ky_json_keys keys;
	size_t bytes;

	(void)state;
	ky_json_keys_init(&keys);
	for (uint32_t i = 0; i < 65535; i++)
		ky_json_keys_add(&keys, "same", 4);
	assert_int_equal(ky_json_keys_finish(&keys), 1);
	assert_memory_equal(ky_json_keys_get(&keys, 65534, &bytes), "same#65535", 10);
	assert_int_equal(bytes, 10);
	ky_json_keys_release(&keys);
}

static void json_keys__survives_the_failure_of_any_allocation(void **state)
{
	int result = -ENOMEM;

	(void)state;
	for (uint64_t n = 0; result < 0 && n < 50; n++) {
		struct ky_json_keys keys;

		test_alloc_fail_at(n);
		ky_json_keys_init(&keys);
		for (int i = 0; i < 3; i++)
			ky_json_keys_add(&keys, "same", 4);
		result = ky_json_keys_finish(&keys);
		test_alloc_normal();
		ky_json_keys_release(&keys);
		assert_true(result == 1 || result == -ENOMEM);
	}
	assert_int_equal(result, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_keys__names_that_differ_stay),
		cmocka_unit_test(json_keys__each_repeated_name_gets_the_next_free_number),
		cmocka_unit_test(json_keys__many_equal_names_are_all_different),
		cmocka_unit_test(json_keys__survives_the_failure_of_any_allocation),
	};

	return cmocka_run_group_tests_name("json_keys", tests, NULL, NULL);
}
