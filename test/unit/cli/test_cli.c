/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <cli/cli.h>

static void cli__suggests_what_was_meant(void **state)
{
	static const char *const names[] = {"info", "report", "events", "convert", "run"};
	static const char *const types[] = {"PollEndEvent", "PollStartEvent", "WakeEventEvent"};

	(void)state;
	assert_string_equal(ky_cli_nearest("inof", names, 5), "info");
	assert_string_equal(ky_cli_nearest("reprot", names, 5), "report");
	assert_string_equal(ky_cli_nearest("event", names, 5), "events");
	assert_string_equal(ky_cli_nearest("Convert", names, 5), "convert");
	assert_null(ky_cli_nearest("frobnicate", names, 5));
	assert_null(ky_cli_nearest("x", names, 5));
	assert_string_equal(ky_cli_nearest("PollStart", types, 3), "PollStartEvent");
	assert_string_equal(ky_cli_nearest("pollstart", types, 3), "PollStartEvent");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli__suggests_what_was_meant),
	};

	return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
