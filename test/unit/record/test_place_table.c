/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The place table: what is chosen, what a reader outside sees of it, who loses when it is full. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <ring/ring_view.h>
#include <kymo/place.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <wire/place_table.h>

#define TEST_HZ UINT64_C(1000000000)
#define MS_TICKS (TEST_HZ / 1000)
#define test_ticks test_ticks_steps

static void (*at_claim)(void);

void ky_testpoint(const char *name)
{
	if (at_claim && strcmp(name, "place.claimed") == 0)
		at_claim();
}

struct case_ {
	struct test_recorder test;
	struct kymo_place_chooser chooser;
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

/* One poll of the task, whose place is asked for. Returns what was answered. */
static uint32_t poll(struct case_ *c, uint64_t task, uint64_t idle_ms)
{
	uint32_t one_in;

	test_ticks += idle_ms * MS_TICKS;
	kymo_poll_begin(task, 5, 0);
	one_in = kymo_place_choose(&c->chooser, task);
	kymo_poll_end(0);
	kymo_place_polled(task);
	return one_in;
}

static struct kymo_place_taken begin(uint64_t task)
{
	return (struct kymo_place_taken){.task = task, .name = 5, .one_in = 64};
}

static void take(struct kymo_place_taken *taken, uint64_t leaf)
{
	const uint64_t frames[] = {leaf, 0x2000, 0x3000};
	const struct kymo_place place = {.frames = frames, .frame_count = 3};

	kymo_place_take(taken, &place);
}

/* All of a poll that waits in one place. */
static void put(uint64_t task, uint64_t leaf)
{
	struct kymo_place_taken taken = begin(task);

	take(&taken, leaf);
	kymo_place_emit(&taken);
}

static const uint8_t *area(struct case_ *c)
{
	const struct ky_ring *ring = ky_engine.ring;

	assert_int_equal(ky_ring_view_open(&c->view, ring->base, ring->mapped_bytes), 0);
	return ky_ring_view_places(&c->view);
}

/* Returns how many live tasks the table has; *out: the one of this number, if it is there. */
static uint32_t look(struct case_ *c, uint64_t task, struct ky_place_seen *out)
{
	const uint8_t *at = area(c);
	uint32_t count = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t slot = 0; at && slot < KY_PLACE_SLOTS; slot++) {
		struct ky_place_seen seen;

		if (ky_ring_view_place(at, slot, test_ticks, &seen) != KY_PLACE_WHOLE)
			continue;
		count++;
		if (seen.task_word >> KYMO_NAME_BITS == task)
			*out = seen;
	}
	return count;
}

static void place__takes_no_memory_before_it_is_used(void **state)
{
	struct case_ c;

	(void)state;
	open_case(&c);
	kymo_poll_begin(1, 5, 0);
	kymo_poll_end(0);
	kymo_place_polled(1);
	kymo_place_end(1);
	assert_null(area(&c));
	assert_int_equal(poll(&c, 1, 0), 1);
	assert_non_null(area(&c));
	test_recorder_close(&c.test);
}

static const struct ky_sample_class_head *place_samples(struct case_ *c)
{
	struct ky_sample_ring ring;

	assert_true(ky_ring_view_samples(&c->view, KY_SAMPLES_PLACE, &ring));
	return ring.head;
}

