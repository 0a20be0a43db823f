/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <ring/run_directory.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/temp_tree.h"

static struct {
	char path[64];
	struct ky_run_directory directory;
	char seen[256];
	bool is_wanted_again;
} c;

/* Files of memory: the only ones whose directory is trusted. */
static int open_directory(void **state)
{
	(void)state;
	memset(&c, 0, sizeof(c));
	snprintf(c.path, sizeof(c.path), "/dev/shm/kymo-test-XXXXXX");
	if (!mkdtemp(c.path))
		return -1;
	ky_run_directory_init(&c.directory, c.path);
	return 0;
}

static int close_directory(void **state)
{
	(void)state;
	ky_run_directory_close(&c.directory);
	return temp_tree_remove(c.path);
}

static bool note(void *ctx, const char *name, dev_t device, ino_t inode)
{
	(void)ctx;
	(void)device;
	(void)inode;
	strncat(c.seen, name, sizeof(c.seen) - strlen(c.seen) - 1);
	return !c.is_wanted_again;
}

/* What is visited at this walk. */
static const char *walk(bool is_forced)
{
	c.seen[0] = 0;
	ky_run_directory_scan(&c.directory, is_forced, note, NULL);
	return c.seen;
}

static void make(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", c.path, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void set_changed(int64_t seconds_from_now)
{
	struct timespec times[2];

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
	times[0].tv_sec += seconds_from_now;
	times[1] = times[0];
	assert_int_equal(utimensat(AT_FDCWD, c.path, times, 0), 0);
}

static void directory__is_read_again_only_when_it_changed(void **state)
{
	(void)state;
	make("a");
	make(".hidden");
	set_changed(-1);
	assert_string_equal(walk(false), "a");
	assert_string_equal(walk(false), "");
	assert_int_equal(c.directory.walk_count, 1);
	make("b");
	assert_int_equal(strlen(walk(false)), 2);
	assert_int_equal(c.directory.walk_count, 2);
}

/* What comes in the same tick of the clock would have the same time. */
static void directory__that_changed_just_now_is_read_again(void **state)
{
	(void)state;
	make("a");
	set_changed(60); /* a moment that is not over, however slow we are */
	assert_string_equal(walk(false), "a");
	assert_string_equal(walk(false), "a");
}

static void directory__name_that_is_not_done_with_is_visited_again(void **state)
{
	(void)state;
	make("a");
	set_changed(-1);
	c.is_wanted_again = true;
	assert_string_equal(walk(false), "a");
	c.is_wanted_again = false;
	assert_string_equal(walk(false), "a");
	assert_string_equal(walk(false), "");
	assert_string_equal(walk(true), "a");
}

static void directory__of_another_file_system_is_read_each_time(void **state)
{
	struct ky_run_directory directory;

	(void)state;
	ky_run_directory_init(&directory, "/proc/self/task");
	ky_run_directory_scan(&directory, false, note, NULL);
	ky_run_directory_scan(&directory, false, note, NULL);
	assert_int_equal(directory.walk_count, 2);
	ky_run_directory_close(&directory);
}

static void directory__may_be_made_later(void **state)
{
	(void)state;
	assert_int_equal(rmdir(c.path), 0);
	assert_string_equal(walk(false), "");
	assert_int_equal(mkdir(c.path, 0700), 0);
	make("a");
	assert_string_equal(walk(false), "a");
}

/* As many descriptors as are open now, and no more. */
static void leave_no_descriptor(struct rlimit *before)
{
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE,
				   &(const struct rlimit){(rlim_t)next, before->rlim_max}),
			 0);
}

static void directory__reports_missing_descriptors_until_one_is_free(void **state)
{
	struct rlimit before;
	int fd;

	(void)state;
	make("a");
	assert_string_equal(walk(false), "a");
	assert_int_equal(ky_run_directory_open(&c.directory, "b", O_RDONLY), -1);
	assert_int_equal(c.directory.open_error, 0);
	leave_no_descriptor(&before);
	fd = ky_run_directory_open(&c.directory, "a", O_RDONLY);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(fd, -1);
	assert_int_equal(c.directory.open_error, -EMFILE);
	fd = ky_run_directory_open(&c.directory, "a", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(c.directory.open_error, 0);
}

static void directory__without_a_free_descriptor_is_reported(void **state)
{
	struct rlimit before;

	(void)state;
	make("a");
	leave_no_descriptor(&before);
	(void)walk(false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_string_equal(c.seen, "");
	assert_int_equal(c.directory.open_error, -EMFILE);
	assert_string_equal(walk(false), "a");
}

static void directory__reports_a_name_that_comes(void **state)
{
	struct pollfd news = {.events = POLLIN};

	(void)state;
	assert_int_equal(c.directory.news_fd, -1);
	assert_false(ky_run_directory_take_news(&c.directory));
	(void)walk(false);
	news.fd = c.directory.news_fd;
	assert_true(news.fd >= 0);
	assert_int_equal(poll(&news, 1, 0), 0);
	make("a");
	assert_int_equal(poll(&news, 1, 0), 1);
	assert_true(ky_run_directory_take_news(&c.directory));
	assert_false(ky_run_directory_take_news(&c.directory));
	assert_int_equal(poll(&news, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(directory__is_read_again_only_when_it_changed,
						open_directory, close_directory),
		cmocka_unit_test_setup_teardown(directory__reports_a_name_that_comes,
						open_directory, close_directory),
		cmocka_unit_test_setup_teardown(directory__that_changed_just_now_is_read_again,
						open_directory, close_directory),
		cmocka_unit_test_setup_teardown(
			directory__name_that_is_not_done_with_is_visited_again, open_directory,
			close_directory),
		cmocka_unit_test_setup_teardown(directory__of_another_file_system_is_read_each_time,
						open_directory, close_directory),
		cmocka_unit_test_setup_teardown(directory__may_be_made_later, open_directory,
						close_directory),
		cmocka_unit_test_setup_teardown(
			directory__reports_missing_descriptors_until_one_is_free, open_directory,
			close_directory),
		cmocka_unit_test_setup_teardown(directory__without_a_free_descriptor_is_reported,
						open_directory, close_directory),
	};

	return cmocka_run_group_tests_name("run_directory", tests, NULL, NULL);
}
