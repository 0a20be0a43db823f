/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <send/answer.h>
#include <string.h>

static bool xml(const char *text, const char *tag, char *out, size_t out_bytes)
{
	return ky_answer_xml((const uint8_t *)text, strlen(text), tag, out, out_bytes);
}

static bool json(const char *text, const char *key, char *out, size_t out_bytes)
{
	return ky_answer_json((const uint8_t *)text, strlen(text), key, out, out_bytes);
}

static void xml__finds_the_first_whole_element(void **state)
{
	char out[16];

	(void)state;
	assert_true(xml("<Error><Codec>x</Codec><Code>NoSuchKey</Code>", "Code", out, 16));
	assert_string_equal(out, "NoSuchKey");
	assert_true(xml("<Code></Code>", "Code", out, 16));
	assert_string_equal(out, "");
}

static void xml__takes_nothing_that_is_odd(void **state)
{
	static const char *const texts[] = {"",
					    "<",
					    "<Code",
					    "<Code>",
					    "<Code>abc",
					    "<Code>a\x1b[0m<",
					    "<Code>a&lt;<",
					    "<Code>0123456789abcdef<",
					    "<<<<Code"};
	char out[16];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_false(xml(texts[i], "Code", out, sizeof(out)));
		assert_string_equal(out, "");
	}
}

static void json__finds_a_key_and_not_a_value(void **state)
{
	char out[16];

	(void)state;
	assert_true(json("{\"a\":\"Token\", \"Token\" :\n \"x\\/y+\"}", "Token", out, 16));
	assert_string_equal(out, "x/y+");
	assert_false(json("{\"Token\":7}", "Token", out, 16));
	assert_false(json("{\"Token\":\"a\\u0041\"}", "Token", out, 16));
	assert_false(json("{\"Token\":\"abc", "Token", out, 16));
	assert_false(json("{\"Token\":\"0123456789abcdef\"}", "Token", out, 16));
	assert_false(json("\"Token", "Token", out, 16));
	assert_string_equal(out, "");
}

static void json__numbers_are_whole_and_end(void **state)
{
	static const char *const none[] = {"",           "{\"V\":",
					   "{\"V\":1",   "{\"V\":\"1\"}",
					   "{\"V\":-1}", "{\"V\":1.5}",
					   "{\"V\":1e}", "{\"V\":}",
					   "{\"v\":1}",  "{\"V\":1234567890123456789}"};
	const char *text = "{\"a\":\"V\", \"V\" :\n 12 }";
	uint64_t number;

	(void)state;
	assert_true(ky_answer_json_number((const uint8_t *)text, strlen(text), "V", &number));
	assert_int_equal(number, 12);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(ky_answer_json_number((const uint8_t *)none[i], strlen(none[i]), "V",
						   &number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xml__finds_the_first_whole_element),
		cmocka_unit_test(xml__takes_nothing_that_is_odd),
		cmocka_unit_test(json__numbers_are_whole_and_end),
		cmocka_unit_test(json__finds_a_key_and_not_a_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
