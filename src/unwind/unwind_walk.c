/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <unwind/unwind_search.h>
#include <unwind/unwind_walk.h>

/* It reads the stacks of others, about which instrumentation has its own opinion. */
#define RAW __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* Of code made at run time, between two frames of code that a table covers. */
#define CHAIN_MAX 64u
#define CHAIN_BYTES_MAX (UINT64_C(1) << 31)

struct frame {
	uint64_t pc, sp, fp, second;
	uint64_t fp_at, second_at; /* where they were read: struct ky_walk_input */
	bool is_fp_known, is_second_known;
	bool is_exact;             /* pc is where it stands, not after a call */
	const uint64_t *registers; /* NULL: not known */
};

enum walk_step {
	STEP_OUT, /* on to the caller */
	STEP_END
};

struct walker {
	const struct ky_unwind_view *view;
	const struct ky_walk_memory *memory;
	struct ky_walk *walk;
	struct frame frame;
	struct ky_unwind_code code; /* the module of the last lookup */
	uint64_t chain_end;         /* frame pointers up to here lead to code that a table covers */
};

RAW static inline bool read_word(const struct ky_walk_memory *memory, uint64_t address,
				 uint64_t *out)
{
	const uint8_t *at;

	if (address < memory->low || address >= memory->high || memory->high - address < 8)
		return memory->read && memory->read(memory->ctx, address, out);
	at = memory->bytes ? memory->bytes + (address - memory->low) :
			     (const uint8_t *)(uintptr_t)address;
	/* Aligned or not: one load on the CPUs that we know. */
	*out = *(const volatile uint64_t *)(const void *)at;
	return true;
}

static inline void note_input(struct walker *walker, uint64_t at, uint64_t value, bool is_stack)
{
	struct ky_walk *walk = walker->walk;

	if (!walk->inputs)
		return;
	if (walk->input_count == walk->inputs_max)
		walk->is_by_inputs = false;
	else
		walk->inputs[walk->input_count++] = (struct ky_walk_input){at, value, is_stack};
}

static enum walk_step end(struct walker *walker, enum ky_walk_end how)
{
	walker->walk->end = (uint32_t)how;
	return STEP_END;
}

static bool is_code(struct walker *walker, uint64_t pc)
{
	return pc - walker->code.start < walker->code.end - walker->code.start ||
	       ky_unwind_code_of(walker->view, pc, &walker->code);
}

/* The registers of the thread that was interrupted by a signal, from the kernel's frame. Its stack
 * may be another one. */
static enum walk_step leave_signal(struct walker *walker)
{
	struct frame *frame = &walker->frame;
	uint64_t sp = frame->sp;

	walker->walk->is_by_inputs = false;
	if (!read_word(walker->memory, sp + KY_UNWIND_SIGNAL_FP, &frame->fp) ||
	    !read_word(walker->memory, sp + KY_UNWIND_SIGNAL_SECOND, &frame->second) ||
	    !read_word(walker->memory, sp + KY_UNWIND_SIGNAL_SP, &frame->sp) ||
	    !read_word(walker->memory, sp + KY_UNWIND_SIGNAL_PC, &frame->pc))
		return end(walker, KY_WALK_UNREADABLE);
	frame->is_fp_known = frame->is_second_known = frame->is_exact = true;
	frame->registers = NULL;
	return STEP_OUT;
}

/* Code made at run time calls its like. Its frames are believed where their pointers go one way,
 * and on to a caller that a table covers; it lies together, so data on the stack is hardly taken
 * for it. pc: what fp leads to. */
static bool is_chain(struct walker *walker, uint64_t fp, uint64_t next_fp, uint64_t pc)
{
	uint64_t from = walker->frame.pc;

	if (fp <= walker->chain_end)
		return true;
	for (uint32_t i = 0; i < CHAIN_MAX; i++) {
		if (pc - from + CHAIN_BYTES_MAX > 2 * CHAIN_BYTES_MAX || next_fp <= fp ||
		    next_fp % 8)
			return false;
		fp = next_fp;
		if (!read_word(walker->memory, fp, &next_fp) ||
		    !read_word(walker->memory, fp + 8, &pc))
			return false;
		pc &= KY_UNWIND_PC_MASK;
		if (is_code(walker, pc - 1)) {
			walker->chain_end = fp;
			return true;
		}
	}
	return false;
}

/* No table: by the frame pointer, which ends in 0 (x86-64 ABI 3.4.1). A leaf that has made no frame
 * of its own hides its caller: so this is counted. */
static enum walk_step leave_by_frame_pointer(struct walker *walker)
{
	struct frame *frame = &walker->frame;
	uint64_t at = frame->pc - !frame->is_exact, fp = frame->fp, next_fp, pc;
	bool is_in_module = is_code(walker, at);

