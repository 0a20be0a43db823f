/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Walks over a table and a stack that are made here: one rule of each kind, step by step. */
#include "../../lib/cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <unwind/unwind_walk.h>

#define CODE 0x10000u
#define STACK 0x400000u
#define WORDS 128u
#define FUNCTION_BYTES 512u /* a block each */

struct area {
	struct ky_unwind_head head;
	uint32_t blocks[8];
	struct ky_unwind_row rows[8];
	struct ky_unwind_wide wides[2];
};

static _Alignas(64) struct area area;
static uint64_t stack[WORDS];
static uint64_t frames[16];
static struct ky_walk walk;

static uint32_t rule(enum ky_unwind_kind kind, uint32_t offset, uint32_t fp, uint32_t second)
{
	return (uint32_t)kind | offset << 4 | fp << 18 | second << 25;
}

/* Function i, somewhere in it. */
static uint64_t in(uint32_t function)
{
	return CODE + function * FUNCTION_BYTES + 20;
}

/* Function 7 is the first one of a thread. */
static int prepare(void **state)
{
	(void)state;
	memset(&area, 0, sizeof(area));
	memset(stack, 0, sizeof(stack));
	for (uint32_t i = 0; i < 8; i++) {
		area.blocks[i] = i;
		area.rows[i] = (struct ky_unwind_row){i * FUNCTION_BYTES, KY_UNWIND_BEYOND};
	}
	area.rows[7].rule = KY_UNWIND_FIRST;
	area.head.modules[0] = (struct ky_unwind_module){
		.wide_count = 2,
		.start = CODE,
		.end = CODE + 8 * FUNCTION_BYTES,
		.base = CODE,
		.blocks_offset = offsetof(struct area, blocks),
		.rows_offset = offsetof(struct area, rows),
		.wide_offset = offsetof(struct area, wides),
		.block_count = 8,
		.row_count = 8};
	area.head.used_bytes = sizeof(area);
	area.head.index_word = 1;
	return 0;
}

static void go(struct ky_walk_start start)
{
	const struct ky_unwind_view view = {(const uint8_t *)&area, sizeof(area)};
	const struct ky_walk_memory memory = {
		.low = STACK, .high = STACK + sizeof(stack), .bytes = (const uint8_t *)stack};

	walk = (struct ky_walk){.frames = frames, .frames_max = 16};
	ky_unwind_walk(&walk, &view, &memory, &start);
}

static struct ky_walk_start at(uint32_t function, uint32_t word)
{
	return (struct ky_walk_start){.pc = in(function),
				      .sp = STACK + word * 8u,
				      .is_fp_known = true,
				      .is_second_known = true};
}

static void check(uint32_t end, uint32_t count)
{
	assert_int_equal(walk.end, end);
	assert_int_equal(walk.count, count);
}

static void walk__callers_lie_inside_their_calls(void **state)
{
	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 2, 0, 0);
	stack[1] = CODE + 2 * FUNCTION_BYTES; /* the call ended function 1 */
	stack[3] = in(7);
	go(at(1, 0));
	check(KY_WALK_FIRST, 3);
	assert_int_equal(frames[0], in(1));
	assert_int_equal(frames[1], CODE + 2 * FUNCTION_BYTES - 1);
	assert_int_equal(frames[2], in(7) - 1);
}

static void walk__follows_saved_frame_pointers(void **state)
{
	struct ky_walk_start start = at(1, 0);

	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 3, 2, 0);
	area.rows[2].rule = rule(KY_UNWIND_BY_FP, 2, 2, 0);
	stack[1] = STACK + 10 * 8; /* the caller's fp */
	stack[2] = in(2);
	stack[11] = in(7);
	start.fp = 1; /* of no use: it is saved */
	go(start);
	check(KY_WALK_FIRST, 3);
	start = at(2, 0);
	start.is_fp_known = false;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
}

/* As the loader's entry does it, and its caller's rbx comes back. */
static void walk__follows_the_second_register(void **state)
{
	struct ky_walk_start start = at(1, 0);

	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 3, 0, 2);
	area.rows[2].rule = rule(KY_UNWIND_BY_SECOND, 2, 0, 2);
	stack[1] = STACK + 20 * 8;
	stack[2] = in(2);
	stack[21] = in(7);
	go(start);
	check(KY_WALK_FIRST, 3);
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 3, 0, KY_UNWIND_LOST);
	go(start);
	check(KY_WALK_UNKNOWN, 2);
}

