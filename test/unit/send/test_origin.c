/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The key of a directory, and what is said with it of a file. */
#include "send_case.h"

#include <errno.h>
#include <fcntl.h>
#include <send/origin.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_top(void)
{
	int fd = open(send_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int write_file(int top_fd, const char *name, const char *text, mode_t mode)
{
	int fd = openat(top_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void origin__keys_are_made_once_and_are_their_owners_alone(void **state)
{
	struct ky_origin_keys first, again;
	int top_fd = open_top();
	struct stat about;

	(void)state;
	assert_int_equal(ky_origin_keys_read(&first, top_fd), 0);
	assert_int_equal(ky_origin_keys_read(&again, top_fd), 0);
	assert_memory_equal(&first, &again, sizeof(first));
	assert_memory_not_equal(first.origin, first.names, sizeof(first.names));
	assert_int_equal(fstatat(top_fd, ".send-key", &about, 0), 0);
	assert_int_equal(about.st_mode & 0777, 0600);
	assert_int_equal(unlinkat(top_fd, ".send-key", 0), 0);
	assert_int_equal(ky_origin_keys_read(&again, top_fd), 0);
	assert_memory_not_equal(&first, &again, sizeof(first));
	close(top_fd);
}

static void origin__keys_that_others_may_have_are_none(void **state)
{
	struct ky_origin_keys keys;
	int top_fd = open_top();

	(void)state;
	close(write_file(top_fd, ".send-key", "0123456789abcdef0123456789abcdef", 0640));
	assert_int_equal(ky_origin_keys_read(&keys, top_fd), -EPERM);
	assert_int_equal(fchmodat(top_fd, ".send-key", 0600, 0), 0);
	assert_int_equal(ky_origin_keys_read(&keys, top_fd), 0);
	close(write_file(top_fd, ".send-key", "short", 0600));
	assert_int_equal(ky_origin_keys_read(&keys, top_fd), -EBADMSG);
	assert_int_equal(unlinkat(top_fd, ".send-key", 0), 0);
	assert_int_equal(symlinkat("/etc/hostname", top_fd, ".send-key"), 0);
	assert_int_equal(ky_origin_keys_read(&keys, top_fd), -ELOOP);
	close(top_fd);
}

static void origin__differs_by_file_key_and_settings(void **state)
{
	char one[KY_ORIGIN_BYTES], other[KY_ORIGIN_BYTES];
	struct ky_origin_keys keys = {.origin = {1}}, other_keys = {.origin = {2}};
	int top_fd = open_top(), fd = write_file(top_fd, "a", "content", 0600),
	    other_fd = write_file(top_fd, "b", "Content", 0600);

	(void)state;
	assert_int_equal(ky_origin_make(one, &keys, fd, 7), 0);
	assert_int_equal(strlen(one), 64);
	assert_int_equal(ky_origin_make(other, &keys, fd, 7), 0);
	assert_string_equal(one, other);
	assert_int_equal(ky_origin_make(other, &keys, fd, 8), 0);
	assert_string_not_equal(one, other);
	assert_int_equal(ky_origin_make(other, &keys, other_fd, 7), 0);
	assert_string_not_equal(one, other);
	assert_int_equal(ky_origin_make(other, &other_keys, fd, 7), 0);
	assert_string_not_equal(one, other);
	assert_int_equal(ky_origin_make(other, &keys, top_fd, 7), -EISDIR);
	close(fd);
	close(other_fd);
	close(top_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			origin__keys_are_made_once_and_are_their_owners_alone, send_set_up,
			send_tear_down),
		cmocka_unit_test_setup_teardown(origin__keys_that_others_may_have_are_none,
						send_set_up, send_tear_down),
		cmocka_unit_test_setup_teardown(origin__differs_by_file_key_and_settings,
						send_set_up, send_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
