/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <cli/moment.h>
#include <errno.h>

static void expect_moment(const char *written, enum ky_moment_kind kind, uint64_t ns)
{
	struct ky_moment moment;

	assert_int_equal(ky_moment_parse(&moment, written), 0);
	assert_int_equal(moment.kind, kind);
	assert_true(moment.ns == ns);
}

static void moment__reads_common_notations(void **state)
{
	(void)state;
	expect_moment("1.5s", KY_MOMENT_RELATIVE, 1500000000);
	expect_moment("+20ms", KY_MOMENT_RELATIVE, 20000000);
	expect_moment("@18446744073709551615", KY_MOMENT_ABSOLUTE, UINT64_MAX);
	expect_moment("1970-01-01T00:00:01Z", KY_MOMENT_WALL, 1000000000);
	expect_moment("2026-10-26 16:40:11.25", KY_MOMENT_WALL, UINT64_C(1793032811250000000));
}

static void moment__refuses_the_rest(void **state)
{
	static const char *const wrong[] = {"",
					    "s",
					    "5",
					    "-5s",
					    "1.5",
					    "1.5x",
					    "1e3s",
					    "@",
					    "@x",
					    "@5ns",
					    "2026-10-26",
					    "2026-13-40T00:00:00",
					    "1.5s ",
					    "soon",
					    "99999999999999999999s",
					    "18446744073709551615h",
					    "2026-10-26T16:40:11+02:00"};
	struct ky_moment moment;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_true(ky_moment_parse(&moment, wrong[i]) < 0);
}

static void moment__resolves_against_start_and_wall_clock(void **state)
{
	struct ky_moment relative = {KY_MOMENT_RELATIVE, 5}, wall = {KY_MOMENT_WALL, 1000};
	struct ky_moment far = {KY_MOMENT_RELATIVE, UINT64_MAX};
	uint64_t ns;

	(void)state;
	assert_int_equal(ky_moment_resolve(&relative, 100, 0, 0, &ns), 0);
	assert_true(ns == 105);
	assert_int_equal(ky_moment_resolve(&far, 100, 0, 0, &ns), 0);
	assert_true(ns == UINT64_MAX);
	assert_int_equal(ky_moment_resolve(&wall, 100, 0, 0, &ns), -ENODATA);
	assert_int_equal(ky_moment_resolve(&wall, 100, 50, 900, &ns), 0);
	assert_true(ns == 150);
	assert_int_equal(ky_moment_resolve(&wall, 100, 50, 1010, &ns), 0);
	assert_true(ns == 40);
	assert_int_equal(ky_moment_resolve(&wall, 100, 50, 5000, &ns), 0);
	assert_true(ns == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moment__reads_common_notations),
		cmocka_unit_test(moment__refuses_the_rest),
		cmocka_unit_test(moment__resolves_against_start_and_wall_clock),
	};

	return cmocka_run_group_tests_name("moment", tests, NULL, NULL);
}