	walker->walk->is_by_inputs = false;
	if (!frame->is_fp_known)
		return end(walker, KY_WALK_UNKNOWN);
	if (fp == 0)
		return end(walker, KY_WALK_FIRST);
	if (fp < frame->sp || fp % 8)
		return end(walker, KY_WALK_UNKNOWN);
	if (!read_word(walker->memory, fp, &next_fp) || !read_word(walker->memory, fp + 8, &pc))
		return end(walker, KY_WALK_UNREADABLE);
	pc &= KY_UNWIND_PC_MASK;
	if (pc == 0)
		return end(walker, KY_WALK_FIRST);
	if (!is_code(walker, pc - 1) && (is_in_module || !is_chain(walker, fp, next_fp, pc)))
		return end(walker, KY_WALK_UNKNOWN);
	frame->sp = fp + 16;
	frame->fp = next_fp;
	frame->pc = pc;
	frame->is_second_known = frame->is_exact = false;
	frame->registers = NULL;
	walker->walk->guessed_count++;
	return STEP_OUT;
}

/* A register of the frame that a wide rule stands on. */
static bool base_of(struct walker *walker, uint32_t idx, uint64_t *out)
{
	const struct frame *frame = &walker->frame;
	bool is_known = true;

	if (idx == KY_UNWIND_SP) {
		*out = frame->sp;
	} else if (idx == KY_UNWIND_FP) {
		*out = frame->fp;
		is_known = frame->is_fp_known;
		note_input(walker, frame->fp_at, frame->fp, true);
	} else if (idx == KY_UNWIND_SECOND) {
		*out = frame->second;
		is_known = frame->is_second_known;
		note_input(walker, frame->second_at, frame->second, true);
	} else {
		walker->walk->is_by_inputs = false;
		is_known = frame->registers != NULL && idx < KY_UNWIND_REGISTERS;
		*out = is_known ? frame->registers[idx] : 0;
	}
	return is_known;
}

/* place: words from `from`, KY_UNWIND_WIDE_LOST, 0: in the register. False: not readable. */
static bool restore(const struct walker *walker, uint64_t from, int32_t place, uint64_t *value,
		    uint64_t *value_at, bool *is_known)
{
	const struct frame *frame = &walker->frame;
	uint64_t at = from + (uint64_t)((int64_t)place * 8);

	/* Popped again, at the function's end: compilers still report where it was, and a copy of
	 * the stack begins above it. */
	if (place != KY_UNWIND_WIDE_LOST && frame->is_exact && at < frame->sp)
		return true;
	if (place == KY_UNWIND_WIDE_LOST)
		*is_known = false;
	else if (place != 0)
		*is_known = read_word(walker->memory, *value_at = at, value);
	return place == 0 || place == KY_UNWIND_WIDE_LOST || *is_known;
}

static int32_t place_of(uint32_t saved)
{
	return saved == KY_UNWIND_LOST ? KY_UNWIND_WIDE_LOST : -(int32_t)saved;
}

/* Where the caller's registers lie. */
struct way {
	uint64_t cfa;
	uint64_t fp_from;
	int32_t fp, second;
};

static bool find_wide(struct walker *walker, const struct ky_unwind_wide *wide, struct way *way)
{
	uint64_t base;

	if (!base_of(walker, wide->base, &base)) {
		(void)end(walker, KY_WALK_UNKNOWN);
		return false;
	}
	way->cfa = base + (uint64_t)(int64_t)wide->offset;
	if (wide->is_indirect)
		walker->walk->is_by_inputs = false;
	if (wide->is_indirect && !read_word(walker->memory, way->cfa, &way->cfa)) {
		(void)end(walker, KY_WALK_UNREADABLE);
		return false;
	}
	way->cfa += wide->is_indirect ? (uint64_t)(int64_t)wide->further : 0;
	way->fp_from = wide->fp_from_base ? base : way->cfa;
	way->fp = wide->fp;
	way->second = wide->second;
	/* fp itself points to where its caller's lies. */
	return true;
}

/* Only sp and pc were known at the start, and no thread has saved fp since. */
static bool search_fp(struct walker *walker, uint32_t offset, int32_t saved)
{
	struct frame *frame = &walker->frame;

	if (offset != 2 || saved != -2 ||
	    !ky_unwind_search_fp(walker->view, walker->memory, &walker->code, frame->pc, frame->sp,
				 &frame->fp))
		return false;
	walker->walk->guessed_count++;
	walker->walk->is_by_inputs = false;
	return frame->is_fp_known = true;
}

static bool find_way(struct walker *walker, uint32_t rule, const struct ky_unwind_wide *wide,
		     struct way *way)
{
	struct frame *frame = &walker->frame;
	uint32_t offset = ky_unwind_rule_offset(rule);
	bool is_known = true;

