/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which functions are kept of more than there is room for. */
#include "../read/dial9_case.h"
#include "../read/sample_case.h"
#include <analyze/stack_profile.h>

#define MS UINT64_C(1000000)
#define LEAVES (KY_STACK_PROFILE_FUNCTIONS_MAX + 50)

/* More leaves than rows, each with time of its own, beneath callers that have none. */
static void cpu__keeps_the_functions_with_most_total_time(void **state)
{
	struct ky_stack_profile *profile;
	struct ky_symbol_table *symbols;
	struct ky_report *report;
	struct read_case c;
	uint32_t leaves = 0, callers = 0;

	(void)state;
	memset(&c, 0, sizeof(c));
	case_begin(&c);
	for (uint64_t i = 0; i < LEAVES; i++)
		case_cpu(&c, 100 * MS + i, 0, 11, CASE_STACK(&c, 0x10000 + i, 0x20, 0x30), 10 * MS,
			 0, 0);
	assert_int_equal(case_try_open(&c, c.buf.used, &(struct ky_trace_options){0}), 0);
	assert_int_equal(ky_symbol_table_open(&symbols, 0), 0);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(ky_stack_profile_make(&profile, c.trace, report, symbols, NULL), 0);
	assert_int_equal(profile->cpu.function_total, LEAVES + 2);
	assert_int_equal(profile->cpu.function_count, KY_STACK_PROFILE_FUNCTIONS_MAX);
	for (uint32_t i = 0; i < profile->cpu.function_count; i++) {
		const struct ky_stack_profile_function *function = &profile->cpu.functions[i];

		leaves += function->self_count == 1 && function->total_count == 1;
		callers += function->self_count == 0 && function->total_count == LEAVES;
		/* Most time of its own first. */
		assert_true(callers == 0 || function->self_count == 0);
	}
	assert_int_equal(callers, 2);
	assert_int_equal(leaves, KY_STACK_PROFILE_FUNCTIONS_MAX - 2);
	ky_stack_profile_free(profile);
	ky_report_free(report);
	ky_symbol_table_close(symbols);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu__keeps_the_functions_with_most_total_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
