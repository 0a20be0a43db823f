/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/testpoint.h>
#include <proc/run_process.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* This run's own: others run beside it. */
#define SESSION (UINT64_C(0xdead00000000) | (uint64_t)getpid())

static const char *session_text(uint64_t session)
{
	static char text[40];

	snprintf(text, sizeof(text), "KYMO_SESSION=%016llx", (unsigned long long)session);
	return text;
}

/* On a busy machine one reading may find a process that is about to become one. */
static void assert_gone(uint64_t session)
{
	uint32_t readings = 10000;

	while (ky_run_process_of_session_exists(session, 0)) {
		assert_true(readings-- > 0);
		usleep(1000);
	}
}

/* What happens between the list of all processes and the reading of each. */
static void (*meanwhile)(void);

void ky_testpoint(const char *name)
{
	void (*once)(void) = meanwhile;

	meanwhile = NULL;
	if (once && strcmp(name, "process.listed") == 0)
		once();
}

/* Fields 2 to 22 of proc(5) with state, threads and start as given. */
static const char *stat_text(const char *command, char process_state, unsigned int threads,
			     unsigned int start)
{
	static char text[512];

	snprintf(text, sizeof(text), "42 (%s) %c 1 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 %u 0 %u 9 9 9\n",
		 command, process_state, threads, start);
	return text;
}

static void run_process__start_time_distinguishes_a_reused_pid(void **state)
{
	(void)state;
	assert_true(ky_run_process_stat_is_alive(stat_text("a", 'S', 1, 77), 77));
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'S', 1, 78), 77));
}

static void run_process__zombie_is_gone_unless_other_threads_continue(void **state)
{
	(void)state;
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'Z', 1, 77), 77));
	assert_true(ky_run_process_stat_is_alive(stat_text("a", 'Z', 3, 77), 77));
	assert_false(ky_run_process_stat_is_alive(stat_text("a", 'X', 1, 77), 77));
}

static void run_process__command_may_resemble_fields(void **state)
{
	(void)state;
	assert_true(ky_run_process_stat_is_alive(stat_text("a) Z 1 1", 'R', 1, 77), 77));
	assert_true(ky_run_process_stat_is_alive(stat_text("", 'R', 1, 77), 77));
	assert_false(ky_run_process_stat_is_alive("42 (a", 77));
	assert_false(ky_run_process_stat_is_alive("42 (a) R 1 1", 77));
	assert_false(ky_run_process_stat_is_alive("", 0));
}

