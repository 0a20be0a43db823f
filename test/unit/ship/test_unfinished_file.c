/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <ship/unfinished_file.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/kymo-left-XXXXXX";
static char path[64];

/* A file in a directory of its own, as code makes them that needs one for a moment. */
static int make_files(void **state)
{
	int fd;

	(void)state;
	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/part", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	return fd < 0 ? -1 : close(fd);
}

static int remove_files(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)rmdir(directory);
	return 0;
}

/* In a process of its own: it notes both, does what it is asked, and ends by the signal. */
static int status_after(int signal, void (*prepare)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &(const struct rlimit){0, 0});
		(void)sigaction(signal, &(const struct sigaction){.sa_handler = SIG_DFL}, NULL);
		if (prepare)
			prepare();
		ky_unfinished_note(directory);
		ky_unfinished_note(path);
		(void)raise(signal);
		_exit(7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void unfinished__is_removed_by_a_fatal_signal_which_stays_visible(void **state)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		int status = status_after(signals[i], NULL);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), signals[i]);
		assert_int_equal(access(directory, F_OK), -1);
		assert_int_equal(make_files(state), 0);
	}
}

static void ignore(void)
{
	(void)sigaction(SIGHUP, &(const struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static void unfinished__an_ignored_signal_stays_ignored(void **state)
{
	int status = status_after(SIGHUP, ignore);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(access(path, F_OK), 0);
}

static void unfinished__what_was_dropped_stays(void **state)
{
	int status;

	(void)state;
	ky_unfinished_note(path);
	ky_unfinished_drop(path);
	ky_unfinished_drop(path);
	status = fork();
	if (status == 0) {
		ky_unfinished_note(directory); /* not empty: it stays */
		(void)raise(SIGTERM);
		_exit(7);
	}
	assert_true(waitpid(status, &status, 0) > 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(path, F_OK), 0);
}

static void unfinished__a_forked_child_removes_nothing(void **state)
{
	int status;

	(void)state;
	ky_unfinished_note(path);
	status = fork();
	if (status == 0) {
		(void)raise(SIGTERM);
		_exit(7);
	}
	assert_true(waitpid(status, &status, 0) > 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(path, F_OK), 0);
	ky_unfinished_drop(path);
}

static void unfinished__survives_more_than_its_maximum(void **state)
{
	char names[KY_UNFINISHED_MAX + 2][2] = {{0}};

	(void)state;
	for (size_t i = 0; i < KY_UNFINISHED_MAX + 2; i++)
		ky_unfinished_note(names[i]);
	for (size_t i = 0; i < KY_UNFINISHED_MAX + 2; i++)
		ky_unfinished_drop(names[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_files, remove_files)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unfinished__is_removed_by_a_fatal_signal_which_stays_visible),
		TEST(unfinished__an_ignored_signal_stays_ignored),
		TEST(unfinished__what_was_dropped_stays),
		TEST(unfinished__a_forked_child_removes_nothing),
		TEST(unfinished__survives_more_than_its_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