static void place__is_seen_from_outside_until_the_task_ends(void **state)
{
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], put_count, samples;
	struct kymo_place_taken taken;
	const struct ky_place_head *head;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll(&c, 7, 0);
	put(7, 0x1000);
	head = (const struct ky_place_head *)(const void *)area(&c);
	assert_int_equal(look(&c, 7, &seen), 1);
	assert_int_equal(seen.task_word, kymo_task_word(7, 5));
	assert_int_equal(seen.one_in, 64);
	assert_int_equal(seen.since_ticks, seen.taken_ticks);
	assert_int_equal(seen.stacks[1], KY_PLACE_NO_STACK);
	assert_int_equal(ky_ring_view_place_stack(area(&c), seen.stacks[0], frames), 3);
	assert_int_equal(frames[0], 0x1000);
	assert_int_equal(frames[2], 0x3000);
	/* Two of a poll stand side by side; the same again is told once. */
	put_count = atomic_load(&head->put_count);
	samples = atomic_load(&place_samples(&c)->claim_index);
	taken = begin(7);
	take(&taken, 0x1000);
	take(&taken, 0x1800);
	take(&taken, 0x1000);
	assert_int_equal(atomic_load(&place_samples(&c)->claim_index), samples);
	kymo_place_emit(&taken);
	assert_int_equal(atomic_load(&head->put_count), put_count + 2);
	assert_int_equal(look(&c, 7, &seen), 1);
	assert_int_not_equal(seen.stacks[1], KY_PLACE_NO_STACK);
	assert_int_equal(seen.stacks[2], KY_PLACE_NO_STACK);
	assert_int_equal(ky_ring_view_place_stack(area(&c), seen.stacks[1], frames), 3);
	assert_int_equal(frames[0], 0x1000);
	/* The next poll's are instead. */
	put(7, 0x1800);
	(void)look(&c, 7, &seen);
	assert_int_equal(seen.stacks[1], KY_PLACE_NO_STACK);
	kymo_place_end(7);
	assert_int_equal(look(&c, 7, &seen), 0);
	test_recorder_close(&c.test);
}

static void place__says_since_when_and_how_long_it_waits(void **state)
{
	struct ky_place_seen seen;
	struct case_ c;
	uint64_t first;

	(void)state;
	open_case(&c);
	(void)poll(&c, 7, 0);
	put(7, 0x1000);
	first = test_ticks;
	(void)poll(&c, 7, 20);
	put(7, 0x1000);
	test_ticks += 3600 * TEST_HZ;
	(void)look(&c, 7, &seen);
	assert_true(seen.since_ticks <= first);
	assert_true(seen.taken_ticks > first);
	/* Without the bits that are not kept. */
	assert_true(test_ticks - seen.polled_ticks >= 3599 * TEST_HZ);
	assert_true(test_ticks - seen.polled_ticks <= 3601 * TEST_HZ);
	put(7, 0x1400);
	(void)look(&c, 7, &seen);
	assert_int_equal(seen.since_ticks, seen.taken_ticks);
	test_recorder_close(&c.test);
}

/* A stuck first poll shows where it was; one that went on shows what was left at its end. */
static void place__is_told_as_it_is_at_the_end_of_the_poll(void **state)
{
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], samples;
	struct kymo_place_taken taken;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll(&c, 7, 0);
	(void)area(&c);
	samples = atomic_load(&place_samples(&c)->claim_index);
	taken = begin(7);
	take(&taken, 0x1000);
	assert_int_equal(look(&c, 7, &seen), 1);
	assert_int_equal(ky_ring_view_place_stack(area(&c), seen.stacks[0], frames), 3);
	assert_int_equal(frames[0], 0x1000);
	taken.count = 0;
	taken.may_have_moved = true;
	take(&taken, 0x1400);
	kymo_place_emit(&taken);
	assert_int_equal(look(&c, 7, &seen), 1);
	assert_int_equal(ky_ring_view_place_stack(area(&c), seen.stacks[0], frames), 3);
	assert_int_equal(frames[0], 0x1400);
	assert_int_equal(seen.stacks[1], KY_PLACE_NO_STACK);
	assert_int_equal(KY_SAMPLE_CLAIM(atomic_load(&place_samples(&c)->claim_index)),
			 KY_SAMPLE_CLAIM(samples) + 1);
	assert_true(seen.moved_ticks > seen.taken_ticks);
	/* The next poll knows better. */
	put(7, 0x1400);
	(void)look(&c, 7, &seen);
	assert_true(seen.moved_ticks < seen.taken_ticks);
	test_recorder_close(&c.test);
}

/* Another thread polled the task, and ended it, before this one came to tell. */
static void place__of_a_task_that_is_over_stays_free(void **state)
{
	struct kymo_place_taken old = begin(7), later = begin(7);
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll(&c, 7, 0);
	take(&old, 0x1000);
	take(&later, 0x1400);
	kymo_place_emit(&later);
	kymo_place_emit(&old);
	assert_int_equal(look(&c, 7, &seen), 1);
	assert_int_equal(ky_ring_view_place_stack(area(&c), seen.stacks[0], frames), 3);
	assert_int_equal(frames[0], 0x1400);
	kymo_place_end(7);
	kymo_place_emit(&later);
	assert_int_equal(look(&c, 7, &seen), 0);
	test_recorder_close(&c.test);
}

