/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Objects whose coming and going was read externally. */
#include "../../lib/drain_case.h"

#include <drain/module_list.h>

static void modules__read_externally_come_and_go(void **state)
{
	struct ky_seen_module seen = {.path = "/lib/late.so", .start = 0x10000, .end = 0x20000};
	struct test_writer w;
	struct drain_case c;

	(void)state;
	case_begin(&c, &w, 16);
	test_poll(&w, T0, 50, 0);
	case_step(&c, T0 + 2 * MS);
	assert_false(ky_drain_knows_module(c.drain, seen.start, seen.path));
	assert_int_equal(ky_drain_add_module(c.drain, &seen), 0);
	assert_true(ky_drain_knows_module(c.drain, seen.start, seen.path));
	assert_false(ky_drain_knows_module(c.drain, seen.start, "/lib/other.so"));
	ky_drain_keep_modules(c.drain, &seen, 1);
	assert_true(ky_drain_knows_module(c.drain, seen.start, seen.path));
	case_step(&c, T0 + 10 * MS);
	ky_drain_keep_modules(c.drain, NULL, 0);
	assert_false(ky_drain_knows_module(c.drain, seen.start, seen.path));
	seen.build_id_bytes = 33;
	assert_true(ky_drain_add_module(c.drain, &seen) < 0);
	test_poll_end(&w, T0 + 11 * MS, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_true(COUNT(&c, PROCESS_MAP) >= 1);
	assert_string_equal(TEXT(EVENT(&c, PROCESS_MAP, 0), PROCESS_MAP, path), "/lib/late.so");
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules__read_externally_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
