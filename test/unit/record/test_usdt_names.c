/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Texts for a tracer: what a name's text says of a place, equal ones, and no more room. */
#include "../../lib/cmocka_all.h"

#include <pthread.h>
#include <record/emit/usdt_names.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define SHARED 200u

static void add(uint32_t id, const char *text)
{
	ky_usdt_name_add(id, text, strlen(text), 4711);
}

static void check(uint32_t id, const char *file, uint32_t line, uint32_t column)
{
	struct ky_usdt_name name = ky_usdt_name_find(id);

	assert_string_equal(name.place->file, file);
	assert_int_equal(name.place->line, line);
	assert_int_equal(name.place->column, column);
}

static void name__with_a_place_in_its_text_has_it(void **state)
{
	(void)state;
	add(1, "src/main.rs:57:9");
	check(1, "src/main.rs", 57, 9);
	assert_string_equal(ky_usdt_name_find(1).text, "src/main.rs:57:9");
	assert_int_equal(ky_usdt_name_find(1).code, 4711);
	add(2, "src/main.rs:57");
	check(2, "src/main.rs", 57, 0);
	add(3, "C:\\src\\main.rs:2147483647:1");
	check(3, "C:\\src\\main.rs", 2147483647, 1);
}

static void name__without_one_has_none(void **state)
{
	static const char *const texts[] = {"host::job", "a:",   ":1",           "1",
					    ":",         "::",   "a:1:",         "a:-1",
					    "a: 1",      "a:1x", "a:99999999999"};

	(void)state;
	for (uint32_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		add(10, texts[i]);
		check(10, "", 0, 0);
		assert_string_equal(ky_usdt_name_find(10).text, texts[i]);
	}
	ky_usdt_name_add(11, NULL, 0, 5);
	check(11, "", 0, 0);
	assert_string_equal(ky_usdt_name_find(11).text, "");
	assert_int_equal(ky_usdt_name_find(11).code, 5);
}

static void name__of_an_unknown_id_is_empty(void **state)
{
	(void)state;
	add(0, "a:1");
	add(KY_USDT_NAMES_MAX, "a:1");
	check(0, "", 0, 0);
	check(KY_USDT_NAMES_MAX, "", 0, 0);
	check(UINT32_MAX, "", 0, 0);
	assert_string_equal(ky_usdt_name_find(77).text, "");
}

/* A recorder that was opened anew. */
static void name__takes_the_place_of_an_earlier_one(void **state)
{
	(void)state;
	add(20, "a.rs:1:2");
	add(20, "text");
	check(20, "", 0, 0);
	assert_string_equal(ky_usdt_name_find(20).text, "text");
}

static void place__is_one_for_equal_ones(void **state)
{
	const struct kymo_usdt_place *place = kymo_usdt_place("a.rs-and more", 4, 1, 2);

	(void)state;
	assert_string_equal(place->file, "a.rs");
	assert_ptr_equal(place, kymo_usdt_place("a.rs", 4, 1, 2));
	assert_ptr_not_equal(place, kymo_usdt_place("a.rs", 4, 1, 3));
	assert_ptr_not_equal(place, kymo_usdt_place("a.rs", 4, 2, 1));
	assert_ptr_not_equal(place, kymo_usdt_place("b.rs", 4, 1, 2));
	assert_ptr_equal(kymo_usdt_place("", 0, 1, 2), &ky_usdt_nowhere);
	assert_ptr_equal(kymo_usdt_place(NULL, 4, 1, 2), &ky_usdt_nowhere);
}

static void place__with_a_long_file_is_cut(void **state)
{
	char file[400];

	(void)state;
	memset(file, 'x', sizeof(file));
	assert_int_equal(strlen(kymo_usdt_place(file, sizeof(file), 1, 1)->file),
			 KY_USDT_TEXT_BYTES_MAX);
}

static void *make_all(void *ctx)
{
	const struct kymo_usdt_place **out = ctx;

	for (uint32_t i = 0; i < SHARED; i++)
		out[i] = kymo_usdt_place("shared.rs", 9, i + 1, 1);
	return NULL;
}

static void place__is_the_same_in_all_threads(void **state)
{
	static const struct kymo_usdt_place *made[THREADS][SHARED];
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, make_all, made[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < THREADS; i++)
		assert_memory_equal(made[i], made[0], sizeof(made[0]));
}

/* The last case: nothing can be added after it. */
static void place__is_nowhere_when_there_is_no_room(void **state)
{
	const struct kymo_usdt_place *first = kymo_usdt_place("full.rs", 7, 1, 1);
	uint32_t i = 1;

	(void)state;
	while (i < 100000 && kymo_usdt_place("full.rs", 7, i, 1) != &ky_usdt_nowhere)
		i++;
	assert_in_range(i, 4096, 99999);
	assert_ptr_equal(kymo_usdt_place("full.rs", 7, 1, 1), first);
	for (uint32_t k = 0; k < 100000; k++)
		(void)kymo_usdt_place("fuller.rs", 9, k, k);
	assert_ptr_equal(kymo_usdt_place("full.rs", 7, 1, 1), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name__with_a_place_in_its_text_has_it),
		cmocka_unit_test(name__without_one_has_none),
		cmocka_unit_test(name__of_an_unknown_id_is_empty),
		cmocka_unit_test(name__takes_the_place_of_an_earlier_one),
		cmocka_unit_test(place__is_one_for_equal_ones),
		cmocka_unit_test(place__with_a_long_file_is_cut),
		cmocka_unit_test(place__is_the_same_in_all_threads),
		cmocka_unit_test(place__is_nowhere_when_there_is_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
