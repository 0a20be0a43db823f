/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A damaged unwind area, and a stack that has nothing to do with it.
 * Promises: nothing outside of the area and the stack is read, a walk has at most as many frames as
 * there is room for, and the same bytes give the same walk.
 *
 * The input: pc, sp, fp, second, used bytes, index word (8 bytes each), a count of modules and of
 * bytes of the stack (2 bytes each); the modules; the stack, at STACK; the rest is the area behind
 * its head. */
#include "fuzz_target.h"

#include <string.h>
#include <unwind/unwind_walk.h>

#define STACK 0x400000u
#define WORDS 6u
#define PREFIX_BYTES (WORDS * 8u + 4u)
#define FRAMES_MAX 64u

static bool read_none(void *ctx, uint64_t address, uint64_t *out)
{
	(void)ctx;
	*out = address * 3;
	return address % 3 != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	uint64_t words[WORDS], first[FRAMES_MAX], second[FRAMES_MAX];
	struct ky_walk walk = {.frames = first, .frames_max = FRAMES_MAX}, again = walk;
	struct ky_walk_memory memory = {.low = STACK, .read = read_none};
	struct ky_unwind_head *head;
	struct ky_walk_start start;
	struct ky_unwind_view view;
	uint16_t counts[2];
	uint8_t *area, *stack;
	size_t modules_bytes;

	if (count < PREFIX_BYTES)
		return 0;
	memcpy(words, bytes, sizeof(words));
	memcpy(counts, bytes + sizeof(words), sizeof(counts));
	bytes += PREFIX_BYTES;
	count -= PREFIX_BYTES;
	modules_bytes = counts[0] * sizeof(struct ky_unwind_module);
	if (counts[0] > 16 || modules_bytes > count || counts[1] > count - modules_bytes)
		return 0;
	/* Of their very size, for whoever watches over memory. */
	stack = malloc(counts[1] + 1u);
	view.area_bytes = sizeof(*head) + (count - modules_bytes - counts[1]);
	area = aligned_alloc(64, (view.area_bytes + 63) & ~UINT64_C(63));
	FUZZ_CHECK(stack && area);
	memset(area, 0, sizeof(*head));
	head = (struct ky_unwind_head *)(void *)area;
	memcpy(head->modules, bytes, modules_bytes);
	memcpy(stack, bytes + modules_bytes, counts[1]);
	memcpy(area + sizeof(*head), bytes + modules_bytes + counts[1],
	       (size_t)view.area_bytes - sizeof(*head));
	for (uint32_t i = 0; i < counts[0]; i++)
		head->index[0][i] = head->index[1][i] = (uint16_t)i;
	atomic_store_explicit(&head->used_bytes, words[4], memory_order_relaxed);
	atomic_store_explicit(&head->index_word, words[5], memory_order_relaxed);
	view.area = area;
	memory.high = STACK + counts[1];
	memory.bytes = stack;
	start = (struct ky_walk_start){.pc = words[0],
				       .sp = words[1],
				       .fp = words[2],
				       .second = words[3],
				       .is_fp_known = (words[1] & 1) == 0,
				       .is_second_known = (words[1] & 2) == 0};
	ky_unwind_walk(&walk, &view, &memory, &start);
	FUZZ_CHECK(walk.count >= 1 && walk.count <= FRAMES_MAX && first[0] == words[0]);
	FUZZ_CHECK(walk.end <= KY_WALK_FULL && walk.guessed_count <= walk.count);
	again.frames = second;
	ky_unwind_walk(&again, &view, &memory, &start);
	FUZZ_CHECK(again.count == walk.count && again.end == walk.end);
	FUZZ_CHECK(memcmp(first, second, walk.count * sizeof(first[0])) == 0);
	free(stack);
	free(area);
	return 0;
}
