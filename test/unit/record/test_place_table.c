/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The place table: which points a task has after a poll, what a reader outside sees of it, who
 * loses when it is full. Chains are what the test says: test_chain_memory.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <ring/ring_view.h>
#include <kymo/place.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <record/sample/chain_memory.h>
#include <wire/place_table.h>

#define TEST_HZ UINT64_C(1000000000)
#define MS_TICKS (TEST_HZ / 1000)
#define test_ticks test_ticks_steps
#define MANY KYMO_PLACE_LIVING_UNKNOWN

static void (*at_claim)(void);

void ky_testpoint(const char *name)
{
	if (at_claim && strcmp(name, "place.claimed") == 0)
		at_claim();
}

/* In place of a walk: the leaf alone decides. */
struct ky_chain __wrap_ky_chain_search(const struct ky_ring *ring, struct ky_place_head *head,
				       const struct kymo_stack_start *start, uint64_t until_sp,
				       uint32_t frames_max);
struct ky_chain __wrap_ky_chain_search(const struct ky_ring *ring, struct ky_place_head *head,
				       const struct kymo_stack_start *start, uint64_t until_sp,
				       uint32_t frames_max)
{
	const uint64_t frames[] = {start->pc, 0x2000, 0x3000};
	const struct ky_stack_store store = ky_chain_store(head);
	struct ky_chain is = {.is_truncated = start->fp != 0};

	(void)ring;
	(void)until_sp;
	(void)frames_max;
	is.stack = ky_stack_store_number(&store, frames, 3, KY_PLACE_NO_STACK);
	return is;
}

struct case_ {
	struct test_recorder test;
	struct ky_ring_view view;
};

static void open_case(struct case_ *c)
{
	memset(c, 0, sizeof(*c));
	test_ticks = 0;
	test_recorder_open(&c->test, 0, 0);
	kymo_poll_begin(1000000, 5, 0); /* makes the ring, by the clock of this machine */
	kymo_poll_end(0);
	test_ticks = UINT64_C(1000000) * TEST_HZ;
}

static struct kymo_place_poll begin(uint64_t task)
{
	return (struct kymo_place_poll){.task_word = kymo_task_word(task, 5)};
}

static void clone_at(struct kymo_place_poll *poll, uint64_t leaf, uint32_t living)
{
	const struct kymo_stack_start start = {.pc = leaf};

	kymo_place_clone(poll, &start, living);
}

static uint32_t end(struct kymo_place_poll *poll, uint32_t living)
{
	uint32_t flags = kymo_place_close(poll, living);

	kymo_poll_end(flags);
	kymo_place_polled(poll);
	return flags >> KYMO_POLL_POINTS_SHIFT;
}

/* One poll after so long that clones at each of these leaves, up to a 0. */
static uint32_t poll_at(uint64_t task, uint64_t idle_ms, const uint64_t *leaves, uint32_t living)
{
	struct kymo_place_poll poll = begin(task);

	test_ticks += idle_ms * MS_TICKS;
	kymo_poll_begin(task, 5, 0);
	for (; *leaves; leaves++)
		clone_at(&poll, *leaves, MANY);
	return end(&poll, living);
}

#define LEAVES(...) ((const uint64_t[]){__VA_ARGS__ 0})

/* All of a poll that waits at one point. */
static void put(uint64_t task, uint64_t leaf)
{
	struct kymo_place_poll poll = begin(task);

	clone_at(&poll, leaf, MANY);
	(void)kymo_place_close(&poll, 1);
	kymo_place_polled(&poll);
}

static const uint8_t *area(struct case_ *c)
{
	const struct ky_ring *ring = ky_engine.ring;

	assert_int_equal(ky_ring_view_init(&c->view, ring->base, ring->mapped_bytes), 0);
	return ky_ring_view_places(&c->view);
}

/* Returns how many live tasks the table has; *out: the one of this number, if it is there. */
static uint32_t read_place(struct case_ *c, uint64_t task, struct ky_place_seen *out)
{
	const uint8_t *at = area(c);
	uint32_t count = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t slot = 0; at && slot < KY_PLACE_ENTRIES; slot++) {
		struct ky_place_seen seen;

		if (!ky_ring_view_place(at, slot, test_ticks, &seen))
			continue;
		count++;
		if (seen.task == task)
			*out = seen;
	}
	return count;
}

/* The points of a word as text: leaves / 0x1000, an o after those that are older, ? where it is
 * unsure. */
