/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <unwind/unwind_search.h>

#define WORDS_MAX 512u
#define FUNCTION_BYTES_MAX 65536u
#define ROWS_MAX 1024u
#define PROLOGUE UINT64_C(0xe5894855) /* push %rbp; mov %rsp, %rbp */

#if KY_UNWIND_LINKED

bool ky_unwind_search_fp(const struct ky_unwind_view *view, const struct ky_walk_memory *memory,
			 const struct ky_unwind_code *code, uint64_t pc, uint64_t sp, uint64_t *fp)
{
	(void)view;
	(void)memory;
	(void)code;
	(void)pc;
	(void)sp;
	(void)fp;
	return false;
}

#else

static bool is_entry(uint32_t rule)
{
	return ky_unwind_rule_kind(rule) == KY_UNWIND_BY_SP && ky_unwind_rule_offset(rule) == 1;
}

#define TARGET_ANY 1u

/* Where the call that ends at `ra` goes. Of two forms the target can be read; one through a
 * register or a table may go anywhere. 0: no call. */
static uint64_t target_of(const struct ky_walk_memory *memory, uint64_t ra)
{
	uint64_t word, target = 0;
	int32_t distance;

	if (!memory->read(memory->ctx, ra - 8, &word))
		return 0;
	distance = (int32_t)(word >> 32);
	if ((word >> 24 & 0xff) == 0xe8)
		return ra + (uint64_t)(int64_t)distance;
	if ((word >> 16 & 0xffff) == 0x15ff)
		return memory->read(memory->ctx, ra + (uint64_t)(int64_t)distance, &target) ?
			       target :
			       0;
	/* call *%reg; call *8(%reg) */
	return (word >> 48 & 0xf8ff) == 0xd0ff || (word >> 40 & 0xf8ff) == 0x50ff ? TARGET_ANY : 0;
}

/* Does the function that begins at `start` reach to pc? Its rows show it: between, there is no
 * other beginning. The row after a return continues with the frame. */
static bool is_same_function(const struct ky_unwind_code *code, uint64_t start, uint64_t pc)
{
	uint64_t from = start - code->base, to = pc - code->base;
	uint64_t block = from / KY_UNWIND_BLOCK_BYTES;
	uint32_t idx = block < code->block_count ? code->blocks[block] : code->row_count;
	bool has_begun = false;

	for (uint32_t i = 0; i < ROWS_MAX && idx + 1 < code->row_count; i++, idx++) {
		const struct ky_unwind_row *row = &code->rows[idx];

		if (row->pc > to)
			return has_begun;
		if (row->pc < from)
			continue;
		if (!has_begun) {
			if (row->pc != from || !is_entry(row->rule))
				return false;
			has_begun = true;
			continue;
		}
		if (ky_unwind_rule_kind(row->rule) == KY_UNWIND_NO_CODE ||
		    (is_entry(row->rule) && ky_unwind_rule_kind(row[1].rule) != KY_UNWIND_BY_FP))
			return false;
	}
	return false;
}

/* Is pc in the function at `start`, which keeps its frame pointer? */
static bool is_of(const struct ky_walk_memory *memory, const struct ky_unwind_code *code,
		  uint64_t start, uint64_t pc)
{
	uint64_t bytes;

	return start <= pc && pc - start <= FUNCTION_BYTES_MAX && start >= code->base &&
	       memory->read(memory->ctx, start, &bytes) && (uint32_t)bytes == (uint32_t)PROLOGUE &&
	       is_same_function(code, start, pc);
}

/* is_reported: by a call whose target is known, and is this function. */
static bool search(const struct ky_unwind_view *view, const struct ky_walk_memory *memory,
		   const struct ky_unwind_code *code, uint64_t pc, uint64_t at, bool is_reported,
		   uint64_t *fp)
{
	struct ky_unwind_code other;
	uint64_t ra, start;

	for (uint32_t i = 0; i < WORDS_MAX; i++, at += 8) {
		if (!memory->read(memory->ctx, at + 8, &ra))
			return false;
		if (ra < 4096 || ra > INT64_MAX || !ky_unwind_code_of(view, ra - 1, &other))
			continue;
		start = target_of(memory, ra);
		if (start == 0 ||
		    (is_reported ? start == TARGET_ANY || !is_of(memory, code, start, pc) :
				   start != TARGET_ANY))
			continue;
		*fp = at;
		return true;
	}
	return false;
}

/* What earlier calls have left is passed over where the true one is known. */
bool ky_unwind_search_fp(const struct ky_unwind_view *view, const struct ky_walk_memory *memory,
			 const struct ky_unwind_code *code, uint64_t pc, uint64_t sp, uint64_t *fp)
{
	uint64_t at = (sp + 7) & ~UINT64_C(7);

	return memory->read && (search(view, memory, code, pc, at, true, fp) ||
				search(view, memory, code, pc, at, false, fp));
}

#endif
