/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <ring/status_directory.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
	char top[32];
	char path[96]; /* of the directory that was opened last */
};

static struct place place;

static int make_place(void **state)
{
	(void)state;
	return temp_tree_make(place.top, sizeof(place.top));
}

static int remove_place(void **state)
{
	(void)state;
	return temp_tree_remove(place.top);
}

static int open_one(void)
{
	int fd = ky_status_directory_open(place.top, place.path, sizeof(place.path));

	assert_true(fd >= 0);
	return fd;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void make_file(const char *directory, const char *name)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void status_directory__is_removed_with_its_run(void **state)
{
	int fd = open_one();
	struct stat st;

	(void)state;
	assert_int_equal(stat(place.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	make_file(place.path, "17.status");
	ky_status_directory_close(place.path, fd);
	assert_false(is_there(place.path));
}

static void status_directory__of_a_living_run_is_left_alone(void **state)
{
	int fd = open_one();

	(void)state;
	assert_int_equal(ky_status_directory_sweep(place.top), 0);
	assert_true(is_there(place.path));
	ky_status_directory_close(place.path, fd);
}

/* The lock goes with the process, and nothing but the lock is asked: its pid may be another's. */
static void status_directory__of_a_killed_run_is_removed(void **state)
{
	int status, fd;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		fd = ky_status_directory_open(place.top, place.path, sizeof(place.path));
		make_file(place.path, "1.status"); /* of a pid that is there */
		_exit(fd < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ky_status_directory_sweep(place.top), 1);
	assert_int_equal(ky_status_directory_sweep(place.top), 0);
}

static void status_directory__what_is_not_ours_stays(void **state)
{
	static const char *const names[] = {".status-abc",    ".status-abcdefg", "status-abcdef",
					    ".status-filled", ".status-opened",  ".status-linked",
					    ".status-simple"};
	char path[128], target[96];

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%s", place.top, names[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(target, sizeof(target), "%s/%s", place.top, names[3]);
	make_file(target, "notes.status"); /* no run writes that */
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/%s", place.top, names[5]);
	assert_int_equal(symlink(target, path), 0);
	make_file(place.top, names[6]);
	assert_int_equal(ky_status_directory_sweep(place.top), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", place.top, names[i]);
		assert_true(is_there(path));
	}
	snprintf(path, sizeof(path), "%s/notes.status", target);
	assert_true(is_there(path));
}

static void status_directory__place_that_others_may_write_in_is_not_swept(void **state)
{
	char path[96];

	(void)state;
	snprintf(path, sizeof(path), "%s/.status-abcdef", place.top);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(place.top, 0777), 0);
	assert_int_equal(ky_status_directory_sweep(place.top), 0);
	assert_int_equal(chmod(place.top, 0700), 0);
	assert_int_equal(ky_status_directory_sweep(place.top), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(status_directory__is_removed_with_its_run,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(status_directory__of_a_living_run_is_left_alone,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(status_directory__of_a_killed_run_is_removed,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(status_directory__what_is_not_ours_stays,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(
			status_directory__place_that_others_may_write_in_is_not_swept, make_place,
			remove_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
