/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <ship/out_file.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/kymo-out-XXXXXX";
static char path[64];

static int entries(void)
{
	DIR *open = opendir(directory);
	int count = -2; /* . and .. */

	assert_non_null(open);
	while (readdir(open))
		count++;
	assert_int_equal(closedir(open), 0);
	return count;
}

static void expect_content(const char *want)
{
	char text[64] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	(void)fread(text, 1, sizeof(text) - 1, file);
	assert_int_equal(fclose(file), 0);
	assert_string_equal(text, want);
}

static void write_text(struct ky_out_file *file, const char *text)
{
	assert_int_equal(ky_out_file_write(file, (const uint8_t *)text, strlen(text)), 0);
}

static void out_file__has_no_name_before_it_is_whole(void **state)
{
	struct ky_out_file file;

	(void)state;
	assert_int_equal(ky_out_file_open(&file, path, false), 0);
	write_text(&file, "one");
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(ky_out_file_commit(&file), 0);
	expect_content("one");
	assert_int_equal(entries(), 1);
	assert_true(file.bytes == 3);
}

static void out_file__replaces_only_when_forced(void **state)
{
	struct ky_out_file file;

	(void)state;
	assert_int_equal(ky_out_file_open(&file, path, false), -EEXIST);
	assert_int_equal(ky_out_file_open(&file, path, true), 0);
	write_text(&file, "two");
	expect_content("one");
	assert_int_equal(ky_out_file_commit(&file), 0);
	expect_content("two");
	assert_int_equal(entries(), 1);
}

/* Another process takes the name during the write. */
static void out_file__never_replaces_a_name_taken_meanwhile(void **state)
{
	struct ky_out_file file;
	FILE *other;

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ky_out_file_open(&file, path, false), 0);
	write_text(&file, "three");
	other = fopen(path, "w");
	assert_non_null(other);
	assert_true(fputs("theirs", other) >= 0);
	assert_int_equal(fclose(other), 0);
	assert_int_equal(ky_out_file_commit(&file), -EEXIST);
	expect_content("theirs");
	assert_int_equal(entries(), 1);
}

static void out_file__leaves_nothing_when_given_up(void **state)
{
	struct ky_out_file file;

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ky_out_file_open(&file, path, false), 0);
	write_text(&file, "four");
	ky_out_file_abort(&file);
	ky_out_file_abort(&file);
	assert_int_equal(entries(), 0);
	assert_int_equal(ky_out_file_open(&file, directory, true), -EISDIR);
	assert_int_equal(ky_out_file_open(&file, "/proc/nonexistent/x", true), -ENOENT);
}

static void out_file__leaves_nothing_when_a_signal_ends_it(void **state)
{
	struct ky_out_file file;
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		(void)signal(SIGINT, SIG_DFL);
		if (ky_out_file_open(&file, path, false) == 0 && entries() == 1)
			(void)raise(SIGINT);
		_exit(7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGINT);
	assert_int_equal(entries(), 0);
}

/* What is not a file is written to, never taken away. */
static void out_file__writes_into_devices_and_through_links(void **state)
{
	struct ky_out_file file;
	char link[64], text[8] = "";
	int reader;

	(void)state;
	(void)snprintf(link, sizeof(link), "%s/link", directory);
	assert_int_equal(symlink("/dev/full", path), 0);
	assert_int_equal(ky_out_file_open(&file, path, true), 0);
	assert_int_equal(ky_out_file_write(&file, (const uint8_t *)"x", 1), -ENOSPC);
	ky_out_file_abort(&file);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ky_out_file_open(&file, "/dev/null", true), 0);
	write_text(&file, "five");
	assert_int_equal(ky_out_file_commit(&file), 0);

	assert_int_equal(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK);
	assert_int_equal(ky_out_file_open(&file, path, true), 0);
	write_text(&file, "six");
	assert_int_equal(read(reader, text, sizeof(text)), 3);
	assert_int_equal(ky_out_file_commit(&file), 0);
	assert_int_equal(entries(), 1);
	assert_int_equal(close(reader) | unlink(path), 0);

	assert_int_equal(symlink("file", link), 0);
	assert_int_equal(ky_out_file_open(&file, link, true), -ENOENT);
	assert_int_equal(ky_out_file_open(&file, path, false), 0);
	assert_int_equal(ky_out_file_commit(&file), 0);
	{
		struct stat info;

		assert_int_equal(ky_out_file_open(&file, link, true), 0);
		write_text(&file, "seven");
		assert_int_equal(ky_out_file_commit(&file), 0);
		expect_content("seven");
		assert_int_equal(lstat(link, &info), 0);
		assert_true(S_ISLNK(info.st_mode));
		assert_int_equal(entries(), 2);
	}
	assert_int_equal(unlink(link) | unlink(path), 0);
	assert_int_equal(symlink("link", link), 0);
	assert_int_equal(ky_out_file_open(&file, link, true), -ELOOP);
	assert_int_equal(unlink(link), 0);
}

static void out_file__is_its_owners_alone_or_as_what_it_replaces(void **state)
{
	mode_t before = umask(0);
	struct ky_out_file file;
	struct stat info;

	(void)state;
	assert_int_equal(ky_out_file_open(&file, path, false), 0);
	assert_int_equal(ky_out_file_commit(&file), 0);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(ky_out_file_open(&file, path, true), 0);
	write_text(&file, "eight");
	assert_int_equal(ky_out_file_commit(&file), 0);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0644);
	expect_content("eight");
	(void)umask(before);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(out_file__has_no_name_before_it_is_whole),
		cmocka_unit_test(out_file__replaces_only_when_forced),
		cmocka_unit_test(out_file__never_replaces_a_name_taken_meanwhile),
		cmocka_unit_test(out_file__leaves_nothing_when_given_up),
		cmocka_unit_test(out_file__leaves_nothing_when_a_signal_ends_it),
		cmocka_unit_test(out_file__writes_into_devices_and_through_links),
		cmocka_unit_test(out_file__is_its_owners_alone_or_as_what_it_replaces),
	};

	return cmocka_run_group_tests_name("out_file", tests, set_up, tear_down);
}
