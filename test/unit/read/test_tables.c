/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* id_map, names, sort and text: what the tables of a trace stand on. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include <base/alloc.h>
#include <read/id_map.h>
#include <read/names.h>
#include <read/sort.h>
#include <base/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t id_of(uint64_t i)
{
	switch (i % 3) {
	case 0:
		return i;
	case 1:
		return KY_ID_MAP_SMALL_MAX - 1 + i;
	default:
		return UINT64_MAX - i * UINT64_C(0x10000000001);
	}
}

static void id_map__finds_small_and_large_ids(void **state)
{
	struct ky_pages pages;
	struct ky_id_map map;
	uint64_t i;

	(void)state;
	ky_pages_init(&pages, UINT64_MAX);
	ky_id_map_init(&map, &pages);
	assert_int_equal(ky_id_map_find(&map, 5), UINT32_MAX);
	assert_int_equal(ky_id_map_find(&map, UINT64_MAX), UINT32_MAX);
	for (i = 0; i < 30000; i++) {
		uint32_t *slot = ky_id_map_slot(&map, id_of(i));

		assert_non_null(slot);
		assert_int_equal(*slot, 0);
		*slot = (uint32_t)i + 1;
	}
	for (i = 0; i < 30000; i++)
		assert_int_equal(ky_id_map_find(&map, id_of(i)), i);
	assert_int_equal(ky_id_map_find(&map, 1), UINT32_MAX);
	ky_id_map_release(&map);
	assert_int_equal(pages.bytes_used, 0);
	ky_pages_release(&pages);
}

static void names__keep_each_text_once(void **state)
{
	struct ky_pages pages;
	struct ky_names names;
	char *huge = malloc(200000), text[32];
	uint32_t i;

	(void)state;
	assert_non_null(huge);
	memset(huge, 'x', 200000);
	ky_pages_init(&pages, UINT64_MAX);
	ky_names_init(&names, &pages);
	for (i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "name %u", i);
		assert_int_equal(ky_names_intern(&names, text, strlen(text)), i);
	}
	assert_int_equal(ky_names_intern(&names, "name 77", 7), 77);
	assert_int_equal(ky_names_find(&names, "name 4999", 9), 4999);
	assert_int_equal(ky_names_find(&names, "name 5000", 9), UINT32_MAX);
	assert_string_equal(names.names[77].text, "name 77");
	assert_int_equal(ky_names_intern(&names, "", 0), 5000);
	i = ky_names_intern(&names, huge, 200000);
	assert_int_equal(names.names[i].bytes, 65535);
	assert_int_equal(strlen(names.names[i].text), 65535);
	ky_names_release(&names);
	assert_int_equal(pages.bytes_used, 0);
	ky_pages_release(&pages);
	free(huge);
}

static bool is_smaller(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint64_t *)a < *(const uint64_t *)b;
}

static void sort__orders_any_length(void **state)
{
	struct test_prng prng = {3};
	static uint64_t numbers[300][9];
	size_t count, i;

	(void)state;
	for (count = 0; count < 300; count += 1 + count / 8) {
		for (i = 0; i < count; i++) {
			numbers[i][0] = test_below(&prng, 100);
			numbers[i][8] = numbers[i][0] * 3;
		}
		ky_sort(numbers, count, sizeof(numbers[0]), is_smaller, NULL);
		for (i = 0; i < count; i++) {
			assert_true(i == 0 || numbers[i - 1][0] <= numbers[i][0]);
			assert_int_equal(numbers[i][8], numbers[i][0] * 3);
		}
	}
}

static void text__writes_numbers_and_cuts_sentences(void **state)
{
	struct ky_buf buf;
	char out[12];

	(void)state;
	ky_buf_init(&buf, 0);
	ky_text_u64(&buf, UINT64_MAX);
	ky_text(&buf, "|");
	ky_text_u64(&buf, 0);
	ky_buf_append(&buf, "", 1);
	assert_string_equal((const char *)buf.bytes, "18446744073709551615|0");
	ky_text_copy(out, sizeof(out), &buf);
	assert_string_equal(out, "18446744073");
	ky_buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(id_map__finds_small_and_large_ids),
		cmocka_unit_test(names__keep_each_text_once),
		cmocka_unit_test(sort__orders_any_length),
		cmocka_unit_test(text__writes_numbers_and_cuts_sentences),
	};

	return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
