/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <session/run_environment.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void run_environment__preload_stands_after_what_is_there(void **state)
{
	char out[64];

	(void)state;
	assert_int_equal(ky_run_preload_value(NULL, "/k.so", out, sizeof(out)), 0);
	assert_string_equal(out, "/k.so");
	assert_int_equal(ky_run_preload_value("", "/k.so", out, sizeof(out)), 0);
	assert_string_equal(out, "/k.so");
	assert_int_equal(ky_run_preload_value("/a.so /b.so", "/k.so", out, sizeof(out)), 0);
	assert_string_equal(out, "/a.so /b.so:/k.so");
}

static void run_environment__preload_is_not_doubled(void **state)
{
	static const char *const there[] = {"/k.so", "/a.so:/k.so", "/k.so /a.so",
					    "/a.so:/k.so:/b.so"};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
		assert_int_equal(ky_run_preload_value(there[i], "/k.so", out, sizeof(out)), 0);
		assert_string_equal(out, there[i]);
	}
	/* A longer name is another library. */
	assert_int_equal(ky_run_preload_value("/k.so.1:/x/k.so", "/k.so", out, sizeof(out)), 0);
	assert_string_equal(out, "/k.so.1:/x/k.so:/k.so");
}

static void run_environment__paths_that_the_loader_would_split_are_refused(void **state)
{
	char out[16];

	(void)state;
	assert_int_equal(ky_run_preload_value(NULL, "/my lib/k.so", out, sizeof(out)), -EINVAL);
	assert_int_equal(ky_run_preload_value(NULL, "/a:b/k.so", out, sizeof(out)), -EINVAL);
	assert_int_equal(ky_run_preload_value("/0123456789.so", "/k.so", out, sizeof(out)),
			 -ENAMETOOLONG);
}

