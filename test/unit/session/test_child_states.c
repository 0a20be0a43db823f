/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a parent hears of a child that stops, continues and ends. The test waits for what it has
 * caused, however long that takes. */
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"

#include <base/now.h>
#include <errno.h>
#include <sched.h>
#include <session/child_states.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/resource_area.h>

static uint64_t next;

static pid_t start(struct ky_child_states **states)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	/* Else the kernel may ignore SIGTSTP, as nothing could let it continue. */
	(void)setpgid(pid, 0);
	if (pid == 0)
		for (;;)
			pause();
	next = 0;
	assert_int_equal(ky_child_states_open(states, pid), 0);
	return pid;
}

static struct ky_child_change wait_for_one(struct ky_child_states *states)
{
	struct ky_child_change change;

	while (ky_child_states_read(states, &next, &change, 1) == 0)
		sched_yield();
	return change;
}

static void read__has_each_change_in_order(void **state)
{
	struct ky_child_states *states;
	pid_t pid = start(&states);
	struct ky_child_change change;
	uint64_t begin_ns = ky_now_ns(CLOCK_MONOTONIC), last_ns = begin_ns;
	siginfo_t info;

	(void)state;
	for (int i = 0; i < 3; i++) {
		/* Valgrind takes SIGTSTP for the program, and does not stop it. */
		int stop = i || test_is_under_valgrind() ? SIGSTOP : SIGTSTP;

		kill(pid, stop);
		change = wait_for_one(states);
		assert_int_equal(change.change, KY_PROCESS_STOPPED);
		assert_int_equal(change.detail, stop);
		assert_true(change.at_ns >= last_ns);
		last_ns = change.at_ns;
		kill(pid, SIGCONT);
		change = wait_for_one(states);
		assert_int_equal(change.change, KY_PROCESS_CONTINUED);
		assert_true(change.at_ns >= last_ns);
		last_ns = change.at_ns;
	}
	kill(pid, SIGKILL);
	change = wait_for_one(states);
	assert_int_equal(change.change, KY_PROCESS_KILLED);
	assert_int_equal(change.detail, SIGKILL);
	ky_child_states_finish(states);
	ky_child_states_finish(states);
	/* It is still there to be reaped. */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG), 0);
	assert_int_equal(info.si_pid, pid);
	ky_child_states_close(states);
}

static void finish__has_the_exit_status(void **state)
{
	struct ky_child_states *states;
	struct ky_child_change changes[4];
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(7);
	next = 0;
	assert_int_equal(ky_child_states_open(&states, pid), 0);
	ky_child_states_finish(states);
	assert_int_equal(ky_child_states_read(states, &next, changes, 4), 1);
	assert_int_equal(changes[0].change, KY_PROCESS_EXITED);
	assert_int_equal(changes[0].detail, 7);
	assert_int_equal(ky_child_states_read(states, &next, changes, 4), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ky_child_states_close(states);
}

/* What nobody reads for long is overwritten, the oldest first. */
static void read__leaves_out_what_was_overwritten(void **state)
{
	struct ky_child_states *states;
	struct ky_child_change change, changes[16];
	uint64_t seen = 0, mine = 0;
	pid_t pid = start(&states);

	(void)state;
	while (seen < KY_CHILD_CHANGES + 20) {
		kill(pid, seen % 2 ? SIGCONT : SIGSTOP);
		while (ky_child_states_read(states, &mine, &change, 1) == 0)
			sched_yield();
		seen++;
	}
	assert_int_equal(ky_child_states_read(states, &next, changes, 16), 16);
	assert_int_equal(next, 20 + 16);
	assert_int_equal(changes[0].change, KY_PROCESS_STOPPED);
	kill(pid, SIGKILL);
	ky_child_states_finish(states);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ky_child_states_close(states);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__has_each_change_in_order),
		cmocka_unit_test(finish__has_the_exit_status),
		cmocka_unit_test(read__leaves_out_what_was_overwritten),
	};

	return cmocka_run_group_tests_name("child_states", tests, NULL, NULL);
}
