/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <unwind/unwind_table.h>

/* ---- packing ---- */

#define LOST 0xffffu

/* Where the caller's register lies, in words below the CFA; 0: in the register; LOST. */
static uint32_t place_of(const struct ky_cfi_rule *rule)
{
	if (rule->kind == KY_CFI_SAME)
		return 0;
	if (rule->kind != KY_CFI_AT_CFA || rule->offset >= 0 || rule->offset & 7 ||
	    rule->offset <= INT16_MIN)
		return LOST;
	return (uint32_t)(-rule->offset / 8);
}

/* As 7 bits; false: it takes more. On x86-64 the word below the CFA is the return address. */
static bool pack_place(uint32_t place, uint32_t *out)
{
	*out = place == LOST ? KY_UNWIND_LOST : place;
	return place == LOST || place == 0 || (place >= 2 && place <= KY_UNWIND_SAVED_MAX);
}

static int16_t widen(uint32_t place)
{
	return place == LOST ? KY_UNWIND_WIDE_LOST : (int16_t) - (int32_t)place;
}

static uint32_t compose(enum ky_unwind_kind kind, uint32_t offset, uint32_t fp, uint32_t second)
{
	return (uint32_t)kind | offset << KY_UNWIND_KIND_BITS |
	       fp << (KY_UNWIND_KIND_BITS + KY_UNWIND_OFFSET_BITS) |
	       second << (KY_UNWIND_KIND_BITS + KY_UNWIND_OFFSET_BITS + KY_UNWIND_SAVED_BITS);
}

