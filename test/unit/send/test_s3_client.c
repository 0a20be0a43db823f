/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <send/s3_client.h>
#include <string.h>

static void place__is_bucket_and_prefix(void **state)
{
	char why[KY_HTTP_ERROR_BYTES];
	struct ky_s3_place place;

	(void)state;
	assert_int_equal(ky_s3_place_parse(&place, "s3://my.bucket-1", why), 0);
	assert_string_equal(place.bucket, "my.bucket-1");
	assert_string_equal(place.prefix, "");
	assert_int_equal(ky_s3_place_parse(&place, "s3://abc/a b/..c/=:+*/", why), 0);
	assert_string_equal(place.prefix, "a b/..c/=:+*");
}

static void place__refuses_what_a_server_takes_as_something_else(void **state)
{
	static const char *const wrong[] = {
		"",
		"s3:/abc",
		"http://abc",
		"s3://",
		"s3://ab",
		"s3://Abc",
		"s3://a..b",
		"s3://abc//x",
		"s3://abc/x/../y",
		"s3://abc/.",
		"s3://abc/..",
		"s3://a_b c",
		"s3://abc/x\ny",
		"s3://abc/x//y",
	};
	char why[KY_HTTP_ERROR_BYTES], long_url[700] = "s3://abc/";
	struct ky_s3_place place;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why[0] = '\0';
		assert_int_equal(ky_s3_place_parse(&place, wrong[i], why), -EINVAL);
		assert_true(why[0]);
	}
	memset(long_url + 9, 'x', 600);
	assert_int_equal(ky_s3_place_parse(&place, long_url, why), -EINVAL);
}

static struct ky_http_answer answer_of(long status, const char *body)
{
	struct ky_http_answer answer = {.status = status};

	ky_buf_init(&answer.body, 0);
	assert_int_equal(ky_buf_append(&answer.body, body, strlen(body)), 0);
	return answer;
}

static void learn__takes_a_region_and_nothing_else(void **state)
{
	struct ky_http_answer answer = answer_of(301, "<Error><Region>eu-1</Region></Error>");
	static struct ky_s3_client client = {.http = NULL};

	(void)state;
	ky_s3_client_learn(&client, KY_VERDICT_REDIRECT, &answer);
	assert_string_equal(client.region, "eu-1");
	memcpy(answer.region, "eu-2", 5);
	ky_s3_client_learn(&client, KY_VERDICT_REDIRECT, &answer);
	assert_string_equal(client.region, "eu-2");
	memcpy(answer.region, "evil.example/", 14);
	ky_buf_clear(&answer.body);
	ky_s3_client_learn(&client, KY_VERDICT_REDIRECT, &answer);
	assert_string_equal(client.region, "eu-2");
	ky_buf_release(&answer.body);
}

static void say__names_status_and_code_without_secrets(void **state)
{
	struct ky_http_answer answer = answer_of(
		404, "<Error><Code>XAdminUserNotFound</Code><Message>SECRET</Message>");
	static struct ky_s3_client client = {.bucket = "abc", .keys.secret_key = "SECRET"};
	char text[256];

	(void)state;
	ky_s3_client_say(&client, &answer, text, sizeof(text));
	assert_string_equal(text, "bucket abc answers 404 XAdminUserNotFound; the credentials are "
				  "not valid there");
	ky_buf_release(&answer.body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(place__is_bucket_and_prefix),
		cmocka_unit_test(place__refuses_what_a_server_takes_as_something_else),
		cmocka_unit_test(learn__takes_a_region_and_nothing_else),
		cmocka_unit_test(say__names_status_and_code_without_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
