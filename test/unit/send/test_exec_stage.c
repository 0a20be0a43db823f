/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands that end well, badly, later and never. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <send/exec_stage.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];
static struct kymo_segment segment = {.size = sizeof(segment),
				      .pid = 42,
				      .service = "web",
				      .run = "0123abcd-42-777",
				      .name = "000003.trc",
				      .boot = "0123abcd-42-777",
				      .host = "h",
				      .number = 3,
				      .byte_count = 5};

static int set_up(void **state)
{
	static char path[96];

	(void)state;
	if (temp_tree_make(top, sizeof(top)))
		return -1;
	snprintf(path, sizeof(path), "%s/segment", top);
	segment.path = path;
	segment.fd = open(path, O_RDWR | O_CREAT, 0600);
	return segment.fd < 0 || write(segment.fd, "hello", 5) != 5 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(segment.fd);
	return temp_tree_remove(top);
}

static void script(char *command, size_t bytes, const char *text)
{
	FILE *file;

	snprintf(command, bytes, "%s/script", top);
	file = fopen(command, "we");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", text);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(command, 0700), 0);
}

static struct kymo_stage_result run(const char *command, uint64_t limit_ns)
{
	char why[KYMO_STAGE_REASON_BYTES];
	struct kymo_stage_result result = {.size = sizeof(result)};
	struct kymo_segment_stage stage;

	assert_int_equal(ky_exec_stage_make(&stage, command, limit_ns, why), 0);
	stage.take(stage.ctx, &segment, &result);
	while (result.answer == KYMO_STAGE_PENDING)
		stage.poll(stage.ctx, 20, &result);
	stage.close(stage.ctx);
	return result;
}

static void exec__gives_the_segment_and_its_facts(void **state)
{
	char command[128], text[256], found[64] = "";
	struct kymo_stage_result result;
	FILE *file;

	(void)state;
	script(command, sizeof(command),
	       "cd \"${0%/*}\"\nexec >out\ncat\n"
	       "echo \" $1 $KYMO_SEGMENT_SERVICE $KYMO_SEGMENT_NUMBER\"");
	snprintf(text, sizeof(text), "%s  $HOME;x\t", command);
	result = run(text, 0);
	assert_int_equal(result.answer, KYMO_STAGE_TAKEN);
	snprintf(text, sizeof(text), "%s/out", top);
	file = fopen(text, "re");
	assert_non_null(file);
	assert_non_null(fgets(found, sizeof(found), file));
	(void)fclose(file);
	assert_string_equal(found, "hello $HOME;x web 3\n");
}

static void exec__says_by_its_status_what_it_wants(void **state)
{
	char command[128];
	struct kymo_stage_result result;

	(void)state;
	script(command, sizeof(command), "echo first; echo 'the disk is gone' >&2; exit 3");
	result = run(command, 0);
	assert_int_equal(result.answer, KYMO_STAGE_REFUSED);
	assert_non_null(strstr(result.reason, "exits with 3: the disk is gone"));
	script(command, sizeof(command), "exit 75");
	result = run(command, 0);
	assert_int_equal(result.answer, KYMO_STAGE_AGAIN);
	script(command, sizeof(command), "kill -9 $$");
	result = run(command, 0);
	assert_int_equal(result.answer, KYMO_STAGE_REFUSED);
	assert_non_null(strstr(result.reason, "died of signal 9"));
}

/* What it started holds the pipe open as long as it lives. */
static void exec__ends_its_group(void **state)
{
	char command[128], path[128], byte;
	struct kymo_stage_result result;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/pipe", top);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	script(command, sizeof(command), "exec 3>\"${0%/*}\"/pipe; sleep 1000 & exit 0");
	result = run(command, 0);
	assert_int_equal(result.answer, KYMO_STAGE_TAKEN);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
}

static void exec__ends_one_that_hangs_or_floods(void **state)
{
	char command[128];
	struct kymo_stage_result result;

	(void)state;
	script(command, sizeof(command), "trap '' TERM; while :; do sleep 1000; done");
	result = run(command, 50000000);
	assert_int_equal(result.answer, KYMO_STAGE_AGAIN);
	assert_non_null(strstr(result.reason, "its time was over"));
	result = run("yes", 50000000);
	assert_int_equal(result.answer, KYMO_STAGE_AGAIN);
	script(command, sizeof(command), "exec >&- 2>&-; while :; do sleep 1000; done");
	result = run(command, 50000000);
	assert_int_equal(result.answer, KYMO_STAGE_AGAIN);
}

static void make__wants_words(void **state)
{
	char why[KYMO_STAGE_REASON_BYTES], many[2 * KY_EXEC_WORDS_MAX + 8];
	struct kymo_segment_stage stage;

	(void)state;
	assert_int_equal(ky_exec_stage_make(&stage, " \t", 0, why), -EINVAL);
	assert_int_equal(ky_exec_stage_make(&stage, "/nothing/there x", 0, why), -EINVAL);
	assert_string_equal(why, "there is no program '/nothing/there'");
	for (size_t i = 0; i < sizeof(many) - 1; i++)
		many[i] = i % 2 ? ' ' : 'x';
	many[sizeof(many) - 1] = '\0';
	assert_int_equal(ky_exec_stage_make(&stage, many, 0, why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exec__gives_the_segment_and_its_facts, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(exec__says_by_its_status_what_it_wants, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(exec__ends_its_group, set_up, tear_down),
		cmocka_unit_test_setup_teardown(exec__ends_one_that_hangs_or_floods, set_up,
						tear_down),
		cmocka_unit_test(make__wants_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
