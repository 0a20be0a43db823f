/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <kymo/base.h>
#include <string.h>

static void error__every_kymo_code_has_its_text(void **state)
{
	(void)state;
#define CHECK(name, value, text) assert_string_equal(kymo_error_text(KYMO_E_##name), text);
	KYMO_ERRORS(CHECK)
#undef CHECK
}

static void error__other_codes_have_some_text(void **state)
{
	(void)state;
	assert_string_equal(kymo_error_text(0), "success");
	assert_string_equal(kymo_error_text(7), "success");
	assert_string_equal(kymo_error_text(-ENOENT), strerror(ENOENT));
	assert_string_equal(kymo_error_text(-4000), "unknown error");
	assert_string_equal(kymo_error_text(-100000), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error__every_kymo_code_has_its_text),
		cmocka_unit_test(error__other_codes_have_some_text),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
