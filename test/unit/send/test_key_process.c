/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <send/http_client.h>
#include <send/key_process.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char why[KY_HTTP_ERROR_BYTES];

/* The words, with "|" after each. */
static const char *split(const char *command)
{
	static char joined[256];
	char text[256], *words[4];
	size_t count;

	snprintf(text, sizeof(text), "%s", command);
	count = ky_key_process_split(text, words, 4);
	joined[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		strncat(joined, words[i], sizeof(joined) - strlen(joined) - 1);
		strncat(joined, "|", sizeof(joined) - strlen(joined) - 1);
	}
	return joined;
}

static void key_process__words_are_a_shells_without_its_expansions(void **state)
{
	(void)state;
	assert_string_equal(split(" /opt/keys  --user\tbob\n"), "/opt/keys|--user|bob|");
	assert_string_equal(split("\"/opt/my keys\" 'a \"b\" \\c' d\\ e\"f\"g"),
			    "/opt/my keys|a \"b\" \\c|d efg|");
	assert_string_equal(split("\"a \\\"b\\\" \\n \\\\\" ''"), "a \"b\" \\n \\||");
	assert_string_equal(split("keys $HOME `id` *;"), "keys|$HOME|`id`|*;|");
	assert_string_equal(split("a\\"), "a\\|");
	assert_string_equal(split(""), "");
	assert_string_equal(split(" \t"), "");
	assert_string_equal(split("a \"b"), "");
	assert_string_equal(split("a b c d"), "a|b|c|d|");
	assert_string_equal(split("a b c d e"), "");
}

/* Returns what it printed; "": it failed, and `why` says why. */
static const char *run(const char *command, uint64_t limit_ns)
{
	static char text[KY_KEY_PROCESS_BYTES_MAX + 1];
	struct ky_buf out;
	int err;

	why[0] = text[0] = '\0';
	ky_buf_init(&out, 0);
	err = ky_key_process_run(&out, command, limit_ns, why);
	assert_true(err == 0 || err == -ENOENT);
	assert_int_equal(err != 0, why[0] != '\0');
	if (!err) {
		memcpy(text, out.bytes, out.used);
		text[out.used] = '\0';
	}
	ky_buf_release(&out);
	return text;
}

static void key_process__gives_what_a_program_prints(void **state)
{
	(void)state;
	assert_string_equal(run("printf '%s-%s' a 'b c'", 0), "a-b c");
	assert_string_equal(run("sh -c 'printf a; printf canary >&2; sleep 0.05; printf b'", 0),
			    "ab");
	assert_string_equal(run("cat", 0), ""); /* it has no input */
	assert_string_equal(why, "");
	/* Its child keeps the output open. */
	assert_string_equal(run("sh -c 'sleep 1000 & printf a'", 0), "a");
}

static void key_process__says_why_there_are_none(void **state)
{
	(void)state;
	assert_string_equal(run("sh -c 'echo canary; echo canary >&2; exit 3'", 0), "");
	assert_string_equal(why, "no credentials: credential_process sh exits with 3");
	assert_string_equal(run("sh -c 'kill -9 $$'", 0), "");
	assert_non_null(strstr(why, "sh died of signal 9"));
	assert_string_equal(run("/nowhere/keys canary", 0), "");
	/* Under Valgrind a child of posix_spawn() has memory of its own, and cannot say why. */
	assert_non_null(strstr(why, test_is_under_valgrind() ? "/nowhere/keys exits with 127" :
							       "/nowhere/keys cannot be started"));
	assert_null(strstr(why, "canary"));
	assert_string_equal(run("a 'b", 0), "");
	assert_non_null(strstr(why, "each quote has its end"));
}

static void key_process__ends_one_that_hangs_or_floods_with_its_group(void **state)
{
	(void)state;
	assert_string_equal(run("sh -c 'sleep 1000 & sleep 1000'", 50000000), "");
	assert_non_null(strstr(why, "its time was over"));
	assert_string_equal(run("yes", 0), "");
	assert_non_null(strstr(why, "prints more than 65535 bytes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_process__words_are_a_shells_without_its_expansions),
		cmocka_unit_test(key_process__gives_what_a_program_prints),
		cmocka_unit_test(key_process__says_why_there_are_none),
		cmocka_unit_test(key_process__ends_one_that_hangs_or_floods_with_its_group),
	};

	return cmocka_run_group_tests_name("key_process", tests, NULL, NULL);
}