/* `pop rbx; pop rbp; ret`: at the last one the tables name places below sp. */
static void walk__a_register_that_was_popped_is_itself_again(void **state)
{
	struct ky_walk_start start = at(1, 0);

	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 1, 2, 3);
	area.rows[2].rule = rule(KY_UNWIND_BY_SECOND, 2, 0, 0);
	area.rows[3].rule = rule(KY_UNWIND_BY_FP, 2, 0, 0);
	stack[0] = in(2);
	stack[21] = in(3);
	stack[31] = in(7);
	start.second = STACK + 20 * 8;
	start.fp = STACK + 30 * 8;
	go(start);
	check(KY_WALK_FIRST, 4);
	/* A caller's lies in its stack, or nowhere. */
	area.rows[4].rule = rule(KY_UNWIND_BY_SP, 1, 0, 0);
	stack[0] = in(1);
	stack[1] = in(7);
	start.pc = in(4);
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 1, 3, 0);
	go(start);
	check(KY_WALK_UNREADABLE, 2);
}

static void walk__knows_where_a_linkage_entry_has_pushed(void **state)
{
	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_PLT, 11, 0, 0);
	stack[0] = in(7);
	for (uint32_t i = 0; i < 16; i++) {
		struct ky_walk_start start = at(1, i < 11 ? 0 : 4);

		start.pc = CODE + FUNCTION_BYTES + i;
		stack[5] = in(7);
		go(start);
		check(KY_WALK_FIRST, 2);
	}
}

static void walk__follows_wide_rules(void **state)
{
	uint64_t registers[KY_UNWIND_REGISTERS] = {0};
	struct ky_walk_start start = at(1, 0);

	(void)state;
	/* fp was aligned: the CFA lies below it, the caller's fp where it points. */
	area.rows[1].rule = rule(KY_UNWIND_WIDE, 0, 0, 0);
	area.rows[2].rule = rule(KY_UNWIND_BY_FP, 2, 2, 0);
	area.wides[0] = (struct ky_unwind_wide){.base = KY_UNWIND_FP,
						.is_indirect = 1,
						.fp_from_base = 1,
						.offset = -8,
						.further = 8,
						.fp = 1};
	start.fp = STACK + 10 * 8;
	stack[9] = STACK + 19 * 8;
	stack[11] = STACK + 30 * 8;
	stack[19] = in(2);
	stack[31] = in(7);
	go(start);
	check(KY_WALK_FIRST, 3);
	/* A register that only the innermost frame knows. */
	area.wides[0] = (struct ky_unwind_wide){.base = 10, .offset = 0};
	registers[10] = STACK + 20 * 8;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	start.registers = registers;
	go(start);
	check(KY_WALK_UNREADABLE, 2); /* function 2, whose fp is still the old one */
	assert_int_equal(frames[1], in(2) - 1);
}

/* The interrupted pc stands where it stands, on whatever stack. */
static void walk__leaves_a_signal(void **state)
{
	(void)state;
	area.rows[1].rule = KY_UNWIND_SIGNAL;
	area.rows[2].rule = rule(KY_UNWIND_BY_SP, 1, 0, 0);
	stack[KY_UNWIND_SIGNAL_SP / 8] = STACK + 100 * 8;
	stack[KY_UNWIND_SIGNAL_PC / 8] = CODE + 2 * FUNCTION_BYTES;
	stack[100] = in(7);
	go(at(1, 0));
	check(KY_WALK_FIRST, 3);
	assert_int_equal(frames[1], CODE + 2 * FUNCTION_BYTES);
}

static void walk__a_stack_that_makes_no_sense_ends_it(void **state)
{
	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 1, 0, 0);
	go(at(1, WORDS)); /* beyond its end */
	check(KY_WALK_UNREADABLE, 1);
	area.rows[1].rule = rule(KY_UNWIND_BY_FP, 2, 0, 0);
	stack[41] = in(1);
	go((struct ky_walk_start){
		.pc = in(1), .sp = STACK, .fp = STACK + 40 * 8, .is_fp_known = true});
	check(KY_WALK_UNREADABLE, 2); /* the same frame again */
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 1, 0, 0);
	stack[0] = 0;
	go(at(1, 0));
	check(KY_WALK_FIRST, 1); /* as some threads begin */
	stack[0] = 0x77;
	go(at(1, 0));
	check(KY_WALK_FIRST, 2); /* bare code, and a frame pointer of 0 */
}

