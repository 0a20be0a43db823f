/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <symbol/symbol_list.h>
#include <stdio.h>
#include <string.h>

static const char *name_at(const struct ky_symbol_list *list, uint64_t address)
{
	static char text[600];
	const char *name;
	const struct ky_listed_symbol *symbol = ky_symbol_list_find(list, address, &name);

	if (!symbol)
		return "";
	memcpy(text, name, symbol->name_bytes);
	text[symbol->name_bytes] = '\0';
	return text;
}

static void symbol_list__the_kernels_code_is_found_by_address(void **state)
{
	static const char text[] = "ffffffff81000200 t second [ext4]\n"
				   "ffffffff81000100 T first\n"
				   "ffffffff81000180 D data\n"
				   "not a line\n"
				   "ffffffff81000300 W last\t[mod]";
	struct ky_symbol_list list;

	(void)state;
	ky_symbol_list_init(&list);
	assert_int_equal(ky_symbol_list_kallsyms(&list, text, sizeof(text) - 1), 0);
	ky_symbol_list_finish(&list);
	assert_int_equal(list.count, 3);
	assert_false(list.is_hidden);
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff810000ff)), "");
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff81000100)), "first");
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff810001ff)), "first");
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff81000200)), "second");
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff81000310)), "last");
	/* Far beyond the last one lies something that is in no list. */
	assert_string_equal(name_at(&list, UINT64_C(0xffffffff91000000)), "");
	ky_symbol_list_release(&list);
}

static void symbol_list__hidden_addresses_are_reported(void **state)
{
	static const char text[] = "0000000000000000 T _stext\n0000000000000000 t x\n";
	struct ky_symbol_list list;

	(void)state;
	ky_symbol_list_init(&list);
	assert_int_equal(ky_symbol_list_kallsyms(&list, text, sizeof(text) - 1), 0);
	assert_int_equal(ky_symbol_list_kallsyms(&list, text, 0),
			 0); /* in pieces, the last empty */
	ky_symbol_list_finish(&list);
	assert_true(list.is_hidden);
	assert_string_equal(name_at(&list, 0), "");
	ky_symbol_list_release(&list);
}

#define WANTED 40u

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

/* A text in nearly the order of kallsyms, with aliases, names of all lengths and pieces. */
static size_t make_kallsyms(char *text, size_t capacity, uint64_t *random)
{
	size_t used = 0;

	for (int i = 0; i < 300; i++) {
		uint64_t address = 0x1000 + (uint64_t)i * 16 + next_random(random) % 3 * 16;
		int letters = (int)(next_random(random) % (i % 50 ? 40 : 600));

		used += (size_t)snprintf(text + used, capacity - used, "%lx %c s%d_%0*d\n",
					 (unsigned long)(i % 37 ? address : 0x9000 - address),
					 i % 9 ? 't' : 'D', i, letters, 7);
	}
	return used;
}

static void symbol_list__what_is_wanted_is_as_in_a_whole_list(void **state)
{
	static char text[100000];
	uint64_t random = 5;

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t used = make_kallsyms(text, sizeof(text), &random), half;
		struct ky_symbol_list whole, some;
		uint64_t wanted[WANTED];
		uint32_t count = (uint32_t)(next_random(&random) % (WANTED + 1));

		for (uint32_t i = 0; i < count; i++)
			wanted[i] = (i ? wanted[i - 1] : 0xf80) + 1 + next_random(&random) % 400;
		half = (size_t)(strchr(text + used / 2, '\n') - text) + 1;
		ky_symbol_list_init(&whole);
		ky_symbol_list_init(&some);
		assert_int_equal(ky_symbol_list_want(&some, wanted, count), 0);
		assert_int_equal(ky_symbol_list_kallsyms(&whole, text, used), 0);
		assert_int_equal(ky_symbol_list_kallsyms(&some, text, half), 0);
		assert_int_equal(ky_symbol_list_kallsyms(&some, text + half, used - half), 0);
		ky_symbol_list_finish(&whole);
		ky_symbol_list_finish(&some);
		assert_true(some.has_code && some.count <= count + 1);
		for (uint32_t i = 0; i < count; i++) {
			const char *name, *other;
			const struct ky_listed_symbol *a, *b;

			a = ky_symbol_list_find(&whole, wanted[i], &name);
			b = ky_symbol_list_find(&some, wanted[i], &other);
			assert_int_equal(!a, !b);
			if (!a)
				continue;
			assert_int_equal(a->address, b->address);
			assert_int_equal(a->byte_count, b->byte_count);
			assert_int_equal(a->name_bytes, b->name_bytes);
			assert_memory_equal(name, other, a->name_bytes);
		}
		ky_symbol_list_release(&whole);
		ky_symbol_list_release(&some);
	}
}