static const char *text_of(const uint8_t *at, uint64_t word)
{
	static char text[32];
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	size_t used = 0;

	memset(text, 0, sizeof(text));
	for (uint32_t i = 0; word && i < KYMO_PLACE_STACKS_MAX; i++) {
		uint32_t stack = ky_points_stack(word, i);

		if (stack == KY_PLACE_NO_STACK)
			continue;
		assert_int_equal(ky_ring_view_place_stack(at, stack, frames), 3);
		text[used++] = (char)('0' + frames[0] / 0x1000);
		if (word & KY_PLACE_OLDER(i))
			text[used++] = 'o';
	}
	if (word & KY_PLACE_UNSURE)
		text[used++] = '?';
	return text;
}

static const char *points_of(struct case_ *c, uint64_t task)
{
	struct ky_place_seen seen;

	(void)read_place(c, task, &seen);
	return text_of(area(c), seen.points);
}

static void place__takes_no_memory_before_it_is_used(void **state)
{
	struct kymo_place_poll poll = begin(1);
	struct case_ c;

	(void)state;
	open_case(&c);
	kymo_poll_begin(1, 5, 0);
	assert_int_equal(end(&poll, 1), 0);
	kymo_place_end(1);
	assert_null(area(&c));
	assert_int_not_equal(poll_at(1, 0, LEAVES(0x1000, ), 1), 0);
	assert_non_null(area(&c));
	test_recorder_close(&c.test);
}

static void place__can_be_read_externally_until_the_task_ends(void **state)
{
	struct ky_place_seen seen;
	uint32_t number;
	struct case_ c;

	(void)state;
	open_case(&c);
	number = poll_at(7, 0, LEAVES(0x1000, ), 1);
	assert_int_equal(read_place(&c, 7, &seen), 1);
	assert_int_equal(seen.name, 5);
	assert_true(ky_ring_view_points(area(&c), number) == seen.points);
	assert_string_equal(points_of(&c, 7), "1");
	/* The same again is the same number; two of a poll are one, in any order. */
	assert_int_equal(poll_at(7, 0, LEAVES(0x1000, ), 1), number);
	number = poll_at(7, 0, LEAVES(0x1000, 0x2000, ), 2);
	assert_int_equal(poll_at(7, 0, LEAVES(0x2000, 0x1000, 0x2000, ), 2), number);
	assert_int_equal(strlen(points_of(&c, 7)), 2);
	/* The next poll's are instead. */
	(void)poll_at(7, 0, LEAVES(0x3000, ), 1);
	assert_string_equal(points_of(&c, 7), "3");
	kymo_place_end(7);
	assert_int_equal(read_place(&c, 7, &seen), 0);
	test_recorder_close(&c.test);
}

static void place__has_start_and_duration_of_the_wait(void **state)
{
	struct ky_place_seen seen;
	uint64_t first;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll_at(7, 0, LEAVES(0x1000, ), 1);
	first = test_ticks;
	(void)poll_at(7, 20, LEAVES(), 1); /* it keeps its waker */
	(void)poll_at(7, 20, LEAVES(), 1);
	test_ticks += 3600 * TEST_HZ;
	assert_string_equal(points_of(&c, 7), "1o");
	(void)read_place(&c, 7, &seen);
	/* Without the bits that are not kept. */
	assert_true(seen.since_ticks <= first && first - seen.since_ticks <= MS_TICKS);
	assert_true(test_ticks - seen.polled_ticks >= 3599 * TEST_HZ);
	assert_true(test_ticks - seen.polled_ticks <= 3601 * TEST_HZ);
	test_recorder_close(&c.test);
}

/* By what the polls clone and how many wakers live after each. */
static void points__stay_while_their_wakers_live(void **state)
{
	struct case_ c;

	(void)state;
	open_case(&c);
	/* A connection: it waits to be read all the time, and for answers. */
	(void)poll_at(7, 0, LEAVES(0x1000, ), 1);
	(void)poll_at(7, 0, LEAVES(0x2000, ), 2);
	assert_string_equal(points_of(&c, 7), "21o");
	(void)poll_at(7, 0, LEAVES(0x3000, ), 2);
	assert_string_equal(points_of(&c, 7), "31o");
	(void)poll_at(7, 0, LEAVES(), 1);
	assert_string_equal(points_of(&c, 7), "1o");
	/* A leaf that clones again is no older one. */
	(void)poll_at(7, 0, LEAVES(0x1000, ), 2);
	assert_string_equal(points_of(&c, 7), "1");
	/* Of two that came together one is gone: nobody knows which. */
	(void)poll_at(7, 0, LEAVES(0x1000, 0x2000, ), 2);
	(void)poll_at(7, 0, LEAVES(), 1);
	assert_int_equal(strlen(points_of(&c, 7)), 5);
	assert_non_null(strchr(points_of(&c, 7), '?'));
	/* No waker lives, or none is known of. */
	(void)poll_at(7, 0, LEAVES(), 0);
	assert_string_equal(points_of(&c, 7), "");
	(void)poll_at(7, 0, LEAVES(), 1);
	assert_string_equal(points_of(&c, 7), "");
	test_recorder_close(&c.test);
}

