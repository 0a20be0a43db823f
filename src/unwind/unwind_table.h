/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_table.h - the unwind area of a ring file, packed, and the search in it: see
 * wire/unwind_image.h.
 *
 * Invariants:  a lookup follows nothing that it has not checked against the area: a damaged table
 *              gives a wrong rule or none, never a fault. No lock, no allocation, no call.
 * Threads:     any, any process.      Signals: safe.
 */
#ifndef KY_UNWIND_UNWIND_TABLE_H
#define KY_UNWIND_UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <unwind/cfi.h>
#include <wire/unwind_image.h>

static inline enum ky_unwind_kind ky_unwind_rule_kind(uint32_t rule)
{
	return (enum ky_unwind_kind)(rule & ((1u << KY_UNWIND_KIND_BITS) - 1));
}

/* Of KY_UNWIND_WIDE: which one. */
static inline uint32_t ky_unwind_rule_rest(uint32_t rule)
{
	return rule >> KY_UNWIND_KIND_BITS;
}

/* In words of 8 bytes; of KY_UNWIND_PLT the threshold. */
static inline uint32_t ky_unwind_rule_offset(uint32_t rule)
{
	return rule >> KY_UNWIND_KIND_BITS & KY_UNWIND_OFFSET_MAX;
}

static inline uint32_t ky_unwind_rule_fp(uint32_t rule)
{
	return rule >> (KY_UNWIND_KIND_BITS + KY_UNWIND_OFFSET_BITS) & KY_UNWIND_SAVED_MAX;
}

static inline uint32_t ky_unwind_rule_second(uint32_t rule)
{
	return rule >> (KY_UNWIND_KIND_BITS + KY_UNWIND_OFFSET_BITS + KY_UNWIND_SAVED_BITS);
}

/* A row of call frame information as a rule. Where 28 bits do not hold it: KY_UNWIND_WIDE with rest
 * 0, and *wide. */
uint32_t ky_unwind_pack(const struct ky_cfi_row *row, bool is_signal, struct ky_unwind_wide *wide);

/* An area whose head exists, for as long as it is mapped. area: 64-byte aligned. */
struct ky_unwind_view {
	const uint8_t *area; /* NULL: none */
	uint64_t area_bytes;
};

/* A module's tables: pointers into the area, checked. */
struct ky_unwind_code {
	uint64_t start, end, base; /* start == end: none */
	const uint32_t *blocks;
	const struct ky_unwind_row *rows;
	const struct ky_unwind_wide *wides;
	uint32_t block_count, row_count, wide_count;
};

/* The module around pc. False: none, or it is being changed right now; *out is empty then. */
bool ky_unwind_code_of(const struct ky_unwind_view *view, uint64_t pc, struct ky_unwind_code *out);

/* The rule for pc, which lies in code; wide: where the rule is a wide one (KY_UNWIND_BEYOND when
 * there is no such). */
uint32_t ky_unwind_rule_at(const struct ky_unwind_code *code, uint64_t pc,
			   struct ky_unwind_wide *wide);

#endif
