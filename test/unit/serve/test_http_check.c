/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_check.h>

#include "../../lib/cmocka_all.h"
#include <string.h>

static void token__is_the_whole_token_alone(void **state)
{
	static const char token[] = "0123456789abcdef0123456789abcdef";
	char other[sizeof(token)];

	(void)state;
	assert_true(ky_http_token_is(token, token, 32));
	assert_true(ky_http_token_is("0123456789abcdef0123456789abcdef/rest", token, 32));
	assert_false(ky_http_token_is("", token, 32));
	assert_false(ky_http_token_is("0123456789abcdef0123456789abcde", token, 32));
	for (size_t i = 0; i < 32; i++) {
		memcpy(other, token, sizeof(token));
		other[i] ^= 1;
		assert_false(ky_http_token_is(other, token, 32));
	}
}

static void host__is_where_we_listen(void **state)
{
	static const struct {
		const char *host, *bound;
		uint16_t port;
		bool is_ours;
	} cases[] = {
		{"127.0.0.1:8080", "127.0.0.1", 8080, true},
		{"localhost:8080", "127.0.0.1", 8080, true},
		{"LOCALHOST:8080", "::1", 8080, true},
		{"[::1]:8080", "::1", 8080, true},
		{"[0:0:0:0:0:0:0:1]:8080", "::1", 8080, true},
		{"127.0.0.1", "127.0.0.1", 80, true},
		{"127.0.0.1", "127.0.0.1", 8080, false},
		{"127.0.0.1:8081", "127.0.0.1", 8080, false},
		{"127.0.0.2:8080", "127.0.0.1", 8080, false},
		{"evil.example:8080", "127.0.0.1", 8080, false},
		{"localhost.evil.example:8080", "127.0.0.1", 8080, false},
		{"127.0.0.1.evil.example:8080", "127.0.0.1", 8080, false},
		{"localhost:8080", "192.0.2.1", 8080, false},
		{"192.0.2.1:8080", "192.0.2.1", 8080, true},
		{"192.0.2.7:8080", "0.0.0.0", 8080, true},
		{"[2001:db8::1]:8080", "::", 8080, true},
		{"localhost:8080", "0.0.0.0", 8080, true},
		{"evil.example:8080", "0.0.0.0", 8080, false},
		{"", "127.0.0.1", 80, false},
		{":80", "127.0.0.1", 80, false},
		{"127.0.0.1:", "127.0.0.1", 80, false},
		{"127.0.0.1:0080x", "127.0.0.1", 80, false},
		{"127.0.0.1:65616", "127.0.0.1", 80, false},
		{"127.0.0.1:999999", "127.0.0.1", 80, false},
		{"user@127.0.0.1:80", "127.0.0.1", 80, false},
		{"[::1", "::1", 80, false},
		{"[::1]x", "::1", 80, false},
		{"[]:80", "::1", 80, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (ky_http_host_is_ours(cases[i].host, cases[i].bound, cases[i].port) !=
		    cases[i].is_ours)
			fail_msg("'%s' at %s:%u", cases[i].host, cases[i].bound, cases[i].port);
}

static void origin__is_ours_by_scheme_and_host(void **state)
{
	(void)state;
	assert_true(ky_http_origin_is_ours("http://127.0.0.1:8080", "127.0.0.1", 8080));
	assert_true(ky_http_origin_is_ours("http://localhost:8080", "127.0.0.1", 8080));
	assert_false(ky_http_origin_is_ours("https://127.0.0.1:8080", "127.0.0.1", 8080));
	assert_false(ky_http_origin_is_ours("null", "127.0.0.1", 8080));
	assert_false(ky_http_origin_is_ours("", "127.0.0.1", 8080));
	assert_false(ky_http_origin_is_ours("http://127.0.0.1:8081", "127.0.0.1", 8080));
	assert_false(ky_http_origin_is_ours("http://evil.example:8080", "127.0.0.1", 8080));
}

static void loopback__is_all_of_127_and_one_of_v6(void **state)
{
	(void)state;
	assert_true(ky_http_is_loopback("127.0.0.1"));
	assert_true(ky_http_is_loopback("127.9.9.9"));
	assert_true(ky_http_is_loopback("::1"));
	assert_false(ky_http_is_loopback("0.0.0.0"));
	assert_false(ky_http_is_loopback("::"));
	assert_false(ky_http_is_loopback("192.0.2.1"));
	assert_false(ky_http_is_loopback("localhost"));
}

static void range__is_of_one_part(void **state)
{
	static const struct {
		const char *text;
		uint64_t size, from, count;
		enum ky_http_range range;
	} cases[] = {
		{NULL, 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=0-9", 100, 0, 10, KY_HTTP_PART},
		{"bytes=90-", 100, 90, 10, KY_HTTP_PART},
		{"bytes=90-1000", 100, 90, 10, KY_HTTP_PART},
		{"bytes=99-99", 100, 99, 1, KY_HTTP_PART},
		{"bytes=-10", 100, 90, 10, KY_HTTP_PART},
		{"bytes=-1000", 100, 0, 100, KY_HTTP_PART},
		{"bytes=0-18446744073709551615", 100, 0, 100, KY_HTTP_PART},
		{"bytes=100-", 100, 0, 0, KY_HTTP_NO_PART},
		{"bytes=-0", 100, 0, 0, KY_HTTP_NO_PART},
		{"bytes=0-0", 0, 0, 0, KY_HTTP_NO_PART},
		{"bytes=-1", 0, 0, 0, KY_HTTP_NO_PART},
		{"bytes=9-0", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=0-1,5-6", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=-", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=x-9", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=0-9x", 100, 0, 100, KY_HTTP_WHOLE},
		{"bytes=18446744073709551616-", 100, 0, 100, KY_HTTP_WHOLE},
		{"lines=0-9", 100, 0, 100, KY_HTTP_WHOLE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t from, count;
		enum ky_http_range range = ky_http_range(cases[i].text, cases[i].size, &from,
							 &count);

		if (range != cases[i].range)
			fail_msg("'%s' is %d", cases[i].text, (int)range);
		if (range != KY_HTTP_NO_PART && (from != cases[i].from || count != cases[i].count))
			fail_msg("'%s' is %llu, %llu", cases[i].text, (unsigned long long)from,
				 (unsigned long long)count);
	}
}

static void etag__is_found_in_a_list(void **state)
{
	(void)state;
	assert_true(ky_http_etag_is_in("\"a\"", "\"a\""));
	assert_true(ky_http_etag_is_in("\"b\", W/\"a\"", "\"a\""));
	assert_true(ky_http_etag_is_in("*", "\"a\""));
	assert_false(ky_http_etag_is_in("\"ab\"", "\"a\""));
	assert_false(ky_http_etag_is_in("a", "\"a\""));
	assert_false(ky_http_etag_is_in("", "\"a\""));
	assert_false(ky_http_etag_is_in(", ,", "\"a\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token__is_the_whole_token_alone),
		cmocka_unit_test(host__is_where_we_listen),
		cmocka_unit_test(origin__is_ours_by_scheme_and_host),
		cmocka_unit_test(loopback__is_all_of_127_and_one_of_v6),
		cmocka_unit_test(range__is_of_one_part),
		cmocka_unit_test(etag__is_found_in_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
