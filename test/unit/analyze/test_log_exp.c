/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Against the C library's. */
#include "../../lib/cmocka_all.h"
#include <analyze/log_exp.h>

#include <float.h>
#include <math.h>

static void near(double found, double expected)
{
	double scale = fabs(expected) > 1 ? fabs(expected) : 1;

	assert_true(fabs(found - expected) <= 1e-14 * scale);
}

static void log_exp__are_those_of_the_library(void **state)
{
	(void)state;
	for (double x = 1e-300; x < 1e300; x *= 1.37)
		near(ky_log(x), log(x));
	for (double y = -20; y < 20; y += 0.0137)
		near(ky_exp(y), exp(y));
	for (double y = -700; y < 700; y += 3.7)
		assert_true(fabs(ky_exp(y) / exp(y) - 1) < 1e-13);
	for (double x = 1e-200; x < 1e200; x *= 3.1)
		assert_true(fabs(ky_root(x) / sqrt(x) - 1) < 1e-15);
}

static void log_exp__have_a_value_for_everything(void **state)
{
	(void)state;
	assert_true(ky_log(0) == ky_log(DBL_MIN) && ky_log(-1) == ky_log(DBL_MIN));
	assert_true(ky_log((double)INFINITY) == ky_log(DBL_MAX));
	assert_true(ky_log(1) == 0 && ky_exp(0) == 1 && ky_root(0) == 0 && ky_root(-1) == 0);
	assert_true(ky_exp(1e9) == DBL_MAX && ky_exp(-1e9) == 0 && ky_exp((double)NAN) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_exp__are_those_of_the_library),
		cmocka_unit_test(log_exp__have_a_value_for_everything),
	};

	return cmocka_run_group_tests_name("log_exp", tests, NULL, NULL);
}