/* One more lives after it than it cloned: the older leaf's, or that of the thread that woke. */
static void points__may_be_gone_where_no_waker_was_gone_at_the_begin(void **state)
{
	static const struct {
		uint32_t wakers;
		const char *points;
	} cases[] = {{0, "21o"}, {1, "21o?"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kymo_place_poll poll = begin(7);
		struct case_ c;

		open_case(&c);
		(void)poll_at(7, 0, LEAVES(0x1000, ), 1);
		poll.wakers = cases[i].wakers;
		kymo_poll_begin(7, 5, 0);
		clone_at(&poll, 0x2000, MANY);
		(void)end(&poll, 2);
		assert_string_equal(points_of(&c, 7), cases[i].points);
		test_recorder_close(&c.test);
	}
}

static void points__that_a_poll_went_by_are_no_waits(void **state)
{
	struct kymo_place_poll poll = begin(7);
	struct case_ c;

	(void)state;
	open_case(&c);
	kymo_poll_begin(7, 5, 0);
	clone_at(&poll, 0x1000, 0);
	clone_at(&poll, 0x2000, 0); /* the first has given its waker back */
	(void)end(&poll, 1);
	assert_string_equal(points_of(&c, 7), "2");
	(void)poll_at(7, 0, LEAVES(0x1000, 0x2000, 0x3000, ), 2);
	assert_int_equal(strlen(points_of(&c, 7)), 3); /* two, unsure */
	(void)poll_at(7, 0, LEAVES(0x1000, 0x2000, 0x3000, ), 1);
	assert_string_equal(points_of(&c, 7), "3");
	/* More leaves than are kept. */
	(void)poll_at(7, 0, LEAVES(0x1000, 0x2000, 0x3000, 0x4000, ), 4);
	assert_int_equal(strlen(points_of(&c, 7)), 3);
	test_recorder_close(&c.test);
}

/* Another thread polled the task, and ended it, before this one came to tell. */
static void place__of_a_task_that_is_over_stays_free(void **state)
{
	struct kymo_place_poll old = begin(7);
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	kymo_poll_begin(7, 5, 0);
	clone_at(&old, 0x1000, MANY);
	(void)kymo_place_close(&old, 1);
	kymo_poll_end(0);
	kymo_place_end(7);
	kymo_place_polled(&old);
	assert_int_equal(read_place(&c, 7, &seen), 0);
	put(7, 0x2000);
	assert_string_equal(points_of(&c, 7), "2");
	test_recorder_close(&c.test);
}

/* The number lies in 12 bits of POLL_END. */
static void points__beyond_the_room_are_counted(void **state)
{
	const struct ky_place_head *head;
	uint32_t numbers = 0;
	struct case_ c;

	(void)state;
	open_case(&c);
	for (uint64_t i = 1; i <= 1000; i++)
		for (uint64_t k = 1; k <= 6; k++)
			numbers += poll_at(7, 0, LEAVES(i << 12, (i + k) << 12, ), 2) != 0;
	head = (const struct ky_place_head *)(const void *)area(&c);
	assert_in_range(numbers, KY_PLACE_POINTS / 2, KY_PLACE_POINTS - 1);
	assert_true(numbers + atomic_load(&head->stacks_refused) >= 6000);
	test_recorder_close(&c.test);
}

static void table__holds_its_capacity_and_counts_the_rest(void **state)
{
	const struct ky_place_head *head;
	struct ky_place_seen seen;
	struct case_ c;
	uint32_t count;

	(void)state;
	open_case(&c);
	for (uint64_t task = 1; task <= 2 * KY_PLACE_ENTRIES; task++)
		put(task, 0x1000);
	head = (const struct ky_place_head *)(const void *)area(&c);
	count = read_place(&c, 1, &seen);
	assert_true(count > KY_PLACE_ENTRIES * 9 / 10);
	assert_int_equal(count + atomic_load(&head->refused_count), 2 * KY_PLACE_ENTRIES);
	for (uint64_t task = 1; task <= 2 * KY_PLACE_ENTRIES; task++)
		kymo_place_end(task);
	assert_int_equal(read_place(&c, 1, &seen), 0);
	/* Every other number alone: they find room as well. */
	for (uint64_t task = 2; task <= KY_PLACE_ENTRIES; task += 2)
		put(task, 0x1000);
	assert_true(read_place(&c, 2, &seen) > KY_PLACE_ENTRIES / 2 * 99 / 100);
	test_recorder_close(&c.test);
}

/* As services make them that spawn several tasks a connection, of which one lives long. */
static void table__has_room_for_task_numbers_of_any_spacing(void **state)
{
	static const uint32_t steps[] = {1, 2, 3, 7, 64, 1000, 2048, 4096, 16384, 16385, 65537};
	const uint64_t tasks = KY_PLACE_ENTRIES / 4, from = 1234567;
	const struct ky_place_head *head;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	put(1, 0x1000);
	kymo_place_end(1);
	head = (const struct ky_place_head *)(const void *)area(&c);
	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (uint64_t task = 0; task < tasks; task++)
			put(from + task * steps[i], 0x1000);
		assert_int_equal(read_place(&c, from, &seen), tasks);
		assert_int_equal(atomic_load(&head->refused_count), 0);
		for (uint64_t task = 0; task < tasks; task++)
			kymo_place_end(from + task * steps[i]);
	}
	test_recorder_close(&c.test);
}

