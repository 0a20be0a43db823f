/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names, strings, metadata and modules in the ring's directory. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *payload(const struct ky_entry *entry)
{
	return (const char *)(entry + 1);
}

static void intern__equal_texts_have_equal_ids(void **state)
{
	struct test_recorder test;
	uint32_t a, b;

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	a = kymo_string_intern("one", 3);
	b = kymo_string_intern("two", 3);
	assert_int_not_equal(a, 0);
	assert_int_not_equal(a, b);
	assert_int_equal(kymo_string_intern("one", 3), a);
	assert_int_equal(kymo_string_intern("one and more", 3), a);
	test_recorder_read(&test);
	assert_int_equal(test_ring_entry(&test.ring, KY_ENTRY_STRING, 0)->payload_bytes, 3);
	assert_memory_equal(payload(test_ring_entry(&test.ring, KY_ENTRY_STRING, 1)), "two", 3);
	assert_null(test_ring_entry(&test.ring, KY_ENTRY_STRING, 2));
	test_recorder_close(&test);
}

static void intern__names_differ_by_code_and_copy(void **state)
{
	struct test_recorder test;
	uint32_t a, b, c;

	(void)state;
	test_recorder_open(&test, 0, 0);
	a = kymo_name_intern(NULL, 0, 1000, 2000, 0);
	b = kymo_name_intern(NULL, 0, 1000, 2000, 1);
	c = kymo_name_intern("text", 4, 1000, 2000, 0);
	assert_true(a && b && c && a != b && b != c && a != c);
	assert_int_equal(kymo_name_intern(NULL, 0, 1000, 2000, 0), a);
	assert_true(c < 1u << KYMO_NAME_BITS);
	test_recorder_close(&test);
}

static void intern__before_the_ring_exists_is_kept_for_it(void **state)
{
	struct test_recorder test;
	const struct ky_entry *entry;
	struct ky_entry_name fixed;

	(void)state;
	test_recorder_open(&test, 0, 0);
	assert_int_equal(kymo_name_intern("early", 5, 0, 0, 0), 1);
	kymo_mark(1);
	test_recorder_read(&test);
	entry = test_ring_entry(&test.ring, KY_ENTRY_NAME, 0);
	assert_non_null(entry);
	memcpy(&fixed, entry + 1, sizeof(fixed));
	assert_int_equal(fixed.text_bytes, 5);
	assert_memory_equal(payload(entry) + sizeof(fixed), "early", 5);
	test_recorder_close(&test);
}

static void intern__long_texts_are_cut_between_characters(void **state)
{
	struct test_recorder test;
	const struct ky_entry *entry;
	char text[3000];
	uint32_t a, b;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text + 1022, "\xe2\x82\xac", 3); /* a euro sign across byte 1,024 */
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	a = kymo_string_intern(text, sizeof(text));
	text[2999] = 'y';
	b = kymo_string_intern(text, sizeof(text));
	assert_int_not_equal(a, b);
	test_recorder_read(&test);
	entry = test_ring_entry(&test.ring, KY_ENTRY_STRING, 0);
	assert_int_equal(entry->payload_bytes, 1022);
	assert_int_equal(entry->flags & 1, 1);
	assert_int_not_equal(entry->hash, test_ring_entry(&test.ring, KY_ENTRY_STRING, 1)->hash);
	test_recorder_close(&test);
}

static void intern__overflow_is_refused_and_counted(void **state)
{
	struct test_recorder test;
	uint32_t good = 0, refused = 0;
	char text[64];

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	for (int i = 0; i < 40000; i++) {
		int count = snprintf(text, sizeof(text), "a name of ordinary length %d", i);

		if (kymo_string_intern(text, (size_t)count))
			good++;
		else
			refused++;
	}
	assert_true(good > 15000);
	assert_true(refused > 0);
	test_recorder_read(&test);
	assert_int_equal(test.ring.header->directory_overflow_count, refused);
	assert_true(test.ring.header->directory_used <= test.ring.header->directory_bytes);
	assert_int_equal(kymo_string_intern("a name of ordinary length 0", 27), 1);
	test_recorder_close(&test);
}

