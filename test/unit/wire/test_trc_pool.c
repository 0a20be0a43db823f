/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/trc_pool.h>

static void arena__pieces_stay_where_they_are_until_the_reset(void **state)
{
	struct ky_arena arena = {.bytes_max = 64u << 20};
	struct test_prng prng = {3};
	static const uint8_t *copies[2000];
	static uint8_t piece[40000];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 2000; i++) {
			size_t count = i % 100 == 7 ? sizeof(piece) : test_below(&prng, 300) + 4;

			memset(piece, (int)i, count);
			assert_int_equal(ky_arena_copy(&arena, piece, count, &copies[i]), 0);
			assert_int_equal((uintptr_t)copies[i] & 7, 0);
		}
		for (uint32_t i = 0; i < 2000; i++)
			assert_int_equal(copies[i][3], (uint8_t)i);
		ky_arena_reset(&arena);
		assert_int_equal(arena.bytes_used, 0);
	}
	ky_arena_release(&arena);
}

static void arena__limit_counts_every_piece(void **state)
{
	struct ky_arena arena = {.bytes_max = 10000};
	const uint8_t *copy;
	int count = 0;

	(void)state;
	while (!ky_arena_copy(&arena, NULL, 0, &copy))
		count++;
	assert_true(count > 10 && count <= 10000 / 16);
	ky_arena_reset(&arena);
	assert_int_equal(ky_arena_copy(&arena, NULL, SIZE_MAX - 3, &copy), KYMO_E_LIMIT);
	assert_int_equal(ky_arena_copy(&arena, (const uint8_t *)"abc", 3, &copy), 0);
	ky_arena_release(&arena);
}

static void check_found(const struct ky_id_table *table, uint32_t id, uint32_t count)
{
	const struct ky_id_entry *entry = ky_id_table_find(table, id);

	assert_true(entry && entry->count == count);
}

static void id_table__finds_sparse_dense_and_redefined_numbers(void **state)
{
	struct ky_id_table table;
	struct test_prng prng = {5};

	(void)state;
	for (uintptr_t seed = 0; seed < 1 << 20; seed += 99991) {
		assert_int_equal(ky_id_table_init(&table, seed), 0);
		for (uint32_t i = 0; i < 3000; i++) {
			assert_int_equal(ky_id_table_set(&table, i, NULL, i), 0);
			assert_int_equal(ky_id_table_set(&table, i << 20, NULL, i), 0);
		}
		assert_int_equal(ky_id_table_set(&table, 5, NULL, 77), 0);
		check_found(&table, 5, 77);
		check_found(&table, 2999u << 20, 2999);
		check_found(&table, 2998, 2998);
		assert_null(ky_id_table_find(&table, 3000));
		assert_null(ky_id_table_find(&table, (uint32_t)test_random(&prng) | 0x80000001u));
		ky_id_table_reset(&table);
		assert_null(ky_id_table_find(&table, 5));
		ky_id_table_release(&table);
	}
}

static void id_table__generation_that_wraps_brings_nothing_back(void **state)
{
	struct ky_id_table table;

	(void)state;
	assert_int_equal(ky_id_table_init(&table, 0), 0);
	assert_int_equal(ky_id_table_set(&table, 1, NULL, 1), 0);
	table.generation = UINT32_MAX;
	ky_id_table_reset(&table);
	assert_null(ky_id_table_find(&table, 1));
	ky_id_table_release(&table);
}

static void id_table__failed_growth_keeps_what_is_there(void **state)
{
	struct ky_id_table table;
	uint32_t i = 0;

	(void)state;
	assert_int_equal(ky_id_table_init(&table, 0), 0);
	test_alloc_fail_at(0);
	while (!ky_id_table_set(&table, i, NULL, i))
		i++;
	assert_int_equal(ky_id_table_set(&table, i, NULL, i), -ENOMEM);
	test_alloc_normal();
	check_found(&table, i - 1, i - 1);
	assert_int_equal(ky_id_table_set(&table, i, NULL, i), 0);
	ky_id_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena__pieces_stay_where_they_are_until_the_reset),
		cmocka_unit_test(arena__limit_counts_every_piece),
		cmocka_unit_test(id_table__finds_sparse_dense_and_redefined_numbers),
		cmocka_unit_test(id_table__generation_that_wraps_brings_nothing_back),
		cmocka_unit_test(id_table__failed_growth_keeps_what_is_there),
	};

	return cmocka_run_group_tests_name("trc_pool", tests, NULL, NULL);
}