static void run_environment__status_lines_are_understood(void **state)
{
	char reason[32];

	(void)state;
	assert_int_equal(ky_run_status_parse("ok tables=3 copies=1\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_OK);
	assert_int_equal(ky_run_status_parse("no-tokio\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_NO_TOKIO);
	assert_int_equal(ky_run_status_parse("stripped\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_STRIPPED);
	assert_int_equal(ky_run_status_parse("refused no room\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_REFUSED);
	assert_string_equal(reason, "no room");
	assert_int_equal(ky_run_status_parse("unknown-layout x\x1b[2J\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_UNKNOWN_LAYOUT);
	assert_string_equal(reason, "x?[2J");
	assert_int_equal(ky_run_status_parse("okay\n", reason, sizeof(reason)),
			 KY_RUN_STATUS_OTHER);
	assert_string_equal(reason, "okay");
	/* Cut, or still being written. */
	assert_int_equal(ky_run_status_parse("no-tok", reason, sizeof(reason)), KY_RUN_STATUS_NONE);
	assert_int_equal(ky_run_status_parse("", reason, sizeof(reason)), KY_RUN_STATUS_NONE);
	assert_int_equal(ky_run_status_parse("\n", reason, sizeof(reason)), KY_RUN_STATUS_NONE);
	assert_int_equal(
		ky_run_status_parse("refused a reason far longer than the room for it is\n", reason,
				    sizeof(reason)),
		KY_RUN_STATUS_REFUSED);
	assert_int_equal(strlen(reason), sizeof(reason) - 1);
}

static const char *value_of(const struct ky_run_environment *environment, const char *name)
{
	size_t bytes = strlen(name);

	for (char **variable = environment->variables; *variable != NULL; variable++)
		if (strncmp(*variable, name, bytes) == 0 && (*variable)[bytes] == '=')
			return *variable + bytes + 1;
	return NULL;
}

static void run_environment__carries_session_and_leaves_nothing(void **state)
{
	char directory[] = "/tmp/kymo-test-XXXXXX", errbuf[512] = "", session[20];
	static struct ky_session_options options = {.agent.is_flight = true,
						    .agent.output.service = "svc"};
	struct ky_run_environment environment;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(directory));
	options.ring_directory = directory;
	setenv("KYMO_PRELOAD", "/proc/self/exe", 1);
	unsetenv("LD_PRELOAD"); /* Valgrind puts itself there */
	setenv("LD_PRELOAD_UNRELATED", "kept", 1);
	setenv("KYMO_SESSION", "stale", 1);
	assert_int_equal(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)),
			 0);
	snprintf(session, sizeof(session), "%016llx", (unsigned long long)environment.session);
	assert_string_equal(value_of(&environment, "KYMO_SESSION"), session);
	assert_string_equal(value_of(&environment, "LD_PRELOAD"), "/proc/self/exe");
	assert_string_equal(value_of(&environment, "LD_PRELOAD_UNRELATED"), "kept");
	assert_string_equal(value_of(&environment, "KYMO_SERVICE"), "svc");
	assert_string_equal(value_of(&environment, "KYMO_MODE"), "flight");
	assert_null(value_of(&environment, "KYMO_RING_BYTES"));
	assert_int_equal(stat(environment.status_directory, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	ky_run_environment_close(&environment);
	assert_int_equal(rmdir(directory), 0); /* empty again */
}

static void run_environment__directory_of_others_is_refused_with_a_sentence(void **state)
{
	char directory[] = "/tmp/kymo-test-XXXXXX", errbuf[512] = "";
	static struct ky_session_options options;
	struct ky_run_environment environment;

	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chmod(directory, 0770), 0);
	options.ring_directory = directory;
	setenv("KYMO_PRELOAD", "/proc/self/exe", 1);
	assert_int_equal(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)),
			 -EPERM);
	assert_non_null(strstr(errbuf, directory));
	assert_int_equal(rmdir(directory), 0);
	options.ring_directory = "/proc/self/status";
	assert_true(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)) < 0);
	setenv("KYMO_PRELOAD", "/proc/nonexistent/k.so", 1);
	assert_int_equal(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)),
			 -ENOENT);
	assert_non_null(strstr(errbuf, "KYMO_PRELOAD"));
}

/* The recorder and all that search rings take it so, each from where it stands. */
static void run_environment__relative_directory_counts_from_here(void **state)
{
	char directory[] = "/tmp/kymo-test-XXXXXX", errbuf[512] = "", expected[64];
	static struct ky_session_options options;
	struct ky_run_environment environment;

	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chdir(directory), 0);
	setenv("KYMO_PRELOAD", "/proc/self/exe", 1);
	unsetenv("LD_PRELOAD");
	setenv("KYMO_RING_DIR", "rings", 1);
	assert_int_equal(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)),
			 0);
	snprintf(expected, sizeof(expected), "%s/rings", directory);
	assert_string_equal(value_of(&environment, "KYMO_RING_DIR"), expected);
	ky_run_environment_close(&environment);
	assert_int_equal(rmdir(expected), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(directory), 0);
	setenv("KYMO_RING_DIR", "", 1);
	assert_int_equal(ky_run_environment_open(&environment, &options, errbuf, sizeof(errbuf)),
			 0);
	assert_int_equal(strncmp(environment.ring_directory, "/dev/shm/kymo-", 14), 0);
	ky_run_environment_close(&environment);
	unsetenv("KYMO_RING_DIR");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_environment__preload_stands_after_what_is_there),
		cmocka_unit_test(run_environment__preload_is_not_doubled),
		cmocka_unit_test(run_environment__paths_that_the_loader_would_split_are_refused),
		cmocka_unit_test(run_environment__status_lines_are_understood),
		cmocka_unit_test(run_environment__carries_session_and_leaves_nothing),
		cmocka_unit_test(run_environment__directory_of_others_is_refused_with_a_sentence),
		cmocka_unit_test(run_environment__relative_directory_counts_from_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
