/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Batches against what a look at the next rows of all feeds says, one row after the other. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <kymo/base.h>
#include <read/time_order.h>
#include <read/trace.h>

#define FEEDS 9u
#define ROWS 3000u /* of a feed, at most */

struct heads {
	struct ky_pages pages;
	struct ky_column columns[FEEDS];
	bool is_poll[FEEDS];
	struct ky_cursor next[FEEDS];
	bool has_ended[FEEDS];
	struct test_prng prng;
};

static void add_row(struct heads *heads, uint32_t feed, uint64_t time_ns)
{
	struct ky_wake_row *wake = ky_column_append(&heads->columns[feed], time_ns);

	assert_non_null(wake);
	if (heads->is_poll[feed]) {
		((struct ky_poll_row *)(void *)wake)->task = (uint32_t)test_below(&heads->prng,
										  1000);
		return;
	}
	wake->woken = (uint32_t)test_below(&heads->prng, 1000);
	wake->waker = test_below(&heads->prng, 2) ? wake->woken : 1000;
}

/* Now and then there is nothing for long. */
static uint64_t step(struct heads *heads, uint64_t step_ns)
{
	uint64_t below = test_below(&heads->prng, 50) ? step_ns : step_ns * 1000;

	return test_random(&heads->prng) % below;
}

/* step_ns: how far rows are apart, at most; 0: all at the same moment. */
static void draw_rows(struct heads *heads, uint64_t step_ns)
{
	ky_pages_init(&heads->pages, UINT64_C(1) << 30);
	for (uint32_t i = 0; i < FEEDS; i++) {
		uint64_t time_ns = 1000;

		heads->is_poll[i] = i % 3 == 0;
		ky_column_init(&heads->columns[i], &heads->pages, sizeof(struct ky_wake_row));
		for (uint64_t left = i == 4 ? 0 : test_below(&heads->prng, ROWS); left > 0;
		     left--) {
			if (step_ns && test_below(&heads->prng, 4))
				time_ns += step(heads, step_ns);
			add_row(heads, i, time_ns);
		}
		heads->has_ended[i] = !ky_cursor_begin(&heads->next[i], &heads->columns[i], 0);
	}
}

static void release_rows(struct heads *heads)
{
	for (uint32_t i = 0; i < FEEDS; i++)
		ky_column_release(&heads->columns[i]);
	ky_pages_release(&heads->pages);
}

static unsigned int rank_of(const struct heads *heads, uint32_t feed)
{
	const struct ky_wake_row *wake = (const void *)heads->next[feed].at;

	if (heads->is_poll[feed])
		return 1;
	return wake->woken == wake->waker ? 2 : 0;
}

/* The feed whose next row comes before those of all others; FEEDS: none has one. */
static uint32_t find_first(const struct heads *heads)
{
	uint32_t first = FEEDS;

	for (uint32_t i = 0; i < FEEDS; i++) {
		if (heads->has_ended[i])
			continue;
		if (first == FEEDS || heads->next[i].time_ns < heads->next[first].time_ns ||
		    (heads->next[i].time_ns == heads->next[first].time_ns &&
		     rank_of(heads, i) < rank_of(heads, first)))
			first = i;
	}
	return first;
}

static void compare(struct heads *heads)
{
	struct ky_time_order order;
	int result;

	ky_time_order_init(&order, &heads->pages);
	for (uint32_t i = 0; i < FEEDS; i++)
		assert_true(ky_time_order_add(&order, &heads->columns[i], heads->is_poll[i]));
	while ((result = ky_time_order_next(&order)) > 0) {
		assert_true(order.count > 0);
		for (uint32_t i = 0; i < order.count; i++) {
			uint32_t first = find_first(heads);
			const struct ky_wake_row *wake;

			assert_true(first < FEEDS);
			assert_int_equal(order.rows[i].feed, first);
			wake = (const void *)heads->next[first].at;
			assert_int_equal(
				order.rows[i].task,
				heads->is_poll[first] ?
					((const struct ky_poll_row *)(const void *)wake)->task :
					wake->woken);
			heads->has_ended[first] = !ky_cursor_next(&heads->next[first]);
		}
	}
	assert_int_equal(result, 0);
	assert_int_equal(find_first(heads), FEEDS);
	ky_time_order_release(&order);
}

static void time_order__is_that_of_the_next_rows_of_all_feeds(void **state)
{
	static const uint64_t steps[] = {1, 2, 7, 100, 5000, 1000000, UINT64_C(1) << 40};
	struct heads heads = {.prng = {7}};

	(void)state;
	for (uint32_t at = 0; at < sizeof(steps) / sizeof(steps[0]); at++) {
		draw_rows(&heads, steps[at]);
		compare(&heads);
		release_rows(&heads);
	}
}

/* More than a batch has room for, and no time at which to part them. */
static void time_order__has_room_for_all_rows_of_one_moment(void **state)
{
	struct heads heads = {.prng = {11}};

	(void)state;
	draw_rows(&heads, 0);
	compare(&heads);
	release_rows(&heads);
}

static void time_order__says_when_memory_is_out(void **state)
{
	struct heads heads = {.prng = {13}};
	struct ky_time_order order;

	(void)state;
	draw_rows(&heads, 100);
	ky_time_order_init(&order, &heads.pages);
	assert_true(ky_time_order_add(&order, &heads.columns[0], true));
	heads.pages.bytes_max = heads.pages.bytes_used + 1;
	assert_int_equal(ky_time_order_next(&order), KYMO_E_LIMIT);
	assert_int_equal(heads.pages.failed, KYMO_E_LIMIT);
	ky_time_order_release(&order);
	release_rows(&heads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_order__is_that_of_the_next_rows_of_all_feeds),
		cmocka_unit_test(time_order__has_room_for_all_rows_of_one_moment),
		cmocka_unit_test(time_order__says_when_memory_is_out),
	};

	return cmocka_run_group_tests_name("time_order", tests, NULL, NULL);
}
