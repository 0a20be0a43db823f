/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <base/testpoint.h>
#include <session/run_prepared.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <wire/ring_image.h>

#define SESSION UINT64_C(77)
#define PAGE 4096
#define NAME "service-1-2.ring"

static struct {
	char directory[64];
	int directory_fd;
	int host, own; /* two opens of the file: the process's and ours */
	void (*meanwhile)(void);
} c;

void ky_testpoint(const char *name)
{
	if (strcmp(name, "prepared.read") == 0 && c.meanwhile)
		c.meanwhile();
}

static void put(size_t at, const void *bytes, size_t count)
{
	assert_int_equal(pwrite(c.host, bytes, count, (off_t)at), (ssize_t)count);
}

static void let_go(void)
{
	assert_return_code(flock(c.host, LOCK_UN), 0);
}

static void begin(void)
{
	uint32_t state = KY_RING_LIVE;
	uint64_t magic = KY_RING_MAGIC;

	put(offsetof(struct ky_ring_header, state), &state, sizeof(state));
	put(offsetof(struct ky_ring_header, magic), &magic, sizeof(magic));
}

/* The kernel drops the lock with the last process that maps the ring. */
static void live_and_die(void)
{
	begin();
	let_go();
}

/* As a process leaves it that is there and has not recorded yet. */
static uint32_t add_count, remove_count;

static int open_prepared(void **state)
{
	struct ky_ring_header header = {.version = KY_RING_VERSION, .page_bytes = PAGE};
	uint32_t gates = 5;

	(void)state;
	memset(&c, 0, sizeof(c));
	add_count = remove_count = 0;
	header.session = SESSION;
	snprintf(c.directory, sizeof(c.directory), "/tmp/kymo-prepared-XXXXXX");
	if (!mkdtemp(c.directory))
		return -1;
	c.directory_fd = open(c.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c.host = openat(c.directory_fd, NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	c.own = openat(c.directory_fd, NAME, O_RDWR | O_CLOEXEC);
	put(0, &header, sizeof(header));
	put(PAGE, &gates, sizeof(gates));
	return flock(c.host, LOCK_SH);
}

static int close_prepared(void **state)
{
	(void)state;
	unlinkat(c.directory_fd, NAME, 0);
	close(c.own);
	close(c.host);
	close(c.directory_fd);
	return rmdir(c.directory);
}

void ky_table_thread_add(struct ky_table_thread **tables, int ring_fd,
			 const struct ky_ring_header *header)
{
	assert_null(*tables);
	assert_int_equal(ring_fd, c.own);
	assert_int_equal(header->session, SESSION);
	add_count++;
}

void ky_table_thread_remove(struct ky_table_thread *tables, int ring_fd)
{
	assert_null(tables);
	assert_int_equal(ring_fd, c.own);
	remove_count++;
}

static void scan(uint64_t session, bool is_last)
{
	struct ky_table_thread *tables = NULL;

	ky_run_prepared_check(c.directory_fd, NAME, c.own, session, &tables, is_last);
}

static bool is_there(void)
{
	return faccessat(c.directory_fd, NAME, F_OK, 0) == 0;
}

static uint32_t gates(void)
{
	uint32_t out = UINT32_MAX;

	assert_int_equal(pread(c.host, &out, sizeof(out), PAGE), (ssize_t)sizeof(out));
	return out;
}

static void unused_and_left_goes(void **state)
{
	(void)state;
	let_go();
	scan(SESSION, false);
	assert_false(is_there());
	assert_int_equal(remove_count, 1);
	assert_int_equal(add_count, 0);
}

static void of_a_process_stays(void **state)
{
	(void)state;
	scan(SESSION, false);
	assert_true(is_there());
	assert_int_equal(gates(), 5);
	/* Its tables are made ahead. */
	assert_int_equal(add_count, 1);
	assert_int_equal(remove_count, 0);
}

static void of_another_session_stays(void **state)
{
	(void)state;
	let_go();
	scan(SESSION + 1, false);
	scan(SESSION + 1, true);
	assert_true(is_there());
	assert_int_equal(gates(), 5);
}

static void recorded_and_killed_between_two_scans_stays(void **state)
{
	(void)state;
	c.meanwhile = live_and_die;
	scan(SESSION, false);
	assert_true(is_there());
	assert_int_equal(gates(), 5);
}

static void the_last_scan_closes_the_gates(void **state)
{
	(void)state;
	scan(SESSION, true);
	assert_false(is_there());
	assert_int_equal(gates(), 0);
}

static void begun_during_the_last_scan_stays(void **state)
{
	(void)state;
	c.meanwhile = begin;
	scan(SESSION, true);
	assert_true(is_there());
	assert_int_equal(gates(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(unused_and_left_goes, open_prepared,
						close_prepared),
		cmocka_unit_test_setup_teardown(of_a_process_stays, open_prepared, close_prepared),
		cmocka_unit_test_setup_teardown(of_another_session_stays, open_prepared,
						close_prepared),
		cmocka_unit_test_setup_teardown(recorded_and_killed_between_two_scans_stays,
						open_prepared, close_prepared),
		cmocka_unit_test_setup_teardown(the_last_scan_closes_the_gates, open_prepared,
						close_prepared),
		cmocka_unit_test_setup_teardown(begun_during_the_last_scan_stays, open_prepared,
						close_prepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
