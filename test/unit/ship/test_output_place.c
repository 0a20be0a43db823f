/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <ship/output_place.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

static char top[64], why[KY_OUTPUT_PLACE_BYTES];

static int make(void **state)
{
	(void)state;
	return temp_tree_make(top, sizeof(top)) || chmod(top, 0755);
}

static int clean(void **state)
{
	(void)state;
	return temp_tree_remove(top);
}

static const char *below(const char *name)
{
	static char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static int check(const char *name, bool is_file)
{
	why[0] = '\0';
	return ky_output_place_check(below(name), is_file, why);
}

static void make_file(const char *name)
{
	int fd = open(below(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void place__may_be_made_yet(void **state)
{
	(void)state;
	assert_int_equal(mkdir(below("there"), 0700), 0);
	assert_int_equal(check("there", false), 0);
	assert_int_equal(check("there/", false), 0);
	assert_int_equal(check("there/a/b/c", false), 0);
	assert_int_equal(check("there/a.trc", true), 0);
	assert_int_equal(check("there/a/a.trc", true), 0);
	assert_int_equal(access(below("there/a"), F_OK), -1); /* nothing is made */
}

static void place__that_is_no_directory_is_refused(void **state)
{
	(void)state;
	make_file("file");
	assert_int_equal(mkfifo(below("pipe"), 0600), 0);
	assert_int_equal(check("file", false), -ENOTDIR);
	assert_non_null(strstr(why, "/file is no directory; "));
	assert_int_equal(check("file/", false), -ENOTDIR);
	assert_int_equal(check("file/a/b", false), -ENOTDIR);
	assert_non_null(strstr(why, "/file is no directory; "));
	assert_int_equal(check("file/a.trc", true), -ENOTDIR);
	assert_int_equal(check("pipe", false), -ENOTDIR);
	assert_int_equal(ky_output_place_check("/dev/null", false, why), -ENOTDIR);
	assert_memory_equal(why, "/dev/null is no directory; ", 27);
}

static void place__dangling_link_is_refused(void **state)
{
	(void)state;
	assert_int_equal(symlink("/no/such", below("link")), 0);
	assert_int_equal(check("link", false), -ENOENT);
	assert_non_null(strstr(why, "/link is a link that leads nowhere; "));
	assert_int_equal(check("link/a/b", false), -ENOENT);
	assert_int_equal(check("link/a.trc", true), -ENOENT);
}

/* Of the user's rights, not of the one who builds: root may write everywhere. */
static void place__that_may_not_be_written_is_refused(void **state)
{
	uid_t own = geteuid();

	(void)state;
	assert_int_equal(mkdir(below("shut"), 0755), 0);
	assert_int_equal(mkdir(below("shut/service"), 0755), 0);
	make_file("shut/made.trc");
	assert_int_equal(chmod(below("shut/made.trc"), 0666), 0);
	assert_int_equal(chmod(below("shut/service"), 0555), 0);
	assert_int_equal(chmod(below("shut"), 0555), 0);
	if (own == 0 && seteuid(NOBODY) != 0)
		skip();
	assert_int_equal(check("shut", false), -EACCES);
	assert_non_null(strstr(why, "/shut may not be written by this user; "));
	assert_int_equal(check("shut/a/b", false), -EACCES);
	assert_int_equal(check("shut/a.trc", true), -EACCES);
	assert_int_equal(check("shut/made.trc", true), 0);
	assert_int_equal(seteuid(own), 0);
	assert_int_equal(chmod(below("shut/service"), 0777), 0);
	assert_int_equal(seteuid(own == 0 ? NOBODY : own), 0);
	assert_int_equal(check("shut", false), 0); /* a service has a folder of its own there */
	assert_int_equal(check("shut/a", false), -EACCES);
	assert_int_equal(seteuid(own), 0);
	assert_int_equal(chmod(below("shut"), 0755), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(place__may_be_made_yet),
		TEST(place__that_is_no_directory_is_refused),
		TEST(place__dangling_link_is_refused),
		TEST(place__that_may_not_be_written_is_refused),
	};

	return cmocka_run_group_tests_name("output_place", tests, NULL, NULL);
}