static void choice__idle_tasks_always_others_by_chance(void **state)
{
	uint32_t taken = 0, polls = 200000;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	for (uint32_t i = 0; i < 10000; i++) /* the budget is spent */
		(void)poll(&c, 7, 0);
	put(7, 0x1000);
	for (uint32_t i = 0; i < polls; i++) {
		uint32_t one_in = poll(&c, 7, 0);

		/* 1: what comes back of the budget in these 60 ms. */
		assert_true(one_in == 0 || one_in == 1 || one_in == KYMO_PLACE_ONE_IN);
		taken += one_in == KYMO_PLACE_ONE_IN;
	}
	/* Four standard deviations of 200,000 draws of 1 in 64. */
	assert_in_range(taken, 3125 - 222, 3125 + 222);
	(void)look(&c, 7, &seen);
	assert_true(seen.moved_ticks >= seen.taken_ticks);
	c.chooser.spent = UINT32_MAX / 2;
	assert_int_not_equal(poll(&c, 7, 9), 1);
	assert_int_equal(poll(&c, 7, 11), 1);
	test_recorder_close(&c.test);
}

#define MODEL_TASKS 24u

/* The rule as it is told in words, one question after the other. */
struct model {
	uint64_t refilled_ticks, polled[MODEL_TASKS]; /* in steps of the table; 0: never */
	uint32_t spent, random;
	uint64_t hz;
};

static uint32_t answer(struct model *model, uint32_t index, uint64_t task, uint64_t now)
{
	uint64_t *polled = &model->polled[index], back;
	uint32_t limit = *polled ? 3072 : 4096;

	if (*polled &&
	    (now >> KYMO_PLACE_TICKS_SHIFT) - *polled >= model->hz / 100 >> KYMO_PLACE_TICKS_SHIFT)
		return 1;
	if (!model->random)
		model->random = (uint32_t)task * 2654435761u | 1u;
	back = (now - model->refilled_ticks) / (model->hz / 500 + 1);
	if (back || !model->spent) {
		model->spent = back < model->spent ? model->spent - (uint32_t)back : 0;
		model->refilled_ticks = now;
	}
	if (model->spent < limit) {
		model->spent++;
		return 1;
	}
	model->random = model->random * 1664525u + 1013904223u;
	return model->random >> 26 ? 0 : KYMO_PLACE_ONE_IN;
}

/* Time passes by nothing, by what gives some of the budget back, by about what counts as idle. */
static uint64_t pass(uint64_t *random)
{
	*random = *random * UINT64_C(6364136223846793005) + 1;
	if (*random >> 56 < 250)
		return (*random >> 40) % (MS_TICKS / 4000);
	return (*random >> 32) % (*random >> 63 ? 12 * MS_TICKS : 3 * MS_TICKS);
}

static void choice__is_the_rule_at_every_poll(void **state)
{
	uint32_t seen[KYMO_PLACE_ONE_IN + 1] = {0};
	struct model model = {0};
	uint64_t random = 11;
	struct case_ c;

	(void)state;
	open_case(&c);
	model.hz = ky_engine.ring->clock.is_os ? TEST_HZ : ky_engine.clock.ticks_per_second;
	for (uint32_t i = 0; i < 300000; i++) {
		/* Some come late: their first poll finds what is kept for first polls. */
		uint32_t index = (uint32_t)(random >> 33) %
				 (i < 200000 ? MODEL_TASKS / 2 : MODEL_TASKS);
		uint64_t task = 1 + 2049 * index, word; /* in different sets and ways */
		uint32_t hash = kymo_place_hash(task), one_in;

		test_ticks += pass(&random);
		kymo_poll_begin(task, 5, 0);
		one_in = kymo_place_choose(&c.chooser, task);
		assert_int_equal(one_in, answer(&model, index, task,
						kymo_thread_self->sub->open[0].begin_ticks));
		kymo_poll_end(0);
		kymo_place_polled(task);
		word = kymo_thread_self->places[KYMO_PLACE_SET_OF(hash)]
			       .polled[KYMO_PLACE_WAY_OF(hash)];
		model.polled[index] = word >> KYMO_PLACE_TAG_BITS;
		assert_int_equal(KYMO_PLACE_TAG_OF((uint32_t)word), KYMO_PLACE_TAG_OF(hash));
		seen[one_in]++;
	}
	assert_true(seen[0] > 100000 && seen[1] > 4096 && seen[KYMO_PLACE_ONE_IN] > 1000);
	assert_true(model.polled[MODEL_TASKS - 1] != 0);
	test_recorder_close(&c.test);
}

