/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is closed by a number that was ours. */
#include "../../lib/cmocka_all.h"

#include <base/kept_fd.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void close__of_what_was_noted_closes_it(void **state)
{
	int fd = ky_kept_fd_note(open("/dev/null", O_RDONLY));

	(void)state;
	assert_true(is_open(fd));
	ky_kept_fd_close(fd);
	assert_false(is_open(fd));
	ky_kept_fd_close(-1);
	assert_int_equal(ky_kept_fd_note(-1), -1);
}

static void close__leaves_a_file_alone_that_took_the_number(void **state)
{
	int fd = ky_kept_fd_note(open("/dev/null", O_RDONLY)), mine = open("/dev/zero", O_RDONLY);

	(void)state;
	assert_int_equal(dup2(mine, fd), fd);
	ky_kept_fd_close(fd);
	assert_true(is_open(fd));
	/* One that is opened by it later, and not noted, is the caller's. */
	ky_kept_fd_close(fd);
	assert_false(is_open(fd));
	close(mine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__of_what_was_noted_closes_it),
		cmocka_unit_test(close__leaves_a_file_alone_that_took_the_number),
	};

	return cmocka_run_group_tests_name("kept_fd", tests, NULL, NULL);
}