/* Where numbers may have begun anew since, all processes are read. */
static void run_process__first_number_is_of_a_young_process_alone(void **state)
{
	uint32_t own = (uint32_t)getpid(), first = ky_run_process_first(own, 0);

	(void)state;
	assert_true(first == own || first == 0);
	assert_int_equal(ky_run_process_first(own, UINT64_C(10000000000)), 0);
	assert_int_equal(ky_run_process_first(UINT32_MAX, 0), 0);
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
	uint64_t session = SESSION, other = session ^ UINT64_C(1) << 32;
	char inside[48], own[40], *variables[] = {inside, own, NULL};
	char *arguments[] = {(char[]){"cat"}, NULL};
	int input[2], output[2];
	char byte = 'x';
	pid_t pid;

	(void)state;
	snprintf(inside, sizeof(inside), "A=%s", session_text(other));
	snprintf(own, sizeof(own), "%s", session_text(session));
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
	assert_true(ky_run_process_of_session_exists(session, 0));
	/* No later process has a smaller number. */
	assert_true(ky_run_process_of_session_exists(session, (uint32_t)pid));
	assert_false(ky_run_process_of_session_exists(session, (uint32_t)pid + 1));
	assert_gone(other);
	close(input[0]);
	close(input[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_gone(session);
	close(output[0]);
	close(output[1]);
}

/* ---- a process that continues in a child of its own ---- */

static struct {
	pid_t pid, heir;
	int input, output;
} daemon_of_ours;

static void start_daemon(void)
{
	char own[40], *variables[] = {(char[]){"PATH=/usr/bin:/bin"}, own, NULL};
	char *arguments[] = {(char[]){"sh"}, (char[]){"-c"},
			     (char[]){"echo; read word; sleep 1000 >/dev/null & echo $!"}, NULL};
	int input[2], output[2];
	char byte;

	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	snprintf(own, sizeof(own), "%s", session_text(SESSION));
	daemon_of_ours.pid = fork();
	if (daemon_of_ours.pid == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		close(input[0]);
		close(input[1]);
		close(output[0]);
		close(output[1]);
		execve("/bin/sh", arguments, variables);
		_exit(1);
	}
	close(input[0]);
	close(output[1]);
	daemon_of_ours.input = input[1];
	daemon_of_ours.output = output[0];
	assert_int_equal(read(output[0], &byte, 1), 1); /* it runs with its own environment */
}

/* It starts its child and ends. */
static void hand_over(void)
{
	char text[32] = "";
	size_t used = 0;
	ssize_t got;

	assert_int_equal(write(daemon_of_ours.input, "\n", 1), 1);
	while (used < sizeof(text) - 1 && !memchr(text, '\n', used) &&
	       (got = read(daemon_of_ours.output, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	daemon_of_ours.heir = (pid_t)strtol(text, NULL, 10);
	assert_true(daemon_of_ours.heir > 0);
}

static void hand_over_and_be_waited_for(void)
{
	hand_over();
	assert_int_equal(waitpid(daemon_of_ours.pid, NULL, 0), daemon_of_ours.pid);
}

static void hand_over_and_stay_a_zombie(void)
{
	siginfo_t info;

	hand_over();
	assert_int_equal(waitid(P_PID, (id_t)daemon_of_ours.pid, &info, WEXITED | WNOWAIT), 0);
}

static void stop_daemon(void)
{
	close(daemon_of_ours.input);
	close(daemon_of_ours.output);
	kill(daemon_of_ours.heir, SIGKILL);
	(void)waitpid(daemon_of_ours.pid, NULL, 0); /* may have been waited for */
	while (kill(daemon_of_ours.heir, 0) == 0 &&
	       !ky_run_process_is_zombie((uint32_t)daemon_of_ours.heir))
		usleep(1000);
}

static void run_process__finds_a_child_orphaned_during_the_reading(void **state)
{
	void (*const ways[])(void) = {hand_over_and_be_waited_for, hand_over_and_stay_a_zombie};

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		start_daemon();
		meanwhile = ways[i];
		assert_true(ky_run_process_of_session_exists(SESSION, 0));
		assert_null(meanwhile);
		stop_daemon();
		assert_gone(SESSION);
	}
}

static void run_process__old_zombie_is_ignored(void **state)
{
	siginfo_t info;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	/* Asked by its number, too. */
	assert_false(ky_run_process_of_session_exists(SESSION, (uint32_t)pid));
	assert_gone(SESSION);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(ky_run_process_of_session_exists(SESSION, (uint32_t)pid));
}

/* All fields of proc(5) up to env_end. */
static const char *long_stat_text(unsigned int flags, unsigned int env_start, unsigned int env_end)
{
	static char text[512];

	snprintf(text, sizeof(text),
		 "42 (a) S 1 1 1 0 -1 %u 1 2 3 4 5 6 7 8 20 0 1 0 77 9 9 9 9 9 9 9 9 9 9 9 9 9 0 "
		 "0 17 1 0 0 0 0 0 9 9 9 9 9 %u %u 0\n",
		 flags, env_start, env_end);
	return text;
}

static void run_process__between_two_programs_the_variables_are_to_come(void **state)
{
	(void)state;
	assert_false(ky_run_process_stat_has_no_variables(long_stat_text(0x400000, 0, 0)));
	assert_true(ky_run_process_stat_has_no_variables(long_stat_text(0x400000, 4096, 4096)));
	assert_true(ky_run_process_stat_has_no_variables(long_stat_text(0x208040, 0, 0)));
	assert_false(ky_run_process_stat_has_no_variables(stat_text("a", 'S', 1, 77)));
	assert_false(ky_run_process_stat_has_no_variables(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_process__start_time_distinguishes_a_reused_pid),
		cmocka_unit_test(run_process__zombie_is_gone_unless_other_threads_continue),
		cmocka_unit_test(run_process__command_may_resemble_fields),
		cmocka_unit_test(run_process__first_number_is_of_a_young_process_alone),
		cmocka_unit_test(run_process__reaped_child_is_gone),
		cmocka_unit_test(run_process__process_of_a_session_is_found_by_its_environment),
		cmocka_unit_test(run_process__finds_a_child_orphaned_during_the_reading),
		cmocka_unit_test(run_process__old_zombie_is_ignored),
		cmocka_unit_test(run_process__between_two_programs_the_variables_are_to_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