static void choice__not_taken_makes_the_place_old(void **state)
{
	const uint64_t at_home = 7 + 3 * KYMO_PLACE_SETS;
	uint64_t task = at_home + 1, before;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	/* Its home is another's. */
	while ((kymo_place_hash(task) ^ kymo_place_hash(at_home)) % KY_PLACE_SLOTS != 0)
		task++;
	(void)poll(&c, at_home, 0);
	put(at_home, 0x1000);
	put(task, 0x1000);
	(void)look(&c, task, &seen);
	assert_true(seen.moved_ticks < seen.taken_ticks);
	before = seen.taken_ticks;
	/* As a task that nothing is known of yet, then as one that is. */
	for (uint32_t i = 0; i < 2; i++) {
		c.chooser.spent = UINT32_MAX / 2;
		while (poll(&c, task, 0) != 0)
			;
		(void)look(&c, task, &seen);
		assert_true(seen.moved_ticks > before);
		before = seen.moved_ticks;
	}
	(void)look(&c, at_home, &seen);
	assert_true(seen.moved_ticks < seen.taken_ticks);
	(void)poll(&c, at_home, 0);
	before = test_ticks;
	while (poll(&c, at_home, 0) != 0)
		;
	(void)look(&c, at_home, &seen);
	assert_true(seen.moved_ticks > before);
	test_recorder_close(&c.test);
}

static void choice__new_tasks_are_taken_while_the_budget_lasts(void **state)
{
	uint32_t taken = 0;
	struct case_ c;

	(void)state;
	open_case(&c);
	for (uint64_t task = 1; task <= 20000; task++)
		taken += poll(&c, task, 0) == 1;
	assert_in_range(taken, 4096, 4100);
	test_recorder_close(&c.test);
}

static void table__holds_what_it_says_and_counts_the_rest(void **state)
{
	const struct ky_place_head *head;
	struct ky_place_seen seen;
	struct case_ c;
	uint32_t count;

	(void)state;
	open_case(&c);
	(void)poll(&c, 1, 0);
	for (uint64_t task = 1; task <= 2 * KY_PLACE_SLOTS; task++)
		put(task, 0x1000);
	head = (const struct ky_place_head *)(const void *)area(&c);
	count = look(&c, 1, &seen);
	assert_true(count > KY_PLACE_SLOTS * 9 / 10);
	assert_int_equal(count + atomic_load(&head->refused_count), 2 * KY_PLACE_SLOTS);
	for (uint64_t task = 1; task <= 2 * KY_PLACE_SLOTS; task++)
		kymo_place_end(task);
	assert_int_equal(look(&c, 1, &seen), 0);
	/* Every other number alone: they find room as well. */
	for (uint64_t task = 2; task <= KY_PLACE_SLOTS; task += 2)
		put(task, 0x1000);
	assert_true(look(&c, 2, &seen) > KY_PLACE_SLOTS / 2 * 99 / 100);
	test_recorder_close(&c.test);
}

