/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ship/sent_list.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TO "s3://bucket/prefix"

static char top[64];
static int top_fd;

static int set_up(void **state)
{
	(void)state;
	if (temp_tree_make(top, sizeof(top)))
		return -1;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top_fd < 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(top_fd);
	return temp_tree_remove(top);
}

static int open_file(const char *destination, int flags)
{
	char name[KY_SENT_LIST_NAME_BYTES];

	ky_sent_list_name(name, destination);
	assert_true(ky_sent_list_is_name(name));
	return openat(top_fd, name, flags | O_CLOEXEC);
}

static void list__remembers_over_processes(void **state)
{
	struct ky_sent_list list;
	char name[32];

	(void)state;
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	for (int i = 0; i < 1000; i += 2) {
		snprintf(name, sizeof(name), "%06d.trc.zst", i);
		assert_int_equal(ky_sent_list_add(&list, name), 0);
	}
	ky_sent_list_close(&list);
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%06d.trc.zst", i);
		assert_int_equal(ky_sent_list_has(&list, name), i % 2 == 0);
	}
	ky_sent_list_close(&list);
}

/* A part is none of the segments, and the other way round. */
static void list__remembers_parts_apart_from_segments(void **state)
{
	struct ky_sent_counts counts = {.taken_count = 0};
	struct ky_sent_list list;

	(void)state;
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	assert_int_equal(ky_sent_list_add_part(&list, "000000.trc", "metrics"), 0);
	for (int process = 0; process < 2; process++) {
		assert_true(ky_sent_list_has_part(&list, "000000.trc", "metrics"));
		assert_false(ky_sent_list_has_part(&list, "000000.trc", "traces"));
		assert_false(ky_sent_list_has_part(&list, "000001.trc", "metrics"));
		assert_false(ky_sent_list_has(&list, "000000.trc"));
		assert_false(ky_sent_list_has(&list, "000000.trc metrics"));
		ky_sent_list_close(&list);
		assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	}
	ky_sent_list_close(&list);
	ky_sent_counts_add(&counts, top_fd);
	assert_int_equal(counts.taken_count, 0);
	assert_int_equal(ky_sent_lists_note_deleted(top_fd, "000000.trc", 5), 1);
}

static void list__has_one_sender(void **state)
{
	struct ky_sent_list list, other;

	(void)state;
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	assert_int_equal(ky_sent_list_open(&other, top_fd, TO), -EBUSY);
	assert_int_equal(ky_sent_list_open(&other, top_fd, TO "/2"), 0);
	ky_sent_list_close(&other);
	ky_sent_list_close(&list);
	assert_int_equal(ky_sent_list_open(&other, top_fd, TO), 0);
	ky_sent_list_close(&other);
}

/* Whatever is cut off, the lines before it hold, and what is added then is a line of its own. */
static void list__survives_truncation_anywhere(void **state)
{
	struct ky_sent_list list;
	struct stat about;
	int fd;

	(void)state;
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	assert_int_equal(ky_sent_list_add(&list, "000000.trc"), 0);
	assert_int_equal(ky_sent_list_add(&list, "000001.trc"), 0);
	ky_sent_list_close(&list);
	fd = open_file(TO, O_RDWR);
	assert_int_equal(fstat(fd, &about), 0);
	for (off_t size = about.st_size - 1; size >= 0; size--) {
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
		assert_false(ky_sent_list_has(&list, "000001.trc"));
		assert_int_equal(ky_sent_list_add(&list, "000001.trc"), 0);
		ky_sent_list_close(&list);
		assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
		assert_true(ky_sent_list_has(&list, "000001.trc"));
		ky_sent_list_close(&list);
	}
	close(fd);
}

static void lists__note_what_is_deleted_where_it_is_missing(void **state)
{
	struct ky_sent_counts counts = {.taken_count = 0};
	struct ky_sent_list list;

	(void)state;
	assert_int_equal(ky_sent_lists_note_deleted(top_fd, "000000.trc", 7), 0);
	assert_int_equal(ky_sent_list_open(&list, top_fd, TO), 0);
	assert_int_equal(ky_sent_list_add(&list, "000000.trc"), 0);
	ky_sent_list_close(&list);
	assert_int_equal(ky_sent_list_open(&list, top_fd, "exec x"), 0);
	ky_sent_list_close(&list);
	assert_int_equal(ky_sent_lists_note_deleted(top_fd, "000000.trc", 7), 1);
	assert_int_equal(ky_sent_lists_note_deleted(top_fd, "000000.trc", 7), 0);
	assert_int_equal(ky_sent_lists_note_deleted(top_fd, "000001.trc", 9), 2);
	close(openat(top_fd, "000002.trc.zst", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(openat(top_fd, "000003.trc.active", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ky_sent_counts_add(&counts, top_fd);
	assert_int_equal(counts.waiting_count, 2);
	assert_int_equal(counts.destination_count, 2);
	assert_int_equal(counts.taken_count, 1);
	assert_int_equal(counts.lost_count, 3);
	assert_int_equal(counts.lost_bytes, 25);
	ky_sent_lists_remove(top_fd);
	assert_int_equal(open_file(TO, O_RDONLY), -1);
}

static void name__is_ours_or_not(void **state)
{
	(void)state;
	assert_true(ky_sent_list_is_name(".sent-0123456789abcdef"));
	assert_false(ky_sent_list_is_name(".sent-0123456789abcde"));
	assert_false(ky_sent_list_is_name(".sent-0123456789abcdeg"));
	assert_false(ky_sent_list_is_name("sent-0123456789abcdef"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(list__remembers_over_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(list__remembers_parts_apart_from_segments, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(list__has_one_sender, set_up, tear_down),
		cmocka_unit_test_setup_teardown(list__survives_truncation_anywhere, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(lists__note_what_is_deleted_where_it_is_missing,
						set_up, tear_down),
		cmocka_unit_test(name__is_ours_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
