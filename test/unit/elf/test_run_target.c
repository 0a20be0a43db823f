/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* argv[1] is a statically linked program. */
#include "../../lib/cmocka_all.h"

#include <elf/run_target.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *static_program;

static void run_target__dynamic_programs_and_scripts_can_be_reached(void **state)
{
	char script[] = "/tmp/kymo-test-XXXXXX";
	int fd = mkstemp(script);

	(void)state;
	assert_int_equal(ky_run_target_reach("/proc/self/exe"), KY_RUN_REACHABLE);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	close(fd);
	assert_int_equal(ky_run_target_reach(script), KY_RUN_REACHABLE);
	unlink(script);
	/* exec will find the words for these. */
	assert_int_equal(ky_run_target_reach("/proc/nonexistent"), KY_RUN_REACHABLE);
	assert_int_equal(ky_run_target_reach("/"), KY_RUN_REACHABLE);
}

static void run_target__static_program_cannot_be_reached(void **state)
{
	(void)state;
	if (static_program == NULL) {
		print_message("# no static libc to build one with\n");
		skip();
	}
	assert_int_equal(ky_run_target_reach(static_program), KY_RUN_STATIC);
}

static void run_target__setuid_counts_only_when_it_changes_the_user(void **state)
{
	char path[] = "/tmp/kymo-test-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(fchmod(fd, 04755), 0);
	assert_int_equal(ky_run_target_reach(path), KY_RUN_REACHABLE);
	if (geteuid() == 0) { /* only root can give a file away */
		assert_int_equal(fchown(fd, 12345, getgid()), 0);
		assert_int_equal(fchmod(fd, 04755), 0);
		assert_int_equal(ky_run_target_reach(path), KY_RUN_SETUID);
		assert_int_equal(fchmod(fd, 0755), 0);
		assert_int_equal(ky_run_target_reach(path), KY_RUN_REACHABLE);
	}
	close(fd);
	unlink(path);
}

static void run_target__is_found_as_execvp_finds_it(void **state)
{
	char out[256], directory[] = "/tmp/kymo-test-XXXXXX", file[64], expected[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(file, sizeof(file), "%s/prog", directory);
	snprintf(expected, sizeof(expected), "%s/prog", directory);
	fd = open(file, O_CREAT | O_WRONLY, 0644);
	close(fd);
	setenv("PATH", directory, 1);
	assert_int_equal(ky_run_target_resolve("prog", out, sizeof(out)), -ENOENT);
	assert_int_equal(chmod(file, 0755), 0);
	setenv("PATH", "/proc/nonexistent:", 1);
	assert_int_equal(ky_run_target_resolve("prog", out, sizeof(out)), -ENOENT);
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(ky_run_target_resolve("prog", out, sizeof(out)), 0);
	assert_string_equal(out, "./prog");
	setenv("PATH", directory, 1);
	assert_int_equal(ky_run_target_resolve("prog", out, sizeof(out)), 0);
	assert_string_equal(out, expected);
	assert_int_equal(ky_run_target_resolve("./other", out, sizeof(out)), 0);
	assert_string_equal(out, "./other");
	assert_int_equal(ky_run_target_resolve("./other", out, 4), -ENAMETOOLONG);
	assert_int_equal(chdir("/"), 0);
	unlink(file);
	rmdir(directory);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_target__dynamic_programs_and_scripts_can_be_reached),
		cmocka_unit_test(run_target__static_program_cannot_be_reached),
		cmocka_unit_test(run_target__setuid_counts_only_when_it_changes_the_user),
		cmocka_unit_test(run_target__is_found_as_execvp_finds_it),
	};

	static_program = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