	way->fp = place_of(ky_unwind_rule_fp(rule));
	way->second = place_of(ky_unwind_rule_second(rule));
	switch (ky_unwind_rule_kind(rule)) {
	case KY_UNWIND_BY_SP:
		way->cfa = frame->sp + offset * UINT64_C(8);
		break;
	case KY_UNWIND_BY_FP:
		is_known = frame->is_fp_known || search_fp(walker, offset, way->fp);
		way->cfa = frame->fp + offset * UINT64_C(8);
		note_input(walker, frame->fp_at, frame->fp, true);
		break;
	case KY_UNWIND_BY_SECOND:
		way->cfa = frame->second + offset * UINT64_C(8);
		note_input(walker, frame->second_at, frame->second, true);
		is_known = frame->is_second_known;
		break;
	case KY_UNWIND_PLT:
		way->cfa = frame->sp + 8 + (frame->pc % 16 >= offset ? 8 : 0);
		break;
	case KY_UNWIND_WIDE:
		return find_wide(walker, wide, way);
	default:
		way->cfa = 0;
		is_known = false;
		break;
	}
	way->fp_from = way->cfa;
	if (!is_known)
		(void)end(walker, KY_WALK_UNKNOWN);
	return is_known;
}

static enum walk_step leave_by_rule(struct walker *walker, uint32_t rule,
				    const struct ky_unwind_wide *wide)
{
	struct frame *frame = &walker->frame, inner = *frame;
	struct way way;

	if (!find_way(walker, rule, wide, &way))
		return STEP_END;
	/* Stacks grow one way. A leaf that keeps its caller in a register may use none of it. */
	if (way.cfa < inner.sp || (way.cfa == inner.sp && !(KY_UNWIND_LINKED && inner.is_exact)))
		return end(walker, KY_WALK_UNREADABLE);
	if (!restore(walker, way.fp_from, way.fp, &frame->fp, &frame->fp_at, &frame->is_fp_known) ||
	    !restore(walker, way.cfa, way.second, &frame->second, &frame->second_at,
		     &frame->is_second_known))
		return end(walker, KY_WALK_UNREADABLE);
#if KY_UNWIND_LINKED
	if (!frame->is_second_known || (way.second == 0 && !inner.is_exact))
		return end(walker, KY_WALK_UNKNOWN);
	frame->pc = frame->second;
	note_input(walker, frame->second_at, frame->pc, false);
#else
	if (!read_word(walker->memory, way.cfa - 8, &frame->pc))
		return end(walker, KY_WALK_UNREADABLE);
	note_input(walker, way.cfa - 8, frame->pc, false);
#endif
	frame->pc &= KY_UNWIND_PC_MASK;
	frame->sp = way.cfa;
	frame->is_exact = false;
	frame->registers = NULL;
	return frame->pc == 0 ? end(walker, KY_WALK_FIRST) : STEP_OUT;
}

static enum walk_step leave(struct walker *walker)
{
	/* A caller's pc is after its call, which may end the function: search one byte before
	 * it. */
	uint64_t at = walker->frame.pc - !walker->frame.is_exact;
	struct ky_unwind_wide wide;
	uint32_t rule = is_code(walker, at) ? ky_unwind_rule_at(&walker->code, at, &wide) :
					      KY_UNWIND_NO_CODE;

	switch (ky_unwind_rule_kind(rule)) {
	case KY_UNWIND_NO_CODE:
		return leave_by_frame_pointer(walker);
	case KY_UNWIND_BEYOND:
		return end(walker, KY_WALK_UNKNOWN);
	case KY_UNWIND_FIRST:
		return end(walker, KY_WALK_FIRST);
	case KY_UNWIND_SIGNAL:
		return leave_signal(walker);
	default:
		return leave_by_rule(walker, rule, &wide);
	}
}

void ky_unwind_walk(struct ky_walk *walk, const struct ky_unwind_view *view,
		    const struct ky_walk_memory *memory, const struct ky_walk_start *start)
{
	struct walker walker = {.view = view,
				.memory = memory,
				.walk = walk,
				.frame = {.pc = start->pc,
					  .sp = start->sp,
					  .fp = start->fp,
					  .second = start->second,
					  .fp_at = KY_WALK_AT_FP,
					  .second_at = KY_WALK_AT_SECOND,
					  .is_fp_known = start->is_fp_known,
					  .is_second_known = start->is_second_known,
					  .is_exact = true,
					  .registers = start->registers}};

	walk->count = walk->guessed_count = walk->input_count = 0;
	walk->is_by_inputs = walk->inputs != NULL;
	walk->end = KY_WALK_FULL;
	walk->last_pc = 0;
	while (walk->count < walk->frames_max) {
		if (walk->until_sp && walker.frame.sp >= walk->until_sp) {
			walk->end = KY_WALK_REACHED;
			return;
		}
		walk->last_pc = walker.frame.pc;
		walk->frames[walk->count++] = walker.frame.pc - !walker.frame.is_exact;
		if (leave(&walker) == STEP_END)
			return;
	}
}
