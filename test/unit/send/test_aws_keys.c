/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The places that need no network; test/cli/test_upload.py has the others. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <send/aws_keys.h>
#include <stdlib.h>
#include <string.h>

static char top[64], config[96], credentials[96];

static int set_up(void **state)
{
	static const char *const names[] = {"AWS_ACCESS_KEY_ID",
					    "AWS_SECRET_ACCESS_KEY",
					    "AWS_SESSION_TOKEN",
					    "AWS_REGION",
					    "AWS_DEFAULT_REGION",
					    "AWS_ENDPOINT_URL",
					    "AWS_ENDPOINT_URL_S3",
					    "AWS_PROFILE",
					    "AWS_WEB_IDENTITY_TOKEN_FILE",
					    "AWS_ROLE_ARN",
					    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
					    "AWS_CONTAINER_CREDENTIALS_FULL_URI"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	if (temp_tree_make(top, sizeof(top)))
		return -1;
	snprintf(config, sizeof(config), "%s/config", top);
	snprintf(credentials, sizeof(credentials), "%s/credentials", top);
	setenv("AWS_CONFIG_FILE", config, 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", credentials, 1);
	return setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

static int tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(top);
}

static void read__takes_the_profile_that_is_asked_for(void **state)
{
	char why[KY_HTTP_ERROR_BYTES];
	static struct ky_aws_keys keys;

	(void)state;
	temp_tree_write(config,
			"[default]\nregion = eu-1\n[profile two]\n region=no\nregion = eu-2\n"
			"endpoint_url = http://x\n");
	temp_tree_write(
		credentials,
		"# a comment\n[default]\naws_access_key_id = A1\naws_secret_access_key = S1\n"
		"[two]\naws_access_key_id=A2\r\naws_secret_access_key=S2=\naws_session_token=T\n"
		"nonsense\n");
	assert_int_equal(ky_aws_keys_read(&keys, NULL, why), 0);
	assert_string_equal(keys.access_key, "A1");
	assert_string_equal(keys.secret_key, "S1");
	assert_string_equal(keys.token, "");
	assert_string_equal(keys.region, "eu-1");
	setenv("AWS_PROFILE", "two", 1);
	assert_int_equal(ky_aws_keys_read(&keys, NULL, why), 0);
	assert_string_equal(keys.access_key, "A2");
	assert_string_equal(keys.secret_key, "S2=");
	assert_string_equal(keys.token, "T");
	assert_string_equal(keys.region, "eu-2");
	assert_string_equal(keys.endpoint, "http://x");
}

static void read__prefers_the_environment(void **state)
{
	char why[KY_HTTP_ERROR_BYTES];
	static struct ky_aws_keys keys;

	(void)state;
	setenv("AWS_ACCESS_KEY_ID", "E", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "F", 1);
	setenv("AWS_REGION", "eu-3", 1);
	setenv("AWS_ENDPOINT_URL", "http://y", 1);
	assert_int_equal(ky_aws_keys_read(&keys, NULL, why), 0);
	assert_string_equal(keys.access_key, "E");
	assert_string_equal(keys.token, "");
	assert_string_equal(keys.region, "eu-3");
	assert_string_equal(keys.endpoint, "http://y");
	setenv("AWS_ENDPOINT_URL_S3", "http://z", 1);
	assert_int_equal(ky_aws_keys_read(&keys, NULL, why), 0);
	assert_string_equal(keys.endpoint, "http://z");
	unsetenv("AWS_ACCESS_KEY_ID");
}

static void read__says_where_keys_could_be(void **state)
{
	char why[KY_HTTP_ERROR_BYTES];
	static struct ky_aws_keys keys = {.access_key = "kept"};

	(void)state;
	setenv("AWS_PROFILE", "missing", 1);
	assert_int_equal(ky_aws_keys_read(&keys, NULL, why), -ENOENT);
	assert_string_equal(keys.access_key, "kept");
	assert_non_null(strstr(why, "AWS_ACCESS_KEY_ID"));
}

static void time__is_utc_or_none(void **state)
{
	(void)state;
	assert_int_equal(ky_aws_time_ns("2026-05-18T12:30:00Z"), UINT64_C(1779107400000000000));
	assert_int_equal(ky_aws_time_ns("2026-05-18T14:30:00.25+02:00"),
			 UINT64_C(1779107400000000000));
	assert_int_equal(ky_aws_time_ns("2026-05-18T11:00:00-01:30"),
			 UINT64_C(1779107400000000000));
	assert_int_equal(ky_aws_time_ns("soon"), 0);
	assert_int_equal(ky_aws_time_ns(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__takes_the_profile_that_is_asked_for),
		cmocka_unit_test(read__prefers_the_environment),
		cmocka_unit_test(read__says_where_keys_could_be),
		cmocka_unit_test(time__is_utc_or_none),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