static void intern__without_a_recorder_gives_zero(void **state)
{
	(void)state;
	assert_int_equal(kymo_string_intern("x", 1), 0);
	assert_int_equal(kymo_name_intern("x", 1, 0, 0, 0), 0);
	assert_int_equal(kymo_metadata_set("a", "b"), KYMO_E_CLOSED);
	kymo_runtime_describe(1, "x", 0, 0);
	kymo_modules_refresh();
	kymo_recorder_gates(1, 0);
	assert_int_equal(kymo_control.gates, 0);
}

static void metadata__reserved_empty_and_long_texts_are_refused(void **state)
{
	struct test_recorder test;
	char text[2000];

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	memset(text, 'k', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(kymo_metadata_set("pid", "1"), -EINVAL);
	assert_int_equal(kymo_metadata_set("", "1"), -EINVAL);
	assert_int_equal(kymo_metadata_set(NULL, "1"), -EINVAL);
	assert_int_equal(kymo_metadata_set(text, "1"), -EINVAL);
	assert_int_equal(kymo_metadata_set("key", text), -EINVAL);
	assert_int_equal(kymo_metadata_set("key", "value"), 0);
	test_recorder_read(&test);
	assert_memory_equal(payload(test_ring_entry(&test.ring, KY_ENTRY_METADATA, 0)),
			    "\3\0\0\0keyvalue", 12);
	test_recorder_close(&test);
}

static void metadata__the_last_value_of_a_key_stands_last(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	assert_int_equal(kymo_metadata_set("k", "1"), 0);
	assert_int_equal(kymo_metadata_set("k", "2"), 0);
	assert_int_equal(kymo_metadata_set("k", "1"), 0);
	test_recorder_read(&test);
	assert_memory_equal(payload(test_ring_entry(&test.ring, KY_ENTRY_METADATA, 2)),
			    "\1\0\0\0k1", 6);
	test_recorder_close(&test);
}

static int find_self(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	(void)bytes;
	*(uint64_t *)ctx = info->dlpi_addr;
	return 1;
}

static void modules__cover_this_very_code(void **state)
{
	uint64_t here = (uint64_t)(uintptr_t)find_self, bias = 1;
	struct test_recorder test;
	const struct ky_entry *entry;
	struct ky_entry_module module;
	bool is_found = false;
	char self[400];
	ssize_t count = readlink("/proc/self/exe", self, sizeof(self));

	(void)state;
	assert_true(count > 0);
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	test_recorder_read(&test);
	dl_iterate_phdr(find_self, &bias);
	for (size_t i = 0; (entry = test_ring_entry(&test.ring, KY_ENTRY_MODULE, i)); i++) {
		memcpy(&module, entry + 1, sizeof(module));
		if (here < module.start || here >= module.end)
			continue;
		is_found = true;
		assert_int_equal(module.load_bias, bias);
		assert_int_equal(module.path_bytes, count);
		assert_memory_equal(payload(entry) + entry->payload_bytes - count, self,
				    (size_t)count);
	}
	assert_true(is_found);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intern__equal_texts_have_equal_ids),
		cmocka_unit_test(intern__names_differ_by_code_and_copy),
		cmocka_unit_test(intern__before_the_ring_exists_is_kept_for_it),
		cmocka_unit_test(intern__long_texts_are_cut_between_characters),
		cmocka_unit_test(intern__overflow_is_refused_and_counted),
		cmocka_unit_test(intern__without_a_recorder_gives_zero),
		cmocka_unit_test(metadata__reserved_empty_and_long_texts_are_refused),
		cmocka_unit_test(metadata__the_last_value_of_a_key_stands_last),
		cmocka_unit_test(modules__cover_this_very_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