static void walk__bare_code_needs_a_caller_that_is_known(void **state)
{
	struct ky_walk_start start = at(0, 0);

	(void)state;
	start.pc = 0x77;
	start.fp = STACK + 16;
	stack[3] = in(7);
	go(start);
	check(KY_WALK_FIRST, 2);
	assert_int_equal(walk.guessed_count, 1);
	stack[3] = 0x99;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	start.fp = STACK + 3;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	start.is_fp_known = false;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
}

/* Word i of the stack: a frame that `next` follows, and where it returns to. */
static void put_frame(uint32_t i, uint32_t next, uint64_t pc)
{
	stack[i] = STACK + next * 8u;
	stack[i + 1] = pc;
}

static void walk__code_made_at_run_time_calls_its_like(void **state)
{
	struct ky_walk_start start = at(0, 0);

	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_FP, 2, 2, 0);
	start.pc = 0x900077;
	start.fp = STACK + 2 * 8;
	put_frame(2, 6, 0x900099);
	put_frame(6, 10, 0x8000aa);
	put_frame(10, 20, in(1));
	put_frame(20, 0, in(7));
	go(start);
	check(KY_WALK_FIRST, 5);
	assert_int_equal(frames[1], 0x900098);
	assert_int_equal(frames[2], 0x8000a9);
	assert_int_equal(frames[3], in(1) - 1);
	assert_int_equal(walk.guessed_count, 3);
	/* It goes back, it is not even, it lies elsewhere, it leads nowhere. */
	put_frame(6, 2, 0x8000aa);
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	stack[6] = STACK + 10 * 8 + 4;
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	put_frame(6, 10, 0x7fff12345678);
	go(start);
	check(KY_WALK_UNKNOWN, 1);
	put_frame(6, WORDS, 0x8000aa);
	go(start);
	check(KY_WALK_UNKNOWN, 1);
}

static void walk__code_of_a_module_has_no_such_callers(void **state)
{
	struct ky_walk_start start = at(0, 0);

	(void)state;
	area.rows[0].rule = KY_UNWIND_NO_CODE;
	start.fp = STACK + 2 * 8;
	put_frame(2, 6, 0x8000aa);
	put_frame(6, 10, in(7));
	go(start);
	check(KY_WALK_UNKNOWN, 1);
}

static void walk__stops_where_the_room_ends(void **state)
{
	(void)state;
	area.rows[1].rule = rule(KY_UNWIND_BY_SP, 1, 0, 0);
	for (uint32_t i = 0; i < WORDS; i++)
		stack[i] = in(1);
	go(at(1, 0));
	check(KY_WALK_FULL, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(walk__callers_lie_inside_their_calls, prepare),
		cmocka_unit_test_setup(walk__follows_saved_frame_pointers, prepare),
		cmocka_unit_test_setup(walk__follows_the_second_register, prepare),
		cmocka_unit_test_setup(walk__a_register_that_was_popped_is_itself_again, prepare),
		cmocka_unit_test_setup(walk__knows_where_a_linkage_entry_has_pushed, prepare),
		cmocka_unit_test_setup(walk__follows_wide_rules, prepare),
		cmocka_unit_test_setup(walk__leaves_a_signal, prepare),
		cmocka_unit_test_setup(walk__a_stack_that_makes_no_sense_ends_it, prepare),
		cmocka_unit_test_setup(walk__bare_code_needs_a_caller_that_is_known, prepare),
		cmocka_unit_test_setup(walk__code_made_at_run_time_calls_its_like, prepare),
		cmocka_unit_test_setup(walk__code_of_a_module_has_no_such_callers, prepare),
		cmocka_unit_test_setup(walk__stops_where_the_room_ends, prepare),
	};

	if (KY_UNWIND_LINKED) {
		print_message("1..0 # SKIP rules of another CPU\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
