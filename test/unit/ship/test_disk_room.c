/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <ship/disk_room.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

static void disk_room__other_errors_are_their_text(void **state)
{
	char text[KY_DISK_ROOM_BYTES];

	(void)state;
	assert_string_equal(ky_disk_room_text(text, "/proc/x", -EIO), kymo_error_text(-EIO));
	assert_false(ky_disk_room_is_missing(-EIO));
	assert_true(ky_disk_room_is_missing(-EDQUOT));
}

/* What is to be written need not exist, nor the directories above it. */
static void disk_room__names_the_file_system_that_is_full(void **state)
{
	char text[KY_DISK_ROOM_BYTES];

	(void)state;
	(void)ky_disk_room_text(text, "/proc/self/nothing/there.trc", -ENOSPC);
	assert_non_null(strstr(text, "No space left on device: the file system at /proc "));
	(void)ky_disk_room_text(text, "no-such-file", -ENOSPC);
	assert_non_null(strstr(text, ": the file system at /"));
	(void)ky_disk_room_text(text, "/", -EDQUOT);
	assert_non_null(strstr(text, ": the file system at / has no room left for this user ("));
}

/* /dev/full says this about itself, not about the file system it lies in. */
static void disk_room__blames_no_file_system_for_a_device(void **state)
{
	char text[KY_DISK_ROOM_BYTES];

	(void)state;
	assert_string_equal(ky_disk_room_text(text, "/dev/null", -ENOSPC),
			    kymo_error_text(-ENOSPC));
	assert_string_equal(ky_disk_room_text(text, "-", -ENOSPC), kymo_error_text(-ENOSPC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disk_room__other_errors_are_their_text),
		cmocka_unit_test(disk_room__names_the_file_system_that_is_full),
		cmocka_unit_test(disk_room__blames_no_file_system_for_a_device),
	};

	return cmocka_run_group_tests_name("disk_room", tests, NULL, NULL);
}