static void table__keeps_tasks_made_together_on_few_pages(void **state)
{
	uint32_t sets_a_page = KY_PLACE_PAGE_BYTES / sizeof(struct kymo_place_set);
	uint8_t used[KYMO_PLACE_SETS] = {0}, pages[KYMO_PLACE_SETS] = {0};
	uint32_t page_count = 0;

	(void)state;
	for (uint64_t task = 40000; task < 40064; task++) {
		uint32_t set = KYMO_PLACE_SET_OF(kymo_place_hash(task));

		assert_int_equal(used[set]++, 0); /* no line of another one's */
		page_count += pages[set / sets_a_page]++ == 0;
	}
	assert_in_range(page_count, 4, 5);
}

static void stacks__beyond_the_room_are_counted(void **state)
{
	const struct ky_place_head *head;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	struct ky_place_seen seen;
	struct case_ c;
	uint32_t found = 0, wanted = 20000;

	(void)state;
	open_case(&c);
	for (uint32_t i = 0; i < wanted; i++) {
		put(1, 0x10000 + i);
		(void)read_place(&c, 1, &seen);
		if (i % 100 == 0 && seen.points &&
		    ky_ring_view_place_stack(area(&c), ky_points_stack(seen.points, 0), frames) ==
			    3)
			found += frames[0] == 0x10000 + i;
		if (i >= 4000)
			i += 999;
	}
	head = (const struct ky_place_head *)(const void *)area(&c);
	assert_true(found >= 15);
	assert_true(atomic_load(&head->stacks_refused) > 0);
	test_recorder_close(&c.test);
}

static _Atomic int is_over;

static void *put_all_the_time(void *ctx)
{
	uint64_t base = (uint64_t)(uintptr_t)ctx;

	kymo_poll_begin(base, 5, 0);
	for (uint64_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
		uint64_t task = base + i % 64;

		put(task, 0x1000 + task);
		if (i % 3 == 0)
			kymo_place_end(task);
	}
	kymo_poll_end(0);
	return NULL;
}

/* The leaf of each task's stack is made of its number: no reader may ever see another one's. */
static void table__is_whole_while_it_is_written(void **state)
{
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	uint32_t seen_count = 0;
	pthread_t threads[3];
	struct case_ c;

	(void)state;
	open_case(&c);
	put(1, 0x1000 + 1);
	atomic_store(&is_over, 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_all_the_time,
						(void *)((i + 1) * 1000)),
				 0);
	for (uint32_t round = 0; round < 300 || (seen_count < 1000 && round < 100000); round++) {
		const uint8_t *at = area(&c);

		for (uint32_t slot = 0; slot < KY_PLACE_ENTRIES; slot++) {
			struct ky_place_seen seen;
			uint64_t now = __atomic_load_n(&test_ticks, __ATOMIC_RELAXED);

			if (!ky_ring_view_place(at, slot, now, &seen) || !seen.points)
				continue;
			seen_count++;
			assert_int_equal(ky_ring_view_place_stack(
						 at, ky_points_stack(seen.points, 0), frames),
					 3);
			assert_int_equal(frames[0], 0x1000 + seen.task);
		}
	}
	atomic_store(&is_over, 1);
	for (uint32_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_true(seen_count >= 1000);
	test_recorder_close(&c.test);
}

