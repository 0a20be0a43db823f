/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/nearest.h>

static void nearest__suggests_what_was_meant(void **state)
{
	static const char *const names[] = {"info", "report", "events", "convert", "run"};
	static const char *const types[] = {"PollEndEvent", "PollStartEvent", "WakeEventEvent"};

	(void)state;
	assert_string_equal(ky_nearest("inof", names, 5), "info");
	assert_string_equal(ky_nearest("reprot", names, 5), "report");
	assert_string_equal(ky_nearest("event", names, 5), "events");
	assert_string_equal(ky_nearest("Convert", names, 5), "convert");
	assert_null(ky_nearest("frobnicate", names, 5));
	assert_null(ky_nearest("x", names, 5));
	assert_string_equal(ky_nearest("PollStart", types, 3), "PollStartEvent");
	assert_string_equal(ky_nearest("pollstart", types, 3), "PollStartEvent");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest__suggests_what_was_meant),
	};

	return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
