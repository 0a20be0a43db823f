/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <base/write_within.h>
#include <errno.h>
#include <kymo/base.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES 64

static int fd;

static int make_file(void **state)
{
	(void)state;
	fd = memfd_create("write-within", MFD_CLOEXEC);
	return fd < 0 ? -1 : ftruncate(fd, FILE_BYTES);
}

static int drop_file(void **state)
{
	(void)state;
	return close(fd);
}

static off_t file_bytes(void)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static void write_within__reaches_the_last_byte(void **state)
{
	uint64_t word = 7, seen = 0;

	(void)state;
	assert_int_equal(ky_write_within(fd, FILE_BYTES - 8, &word, 8), 0);
	assert_int_equal(pread(fd, &seen, 8, FILE_BYTES - 8), 8);
	assert_int_equal(seen, 7);
	assert_int_equal(file_bytes(), FILE_BYTES);
}

static void write_within__a_cut_file_does_not_grow(void **state)
{
	uint64_t word = 7, seen = 1;

	(void)state;
	assert_int_equal(ky_write_within(fd, FILE_BYTES - 7, &word, 8), KYMO_E_TRUNCATED);
	assert_int_equal(ky_write_within(fd, FILE_BYTES, &word, 1), KYMO_E_TRUNCATED);
	assert_int_equal(ky_write_within(fd, UINT64_MAX, &word, 8), KYMO_E_TRUNCATED);
	assert_int_equal(file_bytes(), FILE_BYTES);
	assert_int_equal(pread(fd, &seen, 8, FILE_BYTES - 8), 8);
	assert_int_equal(seen, 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ky_write_within(fd, 0, &word, 8), KYMO_E_TRUNCATED);
	assert_int_equal(file_bytes(), 0);
}

static void write_within__says_what_the_system_says(void **state)
{
	(void)state;
	assert_int_equal(ky_write_within(-1, 0, "", 1), -EBADF);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_file, drop_file)
	const struct CMUnitTest tests[] = {
		CASE(write_within__reaches_the_last_byte),
		CASE(write_within__a_cut_file_does_not_grow),
		CASE(write_within__says_what_the_system_says),
	};

	return cmocka_run_group_tests_name("write_within", tests, NULL, NULL);
}
