/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Chains that are recognized, beside walks in full: calls by chance through functions of all
 * shapes, of which ky_chain_find() and a walk have to say the same. Built with frame pointers and
 * without. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <record/emit/emit_engine.h>
#include <record/sample/chain_memory.h>
#include <record/sample/stack_walk.h>
#include <base/testpoint.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind/unwind_keeper.h>

#if defined(__clang__)
#define KEPT __attribute__((noinline, used))
#else
#define KEPT __attribute__((noinline, noclone, used))
#endif

struct case_ {
	struct test_recorder test;
	struct ky_stack_store store;
	struct ky_place_head *head;
	uint64_t until_sp, random;
	uint32_t wrong, count, truncated;
};

static struct case_ c;
static volatile uint32_t sink;

static uint32_t chance(uint32_t of)
{
	c.random = c.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(c.random >> 33) % of;
}

static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	memcpy(ky_engine.ring->unwind + offset, bytes, count);
	return 0;
}

static struct ky_unwind_keeper *keeper;

static void make_tables(void)
{
	struct ky_unwind_target target = {.pid = (uint32_t)getpid(),
					  .area_bytes = ky_engine.ring->unwind_bytes,
					  .write = put};

	assert_int_equal(ky_unwind_keeper_open(&keeper, &target), 0);
	atomic_store(&ky_engine.ring->header->unwind_ready, 1);
	assert_true(ky_unwind_keeper_scan(keeper) >= 0);
}

static int setup(void **state)
{
	uint8_t *area;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.random = 7;
	test_recorder_open(&c.test, 0, 0);
	kymo_poll_begin(1, 5, 0);
	kymo_poll_end(0);
	make_tables();
	area = ky_ring_places(ky_engine.ring);
	assert_non_null(area);
	c.head = (struct ky_place_head *)(void *)area;
	c.store = ky_chain_store(c.head);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_unwind_keeper_close(keeper);
	test_recorder_close(&c.test);
	return 0;
}

KEPT static void leaf(void)
{
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], kept[KYMO_PLACE_FRAMES_MAX];
	struct kymo_stack stack = {
		.frames = frames, .frames_max = KYMO_PLACE_FRAMES_MAX, .until_sp = c.until_sp};
	struct kymo_stack_start start;
	struct ky_chain is;

	KYMO_STACK_HERE(&start);
	is = ky_chain_find(ky_engine.ring, c.head, &start, c.until_sp, KYMO_PLACE_FRAMES_MAX);
	kymo_stack_capture(&stack, &start);
	c.count++;
	c.truncated += is.is_truncated || stack.end != KYMO_STACK_REACHED;
	if (ky_stack_store_frames(&c.store, is.stack, kept, KYMO_PLACE_FRAMES_MAX) != stack.count ||
	    memcmp(kept, frames, stack.count * sizeof(frames[0])) != 0)
		c.wrong++;
}

/* One that keeps registers, one of a frame of its own size, one whose size nobody knows before, one
 * that aligns its frame; each calls on at two places. */
typedef void (*link_fn)(uint32_t depth);
KEPT static void plain(uint32_t depth);
KEPT static void large(uint32_t depth);
KEPT static void sized(uint32_t depth);
KEPT static void aligned(uint32_t depth);

static void call_on(uint32_t depth)
{
	static const link_fn links[] = {plain, large, sized, aligned};

	if (depth == 0)
		leaf();
	else
		links[chance(4)](depth - 1);
}

static void plain(uint32_t depth)
{
	uint32_t kept = chance(100);

	if (chance(2))
		call_on(depth);
	else
		call_on(depth);
	sink += kept;
}

static void large(uint32_t depth)
{
	volatile uint8_t room[200];

	room[depth] = 1;
	call_on(depth);
	sink += room[depth];
}

static void sized(uint32_t depth)
{
	volatile uint8_t *room = __builtin_alloca(16 + 16 * chance(3));

	room[0] = 1;
	call_on(depth);
	sink += room[0];
}

static void aligned(uint32_t depth)
{
	_Alignas(64) volatile uint8_t room[64];

	room[0] = (uint8_t)depth;
	if (chance(2))
		call_on(depth);
	sink += room[0];
	call_on(depth);
}

KEPT static void poll_once(uint32_t depth)
{
	struct kymo_stack_start here;

	/* What it calls ends below, as a poll does below its caller: the registers that are saved
	 * here lie above. */
	KYMO_STACK_HERE(&here);
	c.until_sp = here.sp;
	call_on(depth);
	sink++;
}

#if defined(__SANITIZE_ADDRESS__)
#define HAS_OWN_FRAMES true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_OWN_FRAMES true
#endif
#endif
#ifndef HAS_OWN_FRAMES
#define HAS_OWN_FRAMES false
#endif

static void skip_where_frames_are_not_remembered(void)
{
	if (!HAS_OWN_FRAMES)
		return;
	print_message("# chains through the sanitizer's frames are walked each time\n");
	skip();
}

static void chain__recognized_is_what_a_walk_says(void **state)
{
	uint64_t walked;

	(void)state;
	skip_where_frames_are_not_remembered();
	for (uint32_t i = 0; i < 30000; i++)
		poll_once(i % 4);
	assert_int_equal(c.wrong, 0);
	assert_int_equal(c.truncated, 0);
	walked = atomic_load(&c.head->walked_count);
	assert_true(c.count > 30000);
	assert_true(walked > 100); /* of some hundred different ones the first */
#if !defined(__SANITIZE_THREAD__)
	/* Most were recognized. Under the thread sanitizer call_on() stays a function, so too many
	 * chains have the same leaf, return address and depth. */
	assert_true(walked < c.count / 4);
#endif
}