static void symbol_list__hidden_addresses_are_reported_of_what_is_wanted(void **state)
{
	static const char text[] = "0000000000000000 T _stext\n", real[] = "1000 T _stext\n";
	static const uint64_t wanted[] = {0x10};
	struct ky_symbol_list list;

	(void)state;
	ky_symbol_list_init(&list);
	assert_int_equal(ky_symbol_list_want(&list, wanted, 1), 0);
	assert_int_equal(ky_symbol_list_kallsyms(&list, text, sizeof(text) - 1), 0);
	assert_true(list.is_hidden && !list.has_code);
	assert_int_equal(ky_symbol_list_kallsyms(&list, real, sizeof(real) - 1), 0);
	assert_true(!list.is_hidden && list.has_code); /* it is not one that is wanted */
	ky_symbol_list_finish(&list);
	assert_string_equal(name_at(&list, 0x10), "");
	ky_symbol_list_release(&list);
}

static void symbol_list__a_perf_map_has_sizes_and_names_with_blanks(void **state)
{
	static const char text[] = "3ef414c0 40 LazyCompile:*run app.js:1:2\n"
				   "0x3ef41800 10 b\n"
				   "1 0 empty\nffffffffffffffff 2 wraps\n"
				   "123456789012345678 1 long\n"
				   "3ef41810 8 c";
	struct ky_symbol_list list;

	(void)state;
	ky_symbol_list_init(&list);
	assert_int_equal(ky_symbol_list_perf_map(&list, text, sizeof(text) - 1), 0);
	ky_symbol_list_finish(&list);
	assert_int_equal(list.count, 3);
	assert_string_equal(name_at(&list, 0x3ef414c0), "LazyCompile:*run app.js:1:2");
	assert_string_equal(name_at(&list, 0x3ef414ff), "LazyCompile:*run app.js:1:2");
	assert_string_equal(name_at(&list, 0x3ef41500), "");
	assert_string_equal(name_at(&list, 0x3ef4180f), "b");
	assert_string_equal(name_at(&list, 0x3ef41817), "c");
	assert_string_equal(name_at(&list, 0x3ef41818), "");
	ky_symbol_list_release(&list);
}

static void symbol_list__long_names_are_cut(void **state)
{
	char text[2000];
	struct ky_symbol_list list;

	(void)state;
	memset(text, 'n', sizeof(text));
	memcpy(text, "1000 10 ", 8);
	ky_symbol_list_init(&list);
	assert_int_equal(ky_symbol_list_perf_map(&list, text, sizeof(text)), 0);
	ky_symbol_list_finish(&list);
	assert_int_equal(strlen(name_at(&list, 0x1000)), 512);
	ky_symbol_list_release(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbol_list__the_kernels_code_is_found_by_address),
		cmocka_unit_test(symbol_list__hidden_addresses_are_reported),
		cmocka_unit_test(symbol_list__what_is_wanted_is_as_in_a_whole_list),
		cmocka_unit_test(symbol_list__hidden_addresses_are_reported_of_what_is_wanted),
		cmocka_unit_test(symbol_list__a_perf_map_has_sizes_and_names_with_blanks),
		cmocka_unit_test(symbol_list__long_names_are_cut),
	};

	return cmocka_run_group_tests_name("symbol_list", tests, NULL, NULL);
}
