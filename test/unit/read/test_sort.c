/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sort: elements of several sizes in many orders, and one that an adversary makes while it runs. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include <read/sort.h>
#include <stdint.h>
#include <string.h>

#define MOST 3000u
#define WORDS_MAX 10u

static bool is_smaller(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint32_t *)a < *(const uint32_t *)b;
}

static uint32_t value_of(uint32_t order, uint32_t i, uint32_t count, struct test_prng *prng)
{
	switch (order) {
	case 0:
		return i;
	case 1:
		return count - i;
	case 2:
		return i < count / 2 ? i : count - i;
	case 3:
		return i % 7;
	case 4:
		return 5;
	case 5:
		return i == count - 1 ? 0 : i;
	default:
		return (uint32_t)test_below(prng, count * 2);
	}
}

static void sort__orders_elements_of_any_size(void **state)
{
	static uint32_t array[MOST * WORDS_MAX];
	struct test_prng prng = {3};

	(void)state;
	for (uint32_t words = 1; words <= WORDS_MAX; words += 3)
		for (uint32_t order = 0; order < 7; order++)
			for (uint32_t count = 0; count <= MOST; count += 1 + count / 3) {
				uint64_t sum = 0;

				for (uint32_t i = 0; i < count; i++) {
					uint32_t value = value_of(order, i, count, &prng);

					for (uint32_t k = 0; k < words; k++)
						array[i * words + k] = value * (k + 1);
					sum += value;
				}
				ky_sort(array, count, words * sizeof(uint32_t), is_smaller, NULL);
				for (uint32_t i = 0; i < count; i++) {
					const uint32_t *one = &array[i * words];

					assert_true(i == 0 || *(one - words) <= *one);
					for (uint32_t k = 0; k < words; k++)
						assert_int_equal(one[k], *one * (k + 1));
					sum -= *one;
				}
				assert_int_equal(sum, 0);
			}
}

/* McIlroy, A killer adversary for quicksort, 1999: it decides what is smaller only when asked, so
 * that each pivot is among the smallest. */
struct adversary {
	uint32_t values[MOST], solid, candidate, gas;
	uint64_t asked;
};

static bool adversary_is_smaller(const void *a, const void *b, const void *ctx)
{
	struct adversary *adversary = *(struct adversary *const *)ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t *values = adversary->values;

	adversary->asked++;
	if (values[x] == adversary->gas && values[y] == adversary->gas)
		values[x == adversary->candidate ? x : y] = adversary->solid++;
	if (values[x] == adversary->gas)
		adversary->candidate = x;
	else if (values[y] == adversary->gas)
		adversary->candidate = y;
	return values[x] < values[y];
}

static void sort__takes_no_quadratic_time_from_an_adversary(void **state)
{
	static struct adversary adversary;
	struct adversary *it = &adversary;
	static uint32_t array[MOST];

	(void)state;
	adversary.gas = MOST;
	for (uint32_t i = 0; i < MOST; i++) {
		array[i] = i;
		adversary.values[i] = adversary.gas;
	}
	ky_sort(array, MOST, sizeof(*array), adversary_is_smaller, &it);
	for (uint32_t i = 1; i < MOST; i++)
		assert_true(adversary.values[array[i - 1]] <= adversary.values[array[i]]);
	assert_true(adversary.asked < UINT64_C(6) * MOST * 12); /* 2^12 > MOST */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sort__orders_elements_of_any_size),
		cmocka_unit_test(sort__takes_no_quadratic_time_from_an_adversary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