static void chain__seen_before_is_not_walked_again(void **state)
{
	uint64_t walked;

	(void)state;
	skip_where_frames_are_not_remembered();
	poll_once(0);
	walked = atomic_load(&c.head->walked_count);
	for (uint32_t i = 0; i < 100; i++)
		poll_once(0);
	assert_int_equal(atomic_load(&c.head->walked_count), walked);
	assert_int_equal(atomic_load(&c.head->unremembered), 0);
}

static void chain__is_walked_again_after_a_change_of_the_tables(void **state)
{
	struct ky_unwind_head *tables = (void *)ky_engine.ring->unwind;
	uint64_t walked;

	(void)state;
	skip_where_frames_are_not_remembered();
	poll_once(0);
	walked = atomic_load(&c.head->walked_count);
	atomic_fetch_add(&tables->index_word, UINT64_C(2) << 32);
	poll_once(0);
	poll_once(0);
	assert_int_equal(atomic_load(&c.head->walked_count), walked + 1);
	assert_int_equal(c.wrong, 0);
}

/* ---- another thread changes what is compared ---- */

static void (*step_in)(void);

void ky_testpoint(const char *name)
{
	void (*now)(void) = step_in;

	if (!now || strcmp(name, "chain.compare") != 0)
		return;
	step_in = NULL;
	now();
}

#define FAR_BYTES (200u << 10)

/* The first word of its walk is its return address, which lies far up the stack. */
KEPT static void poll_far(void)
{
	volatile uint8_t *room = __builtin_alloca(FAR_BYTES);
	uint64_t caller_sp = (uint64_t)(uintptr_t)__builtin_frame_address(0) + 2 * sizeof(uint64_t);
	struct kymo_stack_start start;

	room[0] = 1;
	KYMO_STACK_HERE(&start);
	(void)ky_chain_find(ky_engine.ring, c.head, &start, caller_sp, KYMO_PLACE_FRAMES_MAX);
	sink += room[0];
}

static void change_tables(uint64_t by)
{
	struct ky_unwind_head *tables = (void *)ky_engine.ring->unwind;

	atomic_fetch_add(&tables->index_word, by << 32);
}

/* A library was loaded, and the first chain of the new tables takes the words of the first one of
 * the old. */
static void remember_another(void)
{
	change_tables(2);
	poll_far();
}

static void *poll_near_the_end(void *ctx)
{
	change_tables(100); /* so that this is their first chain */
	poll_once(0);
	step_in = remember_another;
	poll_once(0);
	*(bool *)ctx = step_in == NULL;
	return NULL;
}

/* Nothing is mapped behind this thread's stack. */
static void chain__that_changes_while_it_is_compared_leads_to_no_other_stack(void **state)
{
	const size_t bytes = 1u << 20;
	uint8_t *area = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	bool has_changed = false;

	(void)state;
	skip_where_frames_are_not_remembered();
	assert_true(area != MAP_FAILED);
	assert_int_equal(mprotect(area, bytes, PROT_READ | PROT_WRITE), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, area, bytes), 0);
	assert_int_equal(pthread_create(&thread, &attr, poll_near_the_end, &has_changed), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_true(has_changed);
	assert_int_equal(c.wrong, 0);
	munmap(area, 2 * bytes);
}

/* Of a full /dev/shm a page that does not exist yet cannot be had, not even to read zeros of it: as
 * little as this one. */
static void chain__without_tables_touches_no_page_of_theirs(void **state)
{
	uint8_t *unwind;

	(void)state;
	skip_where_frames_are_not_remembered();
	poll_once(0); /* the thread's stack is known from here on */
	test_recorder_close(&c.test);
	test_recorder_open(&c.test, 0, 0);
	kymo_poll_begin(1, 5, 0);
	kymo_poll_end(0);
	c.head = (struct ky_place_head *)(void *)ky_ring_places(ky_engine.ring);
	assert_non_null(c.head);
	unwind = ky_engine.ring->unwind;
	assert_int_equal(mprotect(unwind, KYMO_ARCH_PAGE_BYTES, PROT_NONE), 0);
	poll_far();
	assert_int_equal(mprotect(unwind, KYMO_ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(atomic_load(&c.head->walked_count), 0);
}

static void chain__without_tables_is_not_known(void **state)
{
	const struct kymo_stack_start start = {.pc = 1};

	(void)state;
	atomic_store(&ky_engine.ring->header->unwind_ready, 0);
	assert_int_equal(
		ky_chain_find(ky_engine.ring, c.head, &start, 0, KYMO_PLACE_FRAMES_MAX).stack,
		KY_PLACE_NO_STACK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(chain__recognized_is_what_a_walk_says),
		CASE(chain__seen_before_is_not_walked_again),
		CASE(chain__is_walked_again_after_a_change_of_the_tables),
		CASE(chain__that_changes_while_it_is_compared_leads_to_no_other_stack),
		CASE(chain__without_tables_touches_no_page_of_theirs),
		CASE(chain__without_tables_is_not_known),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