static bool fits_32(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

static uint32_t pack_wide(const struct ky_cfi_row *row, uint32_t fp, uint32_t second,
			  struct ky_unwind_wide *wide)
{
	const struct ky_cfi_rule *rule = &row->rules[KY_UNWIND_FP];

	if (row->cfa == KY_CFI_CFA_PLT || !fits_32(row->cfa_offset) || !fits_32(row->cfa_further))
		return KY_UNWIND_BEYOND;
	*wide = (struct ky_unwind_wide){.base = (uint8_t)row->cfa_register,
					.is_indirect = row->cfa == KY_CFI_CFA_INDIRECT,
					.offset = (int32_t)row->cfa_offset,
					.further = (int32_t)row->cfa_further,
					.fp = widen(fp),
					.second = widen(second)};
	/* A frame that was aligned anew: its caller's fp lies where its own points. */
	if (rule->kind == KY_CFI_AT_REGISTER && rule->base == row->cfa_register &&
	    rule->offset % 8 == 0 && rule->offset > INT16_MIN && rule->offset < INT16_MAX) {
		wide->fp_from_base = 1;
		wide->fp = (int16_t)(rule->offset / 8);
	}
	return KY_UNWIND_WIDE;
}

static __attribute__((noinline)) uint32_t pack_any(const struct ky_cfi_row *row, bool is_signal,
						   struct ky_unwind_wide *wide)
{
	const struct ky_cfi_rule *ra = &row->rules[KY_UNWIND_RA];
	uint32_t place_fp = place_of(&row->rules[KY_UNWIND_FP]);
	uint32_t place_second = place_of(&row->rules[KY_UNWIND_SECOND]);
	enum ky_unwind_kind kind = KY_UNWIND_WIDE;
	uint32_t fp, second;
	bool fits;

	if (is_signal)
		return KY_UNWIND_SIGNAL;
	if (ra->kind == KY_CFI_UNDEFINED)
		return KY_UNWIND_FIRST;
	if (row->cfa == KY_CFI_CFA_UNKNOWN)
		return KY_UNWIND_BEYOND;
#if !KY_UNWIND_LINKED
	if (ra->kind != KY_CFI_AT_CFA || ra->offset != -8)
		return KY_UNWIND_BEYOND;
#endif
	fits = pack_place(place_fp, &fp);
	fits = pack_place(place_second, &second) && fits;
	if (row->cfa == KY_CFI_CFA_PLT && fits)
		return compose(KY_UNWIND_PLT, (uint32_t)row->cfa_offset, fp, second);
	if (row->cfa == KY_CFI_CFA_REGISTER && row->cfa_register == KY_UNWIND_SP)
		kind = KY_UNWIND_BY_SP;
	if (row->cfa == KY_CFI_CFA_REGISTER && row->cfa_register == KY_UNWIND_FP)
		kind = KY_UNWIND_BY_FP;
	if (row->cfa == KY_CFI_CFA_REGISTER && row->cfa_register == KY_UNWIND_SECOND)
		kind = KY_UNWIND_BY_SECOND;
	if (fits && kind != KY_UNWIND_WIDE && row->cfa_offset >= 0 && !(row->cfa_offset & 7) &&
	    row->cfa_offset >> 3 <= KY_UNWIND_OFFSET_MAX)
		return compose(kind, (uint32_t)(row->cfa_offset >> 3), fp, second);
	return pack_wide(row, place_fp, place_second, wide);
}

/* A place that 7 bits hold, as nearly all are. */
static inline bool pack_usual(const struct ky_cfi_rule *rule, uint32_t *out)
{
	uint64_t below = 0 - (uint64_t)rule->offset;

	*out = 0;
	if (rule->kind == KY_CFI_SAME)
		return true;
	*out = (uint32_t)(below >> 3);
	return rule->kind == KY_CFI_AT_CFA && !(below & 7) && below >= 16 &&
	       below <= 8 * KY_UNWIND_SAVED_MAX;
}

/* 0: none of those that are found by a register alone. */
static inline uint32_t kind_of(const struct ky_cfi_row *row)
{
	if (row->cfa != KY_CFI_CFA_REGISTER)
		return 0;
	return row->cfa_register == KY_UNWIND_SP     ? KY_UNWIND_BY_SP :
	       row->cfa_register == KY_UNWIND_FP     ? KY_UNWIND_BY_FP :
	       row->cfa_register == KY_UNWIND_SECOND ? KY_UNWIND_BY_SECOND :
						       0;
}

uint32_t ky_unwind_pack(const struct ky_cfi_row *row, bool is_signal, struct ky_unwind_wide *wide)
{
	const struct ky_cfi_rule *ra = &row->rules[KY_UNWIND_RA];
	uint32_t kind = kind_of(row), fp, second;
	uint64_t offset = (uint64_t)row->cfa_offset;

	if (kind && !is_signal && !(offset & 7) && offset >> 3 <= KY_UNWIND_OFFSET_MAX &&
	    (KY_UNWIND_LINKED ? ra->kind != KY_CFI_UNDEFINED :
				ra->kind == KY_CFI_AT_CFA && ra->offset == -8) &&
	    pack_usual(&row->rules[KY_UNWIND_FP], &fp) &&
	    pack_usual(&row->rules[KY_UNWIND_SECOND], &second))
		return compose(kind, (uint32_t)(offset >> 3), fp, second);
	return pack_any(row, is_signal, wide);
}

/* ---- lookup ---- */

static const struct ky_unwind_head *head_of(const struct ky_unwind_view *view)
{
	return (const struct ky_unwind_head *)(const void *)view->area;
}

/* count elements at offset, all in the part of the area that exists. */
static const void *checked(const struct ky_unwind_view *view, uint64_t offset, uint64_t count,
			   size_t element_bytes, uint64_t used)
{
	if (offset % 8 || offset < sizeof(struct ky_unwind_head) || offset > used ||
	    count > (used - offset) / element_bytes)
		return NULL;
	return view->area + offset;
}

/* Two readings of the generation: what was read between belongs together. */
static bool copy_module(const struct ky_unwind_view *view, uint32_t idx, struct ky_unwind_code *out)
{
	const struct ky_unwind_head *head = head_of(view);
	const struct ky_unwind_module *from = &head->modules[idx];
	uint32_t generation = atomic_load_explicit(&from->generation, memory_order_acquire);
	uint64_t used = atomic_load_explicit(&head->used_bytes, memory_order_acquire);
	struct ky_unwind_module module;

	if (generation & 1)
		return false;
	module.start = __atomic_load_n(&from->start, __ATOMIC_RELAXED);
	module.end = __atomic_load_n(&from->end, __ATOMIC_RELAXED);
	module.base = __atomic_load_n(&from->base, __ATOMIC_RELAXED);
	module.blocks_offset = __atomic_load_n(&from->blocks_offset, __ATOMIC_RELAXED);
	module.rows_offset = __atomic_load_n(&from->rows_offset, __ATOMIC_RELAXED);
	module.wide_offset = __atomic_load_n(&from->wide_offset, __ATOMIC_RELAXED);
	module.block_count = __atomic_load_n(&from->block_count, __ATOMIC_RELAXED);
	module.row_count = __atomic_load_n(&from->row_count, __ATOMIC_RELAXED);
	module.wide_count = __atomic_load_n(&from->wide_count, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&from->generation, memory_order_relaxed) != generation)
		return false;
	if (used > view->area_bytes)
		used = view->area_bytes;
	out->start = module.start;
	out->end = module.end;
	out->base = module.base;
	out->block_count = module.block_count;
	out->row_count = module.row_count;
	out->wide_count = module.wide_count;
	out->blocks = checked(view, module.blocks_offset, module.block_count, 4, used);
	out->rows = checked(view, module.rows_offset, module.row_count,
			    sizeof(struct ky_unwind_row), used);
	out->wides = checked(view, module.wide_offset, module.wide_count,
			     sizeof(struct ky_unwind_wide), used);
	return out->blocks && out->rows && out->wides && module.row_count > 0;
}

