/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_walk.h - from where a thread stands to its first function, by the tables of its process.
 *
 * Exact or not at all: where a frame has no rule that we follow, the walk ends there and says so.
 * Only where no table covers the pc (code made at run time, assembly without unwind data) it goes
 * by the frame pointer, and counts that; the caller it finds must lie in code that a table covers,
 * or be code made at run time as well, whose frames lead there one after the other.
 *
 * Invariants:  nothing of the stack is read that the caller has not said is there: a damaged stack
 *              or table gives a short walk, never a fault. Bounded by frames_max. No lock, no
 *              allocation, no recursion, no call but to the caller's own reader.
 * Threads:     any.      Signals: safe.      Cost: some 30 ns a frame.
 */
#ifndef KY_UNWIND_UNWIND_WALK_H
#define KY_UNWIND_UNWIND_WALK_H

#include <unwind/unwind_table.h>

/* How the stack is read. */
struct ky_walk_memory {
	uint64_t low, high;   /* what can be read as it stands; empty: nothing */
	const uint8_t *bytes; /* where `low` is copied to; NULL: it lies where it lies */
	/* For what is not between; NULL: the walk ends there. */
	bool (*read)(void *ctx, uint64_t address, uint64_t *out);
	void *ctx;
};

/* Where the thread stands: its registers in the innermost frame. */
struct ky_walk_start {
	uint64_t pc, sp, fp, second; /* second: rbx; on aarch64 the link register */
	bool is_fp_known, is_second_known;
	const uint64_t *registers; /* all, by DWARF number; NULL: only those above */
};

enum ky_walk_end {
	KY_WALK_FIRST = 0,  /* the thread's first function was reached */
	KY_WALK_REACHED,    /* the frame that was asked for was reached */
	KY_WALK_UNKNOWN,    /* code without a rule, or with one that we do not follow */
	KY_WALK_UNREADABLE, /* the stack ends, or makes no sense */
	KY_WALK_FULL        /* there are more frames than room */
};

/* What a walk has read of the stack and followed: it ends the same wherever these are the same. */
struct ky_walk_input {
	uint64_t at; /* its address; KY_WALK_AT_FP, KY_WALK_AT_SECOND: a register at the start */
	uint64_t value;
	bool is_stack; /* it leads into the stack: the same, counted from sp */
};
#define KY_WALK_AT_FP 1u
#define KY_WALK_AT_SECOND 2u

struct ky_walk {
	uint64_t *frames; /* the innermost as it stands, callers: the return address - 1 */
	uint32_t frames_max;
	uint64_t until_sp; /* frames below this address are wanted; 0: all */
	uint32_t count;
	uint32_t end; /* enum ky_walk_end */
	/* frames without a table left by their frame pointer, or by one that was searched for */
	uint32_t guessed_count;
	uint64_t last_pc;             /* of the last frame, as it stands */
	struct ky_walk_input *inputs; /* NULL: not wanted */
	uint32_t inputs_max, input_count;
	bool is_by_inputs; /* nothing but pc, tables and `inputs` decided; set where wanted */
};

/* frames, frames_max, until_sp, inputs and inputs_max are set by the caller, the rest here. */
void ky_unwind_walk(struct ky_walk *walk, const struct ky_unwind_view *view,
		    const struct ky_walk_memory *memory, const struct ky_walk_start *start);

#endif
