/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <symbol/type_evidence.h>

#define SCHEDULE 0x5000u

static uint64_t key(uint64_t function)
{
	return ky_type_evidence_key(function, SCHEDULE);
}

static void evidence__counts_tables_not_calls(void **state)
{
	struct ky_type_evidence evidence = {0};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		ky_type_evidence_add(&evidence, key(0x100), 0, true);
		ky_type_evidence_add(&evidence, key(0x200), i, true);
	}
	ky_type_evidence_add(&evidence, ky_type_evidence_key(0x100, SCHEDULE + 8), 1, true);
	ky_type_evidence_finish(&evidence);
	assert_int_equal(ky_type_evidence_count(&evidence, key(0x100), true), 1);
	assert_int_equal(ky_type_evidence_count(&evidence, key(0x200), true), 3);
	assert_int_equal(ky_type_evidence_count(&evidence, key(0x300), true), 0);
	ky_type_evidence_release(&evidence);
}

static void evidence__a_table_with_a_type_of_its_own_shares_nothing(void **state)
{
	struct ky_type_evidence evidence = {0};

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		ky_type_evidence_add(&evidence, key(0x200), i, true);
	ky_type_evidence_add(&evidence, key(0x300), 1, true);
	ky_type_evidence_add(&evidence, key(0x400), 2, false); /* two types are named there */
	ky_type_evidence_finish(&evidence);
	assert_int_equal(ky_type_evidence_count(&evidence, key(0x200), true), 3);
	assert_int_equal(ky_type_evidence_count(&evidence, key(0x200), false), 2);
	ky_type_evidence_release(&evidence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evidence__counts_tables_not_calls),
		cmocka_unit_test(evidence__a_table_with_a_type_of_its_own_shares_nothing),
	};

	return cmocka_run_group_tests_name("type_evidence", tests, NULL, NULL);
}
