/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/beneath.h>

#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[32];
static int top;

static void write_file(const char *name)
{
	int fd = openat(top, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "trace", 5), 5);
	close(fd);
}

static int make_tree(void **state)
{
	int outer;

	(void)state;
	assert_int_equal(temp_tree_make(folder, sizeof(folder)), 0);
	outer = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(outer, "top", 0700), 0);
	top = outer;
	write_file("secret");
	top = openat(outer, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(outer);
	assert_int_equal(mkdirat(top, "a", 0700), 0);
	assert_int_equal(mkdirat(top, "a/b", 0700), 0);
	write_file("file");
	write_file("a/b/deep");
	assert_int_equal(symlinkat("../secret", top, "out"), 0);
	assert_int_equal(symlinkat("file", top, "in"), 0);
	assert_int_equal(symlinkat("..", top, "up"), 0);
	assert_int_equal(mkfifoat(top, "pipe", 0600), 0);
	return 0;
}

static int remove_tree(void **state)
{
	(void)state;
	close(top);
	return temp_tree_remove(folder);
}

static void files_below_are_opened(void **state)
{
	static const char *const paths[] = {"file", "a/b/deep"};
	struct stat status;
	char text[6] = "";

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		int fd = ky_beneath_open(top, paths[i], &status);

		assert_true(fd >= 0);
		assert_int_equal(status.st_size, 5);
		assert_int_equal(read(fd, text, 5), 5);
		assert_string_equal(text, "trace");
		close(fd);
	}
}

static void nothing_else_is(void **state)
{
	static const struct {
		const char *path;
		int result;
	} cases[] = {
		{"out", -ELOOP},         {"in", -ELOOP},        {"up/secret", -ENOTDIR},
		{"../secret", -EXDEV},   {"a/../file", -EXDEV}, {"./file", -EXDEV},
		{"/etc/passwd", -EXDEV}, {"", -EXDEV},          {"a//b/deep", -EXDEV},
		{"a", -EINVAL},          {"a/", -EINVAL},       {"pipe", -EINVAL},
		{"nothing", -ENOENT},    {"file/x", -ENOTDIR},
	};
	struct stat status;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result = ky_beneath_open(top, cases[i].path, &status);

		if (result != cases[i].result)
			fail_msg("'%s' gives %d", cases[i].path, result);
	}
}

static void identity_is_of_the_file_and_not_of_its_name(void **state)
{
	struct stat status;
	uint64_t first, renamed, other;

	(void)state;
	assert_int_equal(fstatat(top, "file", &status, AT_SYMLINK_NOFOLLOW), 0);
	first = ky_beneath_identity(top, "file", &status);
	assert_int_equal(renameat(top, "file", top, "named"), 0);
	assert_int_equal(fstatat(top, "named", &status, AT_SYMLINK_NOFOLLOW), 0);
	renamed = ky_beneath_identity(top, "named", &status);
	assert_int_equal(fstatat(top, "a/b/deep", &status, AT_SYMLINK_NOFOLLOW), 0);
	other = ky_beneath_identity(top, "a/b/deep", &status);
	assert_int_equal(renameat(top, "named", top, "file"), 0);
	assert_true(first == renamed);
	assert_true(first != other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_below_are_opened),
		cmocka_unit_test(nothing_else_is),
		cmocka_unit_test(identity_is_of_the_file_and_not_of_its_name),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
