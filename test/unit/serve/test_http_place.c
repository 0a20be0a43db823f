/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_place.h>

#include "../../lib/cmocka_all.h"
#include <string.h>

static void path__names_one_place(void **state)
{
	static const struct {
		const char *path, *rest;
		enum ky_http_what what;
	} cases[] = {
		{"", "", KY_HTTP_LIST},
		{"view.html", "", KY_HTTP_VIEWER},
		{"view.html/", "", KY_HTTP_NOTHING},
		{"api/traces", "", KY_HTTP_LIST_JSON},
		{"api/traces/", "", KY_HTTP_NOTHING},
		{"api/traces/12", "12", KY_HTTP_FACTS},
		{"api/map/a,b", "a,b", KY_HTTP_MAP},
		{"part/a", "a", KY_HTTP_MAP_PART},
		{"trace/live-3", "live-3", KY_HTTP_TRACE},
		{"trace/../x", "../x", KY_HTTP_TRACE}, /* no id, which a listing says */
		{"../etc/passwd", "", KY_HTTP_NOTHING},
		{"list.cssx", "", KY_HTTP_NOTHING},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *rest = NULL;

		assert_int_equal(ky_http_what(cases[i].path, &rest), cases[i].what);
		assert_string_equal(rest, cases[i].rest);
	}
}

static void ids__come_one_by_one_up_to_what_is_none(void **state)
{
	const char *list = "0123456789abcdef,fedcba9876543210";
	char id[KY_HTTP_ID_BYTES];

	(void)state;
	assert_int_equal(ky_http_next_id(&list, id), 1);
	assert_string_equal(id, "0123456789abcdef");
	assert_int_equal(ky_http_next_id(&list, id), 1);
	assert_string_equal(id, "fedcba9876543210");
	assert_int_equal(ky_http_next_id(&list, id), 0);
	for (size_t i = 0; i < 5; i++) {
		static const char *const wrong[] = {"0123456789abcde", "0123456789abcdef0",
						    "0123456789abcdef,", "0123456789ABCDEF",
						    ",0123456789abcdef"};

		list = wrong[i];
		assert_int_equal(ky_http_next_id(&list, id), -1);
	}
}

static void numbers__are_digits_within_a_bound(void **state)
{
	uint64_t number = 7;

	(void)state;
	assert_true(ky_http_number(NULL, 10, &number));
	assert_int_equal(number, 7);
	assert_true(ky_http_number("10", 10, &number));
	assert_int_equal(number, 10);
	assert_false(ky_http_number("11", 10, &number));
	assert_false(ky_http_number("", 10, &number));
	assert_false(ky_http_number("-1", 10, &number));
	assert_false(ky_http_number("1 ", 10, &number));
	assert_false(ky_http_number("5", 3, &number));
	assert_false(ky_http_number("18446744073709551616", UINT64_MAX, &number));
	assert_true(ky_http_number("18446744073709551615", UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
}

static void codings__are_what_the_client_takes(void **state)
{
	(void)state;
	assert_false(ky_http_accepts(NULL, "gzip"));
	assert_true(ky_http_accepts("gzip, deflate, br, zstd", "zstd"));
	assert_true(ky_http_accepts("deflate,GZIP;q=0.5", "gzip"));
	assert_false(ky_http_accepts("gzip;q=0, zstd", "gzip"));
	assert_false(ky_http_accepts("gzip; q=0.000", "gzip"));
	assert_false(ky_http_accepts("gzipped", "gzip"));
	assert_false(ky_http_accepts("x-gzip", "gzip"));
	assert_false(ky_http_accepts("", "gzip"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__names_one_place),
		cmocka_unit_test(ids__come_one_by_one_up_to_what_is_none),
		cmocka_unit_test(numbers__are_digits_within_a_bound),
		cmocka_unit_test(codings__are_what_the_client_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
