/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What fits into 28 bits and what does not, and areas whose numbers lie. */
#include "../../lib/cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind/unwind_table.h>

static struct ky_cfi_row row_by(uint32_t base, int64_t offset)
{
	struct ky_cfi_row row = {
		.cfa = KY_CFI_CFA_REGISTER, .cfa_register = base, .cfa_offset = offset};

	row.rules[KY_UNWIND_RA] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0, -8};
	return row;
}

static uint32_t pack(const struct ky_cfi_row *row, struct ky_unwind_wide *wide)
{
	memset(wide, 0, sizeof(*wide));
	return ky_unwind_pack(row, false, wide);
}

static void pack__common_frames_fit(void **state)
{
	struct ky_cfi_row row = row_by(KY_UNWIND_SP, 8 * KY_UNWIND_OFFSET_MAX);
	struct ky_unwind_wide wide;
	uint32_t rule;

	(void)state;
	row.rules[KY_UNWIND_FP] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0, -16};
	row.rules[KY_UNWIND_SECOND] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0,
							   -8 * (int64_t)KY_UNWIND_SAVED_MAX};
	rule = pack(&row, &wide);
	assert_int_equal(ky_unwind_rule_kind(rule), KY_UNWIND_BY_SP);
	assert_int_equal(ky_unwind_rule_offset(rule), KY_UNWIND_OFFSET_MAX);
	assert_int_equal(ky_unwind_rule_fp(rule), 2);
	assert_int_equal(ky_unwind_rule_second(rule), KY_UNWIND_SAVED_MAX);
	row = row_by(KY_UNWIND_FP, 16);
	row.rules[KY_UNWIND_FP].kind = KY_CFI_UNDEFINED;
	rule = pack(&row, &wide);
	assert_int_equal(ky_unwind_rule_kind(rule), KY_UNWIND_BY_FP);
	assert_int_equal(ky_unwind_rule_fp(rule), KY_UNWIND_LOST);
}

static void pack__the_rest_is_wide(void **state)
{
	struct ky_cfi_row row = row_by(KY_UNWIND_SP, 8 * KY_UNWIND_OFFSET_MAX + 8);
	struct ky_unwind_wide wide;

	(void)state;
	assert_int_equal(pack(&row, &wide), KY_UNWIND_WIDE);
	assert_int_equal(wide.base, KY_UNWIND_SP);
	assert_int_equal(wide.offset, 8 * KY_UNWIND_OFFSET_MAX + 8);
	row = row_by(10, 8); /* a register that is known in the innermost frame alone */
	row.rules[KY_UNWIND_FP] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0, -4096};
	assert_int_equal(pack(&row, &wide), KY_UNWIND_WIDE);
	assert_int_equal(wide.base, 10);
	assert_int_equal(wide.fp, -512);
	/* Aligned anew: the CFA lies on the stack, fp where fp points. */
	row = row_by(KY_UNWIND_FP, -8);
	row.cfa = KY_CFI_CFA_INDIRECT;
	row.rules[KY_UNWIND_FP] = (struct ky_cfi_rule){KY_CFI_AT_REGISTER, KY_UNWIND_FP, 0};
	assert_int_equal(pack(&row, &wide), KY_UNWIND_WIDE);
	assert_true(wide.is_indirect && wide.fp_from_base);
	assert_int_equal(wide.offset, -8);
	assert_int_equal(wide.fp, 0);
}

static void pack__what_is_not_followed_is_marked(void **state)
{
	struct ky_cfi_row row = row_by(KY_UNWIND_SP, 8);
	struct ky_unwind_wide wide;

	(void)state;
	assert_int_equal(ky_unwind_pack(&row, true, &wide), KY_UNWIND_SIGNAL);
	row.cfa = KY_CFI_CFA_UNKNOWN;
	assert_int_equal(pack(&row, &wide), KY_UNWIND_BEYOND);
	row.rules[KY_UNWIND_RA].kind = KY_CFI_UNDEFINED;
	assert_int_equal(pack(&row, &wide), KY_UNWIND_FIRST);
	row = row_by(KY_UNWIND_SP, INT64_MAX / 2);
	assert_int_equal(pack(&row, &wide), KY_UNWIND_BEYOND);
#if !KY_UNWIND_LINKED
	row = row_by(KY_UNWIND_SP, 8);
	row.rules[KY_UNWIND_RA].offset = -16;
	assert_int_equal(pack(&row, &wide), KY_UNWIND_BEYOND);
#endif
}

/* Every field of an area with two modules, set to everything that could do harm: nothing after its
 * last page may be touched, and what is found lies in what was asked for. */
static void look_up__survives_damage(void **state)
{
	static const uint64_t values[] = {0,
					  1,
					  7,
					  8,
					  63,
					  4096,
					  65535,
					  1u << 20,
					  UINT32_MAX,
					  UINT64_MAX,
					  UINT64_MAX - 7,
					  1ull << 63};
	size_t bytes = (sizeof(struct ky_unwind_head) + 4096 + 4095) & ~(size_t)4095;
	uint8_t *area = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ky_unwind_head *head = (struct ky_unwind_head *)(void *)area;
	struct ky_unwind_view view = {area, bytes};
	uint64_t *words = (uint64_t *)(void *)head->modules;
	struct ky_unwind_code code;
	struct ky_unwind_wide wide;

	(void)state;
	assert_ptr_not_equal(area, MAP_FAILED);
	assert_int_equal(mprotect(area + bytes, 4096, PROT_NONE), 0);
	for (uint32_t i = 0; i < 2; i++) {
		head->modules[i] = (struct ky_unwind_module){.wide_count = 2,
							     .start = 4096 * (i + 1),
							     .end = 4096 * (i + 2),
							     .base = 4096 * (i + 1),
							     .blocks_offset = sizeof(*head),
							     .rows_offset = sizeof(*head) + 64,
							     .wide_offset = sizeof(*head) + 128,
							     .block_count = 8,
							     .row_count = 4};
		head->index[0][i] = (uint16_t)i;
	}
	head->used_bytes = bytes;
	head->index_word = 2;
	assert_true(ky_unwind_code_of(&view, 4097, &code));
	assert_int_equal(ky_unwind_rule_at(&code, 4097, &wide), 0);
	for (uint32_t word = 0; word < 2 * sizeof(head->modules[0]) / 8; word++) {
		uint64_t before = words[word];

		for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			words[word] = values[i];
			for (uint64_t pc = 4000; pc < 13000; pc += 97)
				if (ky_unwind_code_of(&view, pc, &code)) {
					assert_true(pc >= code.start && pc < code.end);
					(void)ky_unwind_rule_at(&code, pc, &wide);
				}
		}
		words[word] = before;
	}
	munmap(area, bytes + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pack__common_frames_fit),
		cmocka_unit_test(pack__the_rest_is_wide),
		cmocka_unit_test(pack__what_is_not_followed_is_marked),
		cmocka_unit_test(look_up__survives_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
