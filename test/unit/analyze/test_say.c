/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include <analyze/findings/say.h>
#include <string.h>

static void check(const char *name, const char *expected)
{
	const struct ky_code_line line = {.name = name};
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_say_function(&out, &line);
	assert_int_equal(out.used, strlen(expected));
	assert_memory_equal(out.bytes, expected, out.used);
	ky_buf_release(&out);
}

static void say__function_without_its_closures(void **state)
{
	(void)state;
	check("shop::checkout", "shop::checkout");
	check("shop::checkout::{{closure}}", "shop::checkout");
	check("shop::checkout::{{closure}}::{{closure}}", "shop::checkout");
	check("shop::checkout::{async_fn#0}", "shop::checkout");
	check("shop::main::{async_fn#0}::{async_block#12}", "shop::main");
	check("shop::main::{closure#3}", "shop::main");
}

static void say__other_braces_stay(void **state)
{
	(void)state;
	check("<shop::{impl#0} as Drop>::drop::{shim:vtable#0}",
	      "<shop::{impl#0} as Drop>::drop::{shim:vtable#0}");
	check("{{closure}}", "{{closure}}");
	check("}", "}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(say__function_without_its_closures),
		cmocka_unit_test(say__other_braces_stay),
	};

	return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
