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

/* Until it has other words for them. */
static void wait_for(struct ky_table_thread *thread, int fd, const char *words)
{
	char text[200];

	for (;;) {
		ky_table_thread_text(thread, fd, text, sizeof(text));
		if (strstr(text, words) != NULL)
			return;
		sched_yield();
	}
}

static void add__makes_tables(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *thread = NULL;

	(void)state;
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, " modules, ");
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, " modules, ");
	ky_table_thread_remove(thread, fd);
	wait_for(thread, fd, "no room for them");
	ky_table_thread_close(thread);
	close(fd);
}

/* A ring made ahead has the number of the process that made it, and of its child after a fork. */
static void add__begins_anew_for_another_process(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *thread = NULL;

	(void)state;
	header.pid = INT32_MAX;
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, "none: No such file");
	header.pid = (uint32_t)getpid();
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, " modules, ");
	ky_table_thread_close(thread);
	close(fd);
}

/* What is there stays, and no more comes: the thread would begin with the second reading. */
static void end__leaves_the_tables_as_they_are(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *thread = NULL;
	char before[200], after[200];

	(void)state;
	ky_table_thread_end(NULL, header.pid);
	ky_table_thread_look(NULL, 0);
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, " modules, ");
	ky_table_thread_end(thread, header.pid + 1); /* another one */
	ky_table_thread_end(thread, header.pid);
	ky_table_thread_text(thread, fd, before, sizeof(before));
	ky_table_thread_look(thread, UINT64_MAX - 1);
	ky_table_thread_text(thread, fd, after, sizeof(after));
	assert_string_equal(before, after);
	assert_non_null(strstr(after, " modules, "));
	ky_table_thread_close(thread);
	close(fd);
}

/* As on a full file system: the file cannot be written. */
static void add__reports_that_there_is_no_room(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_table_thread *thread = NULL;

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ky_table_thread_add(&thread, fd, &header);
	wait_for(thread, fd, "none: Operation not permitted");
	ky_table_thread_close(thread);
	close(fd);
}

static void add__a_ring_without_an_area_has_none(void **state)
{
	struct ky_table_thread *thread = NULL;
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);

	(void)state;
	header.unwind_offset = 0;
	ky_table_thread_add(&thread, fd, &header);
	assert_null(thread);
	wait_for(thread, fd, "no room for them");
	ky_table_thread_remove(thread, fd);
	ky_table_thread_close(thread);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__makes_tables),
		cmocka_unit_test(add__begins_anew_for_another_process),
		cmocka_unit_test(end__leaves_the_tables_as_they_are),
		cmocka_unit_test(add__reports_that_there_is_no_room),
		cmocka_unit_test(add__a_ring_without_an_area_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