bool ky_unwind_code_of(const struct ky_unwind_view *view, uint64_t pc, struct ky_unwind_code *out)
{
	const struct ky_unwind_head *head = head_of(view);
	uint32_t low = 0, high;
	const uint16_t *index;
	uint64_t word;

	out->start = out->end = 0;
	if (!view->area)
		return false;
	word = atomic_load_explicit(&head->index_word, memory_order_acquire);
	index = head->index[word >> 32 & 1];
	high = (uint32_t)word;
	if (high > KY_UNWIND_MODULES_MAX)
		return false;
	/* The last one that begins at or before pc. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		uint32_t idx = __atomic_load_n(&index[middle], __ATOMIC_RELAXED);

		if (idx >= KY_UNWIND_MODULES_MAX)
			return false;
		if (__atomic_load_n(&head->modules[idx].start, __ATOMIC_RELAXED) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	low = __atomic_load_n(&index[low - 1], __ATOMIC_RELAXED);
	if (low < KY_UNWIND_MODULES_MAX && copy_module(view, low, out) && pc >= out->start &&
	    pc < out->end)
		return true;
	out->start = out->end = 0;
	return false;
}

uint32_t ky_unwind_rule_at(const struct ky_unwind_code *code, uint64_t pc,
			   struct ky_unwind_wide *wide)
{
	uint64_t offset = pc - code->base, block = offset / KY_UNWIND_BLOCK_BYTES;
	uint32_t low, high, rule;

	if (block >= code->block_count)
		return KY_UNWIND_NO_CODE;
	/* Rows low up to high: the first begins at or before the block, high after it. */
	low = code->blocks[block];
	high = block + 1 < code->block_count ? code->blocks[block + 1] : code->row_count - 1;
	if (low > high || high >= code->row_count || code->rows[low].pc > offset)
		return KY_UNWIND_NO_CODE;
	/* Without a branch that the CPU would have to guess. */
	for (uint32_t count = high - low + 1; count > 1;) {
		uint32_t half = count / 2;

		low += code->rows[low + half].pc <= offset ? half : 0;
		count -= half;
	}
	rule = code->rows[low].rule;
	if (ky_unwind_rule_kind(rule) != KY_UNWIND_WIDE)
		return rule;
	if (ky_unwind_rule_rest(rule) >= code->wide_count)
		return KY_UNWIND_BEYOND;
	*wide = code->wides[ky_unwind_rule_rest(rule)];
	return rule;
}