/* As services make them that spawn several tasks a connection, of which one lives long. */
static void table__has_room_whatever_lies_between_the_tasks(void **state)
{
	static const uint32_t steps[] = {1, 2, 3, 7, 64, 1000, 2048, 4096, 16384, 16385, 65537};
	const uint64_t tasks = KY_PLACE_SLOTS / 4, from = 1234567;
	const struct ky_place_head *head;
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll(&c, 1, 0);
	put(1, 0x1000);
	kymo_place_end(1);
	head = (const struct ky_place_head *)(const void *)area(&c);
	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (uint64_t task = 0; task < tasks; task++)
			put(from + task * steps[i], 0x1000);
		assert_int_equal(look(&c, from, &seen), tasks);
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
	assert_in_range(page_count, 2, 3);
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
	(void)poll(&c, 1, 0);
	for (uint32_t i = 0; i < wanted; i++) {
		put(1, 0x10000 + i);
		(void)look(&c, 1, &seen);
		if (i % 100 == 0 && ky_ring_view_place_stack(area(&c), seen.stacks[0], frames) == 3)
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
	struct kymo_place_chooser chooser = {0};
	uint64_t base = (uint64_t)(uintptr_t)ctx;

	kymo_poll_begin(base, 5, 0);
	(void)kymo_place_choose(&chooser, base);
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
	(void)poll(&c, 1, 0);
	atomic_store(&is_over, 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_all_the_time,
						(void *)((i + 1) * 1000)),
				 0);
	for (uint32_t round = 0; round < 300 || (seen_count < 1000 && round < 100000); round++) {
		const uint8_t *at = area(&c);

		for (uint32_t slot = 0; slot < KY_PLACE_SLOTS; slot++) {
			struct ky_place_seen seen;
			uint64_t now = __atomic_load_n(&test_ticks, __ATOMIC_RELAXED);

			if (ky_ring_view_place(at, slot, now, &seen) != KY_PLACE_WHOLE)
				continue;
			seen_count++;
			assert_int_equal(ky_ring_view_place_stack(at, seen.stacks[0], frames), 3);
			assert_int_equal(frames[0], 0x1000 + (seen.task_word >> KYMO_NAME_BITS));
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
		for (uint32_t slot = 0; slot < KY_PLACE_SLOTS; slot++) {
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
	memset(ky_ring_places(ky_engine.ring), 0, KY_PLACE_SLOTS_OFFSET);
}

static void detach__may_empty_the_table_at_any_moment(void **state)
{
	struct ky_place_seen seen;
	struct case_ c;

	(void)state;
	open_case(&c);
	(void)poll(&c, 1, 0);
	at_claim = empty_table;
	put(2, 0x1000); /* in its home */
	assert_null(at_claim);
	assert_int_equal(look(&c, 2, &seen), 0);
	for (uint64_t task = 1; task < KY_PLACE_SLOTS; task++)
		put(task, 0x1000);
	at_claim = empty_table;
	for (uint64_t task = KY_PLACE_SLOTS; at_claim; task++)
		put(task, 0x1000); /* away from home, where there is room at all */
	put(2, 0x1000);
	assert_true(look(&c, 2, &seen) >= 1);
	assert_int_equal(seen.task_word >> KYMO_NAME_BITS, 2);
	test_recorder_close(&c.test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place__takes_no_memory_before_it_is_used),
		cmocka_unit_test(place__is_seen_from_outside_until_the_task_ends),
		cmocka_unit_test(place__says_since_when_and_how_long_it_waits),
		cmocka_unit_test(place__is_told_as_it_is_at_the_end_of_the_poll),
		cmocka_unit_test(place__of_a_task_that_is_over_stays_free),
		cmocka_unit_test(choice__idle_tasks_always_others_by_chance),
		cmocka_unit_test(choice__is_the_rule_at_every_poll),
		cmocka_unit_test(choice__not_taken_makes_the_place_old),
		cmocka_unit_test(choice__new_tasks_are_taken_while_the_budget_lasts),
		cmocka_unit_test(table__holds_what_it_says_and_counts_the_rest),
		cmocka_unit_test(table__has_room_whatever_lies_between_the_tasks),
		cmocka_unit_test(table__keeps_tasks_made_together_on_few_pages),
		cmocka_unit_test(stacks__beyond_the_room_are_counted),
		cmocka_unit_test(table__is_whole_while_it_is_written),
		cmocka_unit_test(reader__follows_nothing_it_has_not_checked),
		cmocka_unit_test(detach__may_empty_the_table_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