/* A table that somebody filled with anything gives something or nothing, within the area. */
static void reader__follows_nothing_it_has_not_checked(void **state)
{
	uint8_t *bytes = test_calloc(1, KY_PLACE_AREA_BYTES);
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], x = 88172645463325252u;

	(void)state;
	for (uint32_t round = 0; round < 8; round++) {
		for (uint32_t i = 0; i < KY_PLACE_AREA_BYTES / 8; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			((uint64_t *)(void *)bytes)[i] = round % 2 ? x : x | KY_PLACE_PUBLISHED;
		}
		for (uint32_t slot = 0; slot < KY_PLACE_ENTRIES; slot++) {
			struct ky_place_seen seen;

			(void)ky_ring_view_place(bytes, slot, x, &seen);
		}
		for (uint32_t number = 0; number < 65536; number++)
			assert_true(ky_ring_view_place_stack(bytes, number, frames) <=
				    KYMO_PLACE_FRAMES_MAX);
		assert_true(ky_ring_view_place_units(bytes) <= KY_PLACE_UNITS);
	}
	test_free(bytes);
}

/* As a detach leaves it to whoever is inside: zero, from one instruction to the next. */
static void empty_table(void)
{
	at_claim = NULL;
	memset(ky_ring_places(ky_engine.ring), 0, KY_PLACE_POINTS_OFFSET);
}

static void detach__may_empty_the_table_at_any_moment(void **state)
{
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	at_claim = empty_table;
	put(2, 0x1000); /* in its home */
	assert_null(at_claim);
	assert_int_equal(read_place(&c, 2, &seen), 0);
	for (uint64_t task = 1; task < KY_PLACE_ENTRIES; task++)
		put(task, 0x1000);
	at_claim = empty_table;
	for (uint64_t task = KY_PLACE_ENTRIES; at_claim; task++)
		put(task, 0x1000); /* away from home, where there is room at all */
	put(2, 0x1000);
	assert_true(read_place(&c, 2, &seen) >= 1);
	assert_int_equal(seen.task, 2);
	test_recorder_close(&c.test);
}

static void wake__names_a_stack_that_a_reader_finds(void **state)
{
	const struct kymo_stack_start here = {.pc = 0x7000, .sp = (uintptr_t)&state},
				      there = {.pc = 0x8000};
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	uint32_t number;
	struct case_ c;

	(void)state;
	open_case(&c);
	number = kymo_place_wake(&here, 0, KYMO_WAKE_FRAMES_MAX) >> KYMO_WAKE_STACK_SHIFT;
	assert_int_not_equal(number, 0);
	assert_int_equal(kymo_place_wake(&here, here.sp + 64, KYMO_WAKE_FRAMES_MAX) >>
				 KYMO_WAKE_STACK_SHIFT,
			 number);
	assert_int_not_equal(
		kymo_place_wake(&there, 0, KYMO_WAKE_FRAMES_MAX) >> KYMO_WAKE_STACK_SHIFT, number);
	assert_int_equal(ky_ring_view_place_stack(area(&c), number - 1, frames), 3);
	assert_int_equal(frames[0], 0x7000);
	test_recorder_close(&c.test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place__takes_no_memory_before_it_is_used),
		cmocka_unit_test(place__can_be_read_externally_until_the_task_ends),
		cmocka_unit_test(place__has_start_and_duration_of_the_wait),
		cmocka_unit_test(points__stay_while_their_wakers_live),
		cmocka_unit_test(points__may_be_gone_where_no_waker_was_gone_at_the_begin),
		cmocka_unit_test(points__that_a_poll_went_by_are_no_waits),
		cmocka_unit_test(points__beyond_the_room_are_counted),
		cmocka_unit_test(place__of_a_task_that_is_over_stays_free),
		cmocka_unit_test(table__holds_its_capacity_and_counts_the_rest),
		cmocka_unit_test(table__has_room_for_task_numbers_of_any_spacing),
		cmocka_unit_test(table__keeps_tasks_made_together_on_few_pages),
		cmocka_unit_test(stacks__beyond_the_room_are_counted),
		cmocka_unit_test(table__is_whole_while_it_is_written),
		cmocka_unit_test(reader__follows_nothing_it_has_not_checked),
		cmocka_unit_test(detach__may_empty_the_table_at_any_moment),
		cmocka_unit_test(wake__names_a_stack_that_a_reader_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
