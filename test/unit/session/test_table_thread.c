/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The thread, on ring files of this process. */
#include "../../lib/cmocka_all.h"

#include <session/table_thread.h>
#include <unwind/unwind_table.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA_OFFSET 8192u

static struct ky_ring_header header;

static int make_file(uint64_t bytes)
{
	int fd = memfd_create("table-thread", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	header.pid = (uint32_t)getpid();
	header.unwind_offset = AREA_OFFSET;
	header.unwind_bytes = KY_UNWIND_AREA_BYTES;
	return fd;
}

static void add__makes_tables(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *tables = NULL;
	struct ky_thread_tables *ring = ky_table_thread_add(&tables, fd, &header);
	char text[200];

	(void)state;
	assert_non_null(ring);
	do
		ky_table_thread_text(tables, ring, text, sizeof(text));
	while (strstr(text, " modules, ") == NULL);
	ky_table_thread_remove(tables, ring);
	ky_table_thread_close(tables);
	close(fd);
}

/* Made ahead by the number of a process that has forked since: the child's take their place. */
static void add__takes_over_what_was_made_ahead(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *tables = NULL;
	struct ky_thread_tables *ring, *other;
	char text[200];

	(void)state;
	ky_table_thread_ahead(&tables, fd, &header);
	ky_table_thread_ahead(&tables, fd, &header);
	ring = ky_table_thread_add(&tables, fd, &header);
	header.pid = (uint32_t)getppid();
	ky_table_thread_ahead(&tables, fd, &header);
	header.pid = (uint32_t)getpid();
	other = ky_table_thread_add(&tables, fd, &header);
	assert_ptr_not_equal(ring, other);
	do
		ky_table_thread_text(tables, other, text, sizeof(text));
	while (strstr(text, " modules, ") == NULL);
	ky_table_thread_remove(tables, other);
	ky_table_thread_ahead(&tables, fd, &header);
	ky_table_thread_forget(tables, fd);
	ky_table_thread_close(tables);
	close(fd);
}

/* As on a full file system: the file may not grow. */
static void add__no_room_is_told(void **state)
{
	int fd = make_file(AREA_OFFSET);
	struct ky_table_thread *tables = NULL;
	struct ky_thread_tables *ring;
	char text[200];

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	ring = ky_table_thread_add(&tables, fd, &header);
	assert_non_null(ring);
	do
		ky_table_thread_text(tables, ring, text, sizeof(text));
	while (strstr(text, "ended before") != NULL);
	assert_non_null(strstr(text, "none: "));
	ky_table_thread_close(tables);
	close(fd);
}

static void add__a_ring_without_an_area_has_none(void **state)
{
	struct ky_table_thread *tables = NULL;
	int fd = make_file(AREA_OFFSET);
	char text[200];

	(void)state;
	header.unwind_offset = 0;
	assert_null(ky_table_thread_add(&tables, fd, &header));
	assert_null(tables);
	ky_table_thread_text(tables, NULL, text, sizeof(text));
	assert_non_null(strstr(text, "none: "));
	ky_table_thread_remove(tables, NULL);
	ky_table_thread_close(tables);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__makes_tables),
		cmocka_unit_test(add__takes_over_what_was_made_ahead),
		cmocka_unit_test(add__no_room_is_told),
		cmocka_unit_test(add__a_ring_without_an_area_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
