/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <cli/run_process.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Fields 2 to 22 of proc(5) with state, threads and start as given. */
static const char *stat_text(const char *command, char process_state, unsigned int threads,
			     unsigned int start)
{
	static char text[512];

	snprintf(text, sizeof(text), "42 (%s) %c 1 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 %u 0 %u 9 9 9\n",
		 command, process_state, threads, start);
	return text;
}

static void run_process__start_time_tells_a_reused_pid_apart(void **state)
{
	(void)state;
	assert_true(ky_run_process_stat_is_alive(stat_text("a", 'S', 1, 77), 77));
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'S', 1, 78), 77));
}

static void run_process__zombie_is_gone_unless_other_threads_go_on(void **state)
{
	(void)state;
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'Z', 1, 77), 77));
	assert_true(ky_run_process_stat_is_alive(stat_text("a", 'Z', 3, 77), 77));
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'X', 1, 77), 77));
}

static void run_process__command_may_look_like_fields(void **state)
{
	(void)state;
	assert_true(ky_run_process_stat_is_alive(stat_text("a) Z 1 1", 'R', 1, 77), 77));
	assert_true(ky_run_process_stat_is_alive(stat_text("", 'R', 1, 77), 77));
	assert_false(ky_run_process_stat_is_alive("42 (a", 77));
	assert_false(ky_run_process_stat_is_alive("42 (a) R 1 1", 77));
	assert_false(ky_run_process_stat_is_alive("", 0));
}

static void run_process__reaped_child_is_gone(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(ky_run_process_is_alive((uint32_t)pid, 0));
}

static void run_process__process_of_a_session_is_found_by_its_environment(void **state)
{
	/* Of this run alone: the same test may run beside it. */
	uint64_t session = (uint64_t)getpid() << 32 | 2, other = session ^ 3;
	char carried[64], named[64];
	char *variables[] = {named, carried, NULL};
	char *arguments[] = {(char[]){"cat"}, NULL};
	int input[2], output[2];
	char byte = 'x';
	pid_t pid;

	(void)state;
	snprintf(carried, sizeof(carried), "KYMO_SESSION=%016" PRIx64, session);
	snprintf(named, sizeof(named), "A=KYMO_SESSION=%016" PRIx64, other);
	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	pid = fork();
	if (pid == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		close(input[1]);
		execve("/bin/cat", arguments, variables);
		_exit(1);
	}
	/* Its echo says that it runs with its own environment. */
	assert_int_equal(write(input[1], &byte, 1), 1);
	assert_int_equal(read(output[0], &byte, 1), 1);
	assert_true(ky_run_process_of_session_exists(session));
	assert_false(ky_run_process_of_session_exists(other));
	close(input[0]);
	close(input[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(ky_run_process_of_session_exists(session));
	close(output[0]);
	close(output[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_process__start_time_tells_a_reused_pid_apart),
		cmocka_unit_test(run_process__zombie_is_gone_unless_other_threads_go_on),
		cmocka_unit_test(run_process__command_may_look_like_fields),
		cmocka_unit_test(run_process__reaped_child_is_gone),
		cmocka_unit_test(run_process__process_of_a_session_is_found_by_its_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
