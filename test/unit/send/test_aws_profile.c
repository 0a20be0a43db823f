/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <send/aws_profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char top[64], config[96], credentials[96];
static struct ky_aws_profile profile;

static int set_up(void **state)
{
	(void)state;
	if (temp_tree_make(top, sizeof(top)))
		return -1;
	snprintf(config, sizeof(config), "%s/config", top);
	snprintf(credentials, sizeof(credentials), "%s/credentials", top);
	setenv("AWS_CONFIG_FILE", config, 1);
	return setenv("AWS_SHARED_CREDENTIALS_FILE", credentials, 1);
}

static int tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(top);
}

static void profile__of_no_file_says_nothing(void **state)
{
	(void)state;
	ky_aws_profile_read(&profile, "default");
	assert_string_equal(profile.access_key, "");
	assert_string_equal(profile.region, "");
	assert_null(profile.unread);
}

static void profile__is_what_its_own_section_says(void **state)
{
	(void)state;
	temp_tree_write(config,
			"region = none\n[default]\nregion = eu-1\n[ profile\ttwo ]\r\n"
			"region\t= eu-2 \r\n role_arn = indented\n#role_arn = comment\n"
			"role_session_name = pod\nweb_identity_token_file = /run/token\nnonsense\n"
			"[twofold]\nregion = eu-3\n[unended\nrole_arn = x\n");
	ky_aws_profile_read(&profile, "two");
	assert_string_equal(profile.region, "eu-2");
	assert_string_equal(profile.role, "");
	assert_string_equal(profile.role_session, "pod");
	assert_string_equal(profile.web_token_file, "/run/token");
	assert_null(profile.unread);
}

static void profile__of_credentials_wins(void **state)
{
	(void)state;
	temp_tree_write(config, "[default]\naws_access_key_id = A\naws_secret_access_key = S\n");
	temp_tree_write(credentials,
			"[default]\naws_access_key_id = B\naws_secret_access_key = a=b=\n");
	ky_aws_profile_read(&profile, "default");
	assert_string_equal(profile.access_key, "B");
	assert_string_equal(profile.secret_key, "a=b=");
}

static void profile__leaves_out_what_is_too_long(void **state)
{
	static char text[8192];
	int used = snprintf(text, sizeof(text), "[default]\nregion = ");

	(void)state;
	memset(text + used, 'r', 5000);
	memcpy(text + used + 5000, "\naws_access_key_id = A\n", 24);
	temp_tree_write(config, text);
	temp_tree_write(credentials, "");
	ky_aws_profile_read(&profile, "default");
	assert_string_equal(profile.region, "");
	assert_string_equal(profile.access_key, "A");
}

static void profile__names_a_way_to_keys_that_is_not_gone(void **state)
{
	(void)state;
	temp_tree_write(config, "[default]\nsso_session = work\n[other]\n"
				"credential_process = \"/opt/my keys\" --for a=b\n");
	ky_aws_profile_read(&profile, "default");
	assert_string_equal(profile.unread, "sso_session");
	assert_string_equal(profile.process, "");
	ky_aws_profile_read(&profile, "other");
	assert_null(profile.unread);
	assert_string_equal(profile.process, "\"/opt/my keys\" --for a=b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profile__of_no_file_says_nothing),
		cmocka_unit_test(profile__is_what_its_own_section_says),
		cmocka_unit_test(profile__of_credentials_wins),
		cmocka_unit_test(profile__leaves_out_what_is_too_long),
		cmocka_unit_test(profile__names_a_way_to_keys_that_is_not_gone),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
