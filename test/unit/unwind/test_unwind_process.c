/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The stack of a child that sleeps, from what its /proc says: sp and pc alone. */
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"
#include "../../lib/own_tables.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind/unwind_process.h>

#define KEPT __attribute__((noinline, used))

static volatile uint32_t sink;
static int pipe_ends[2];

KEPT static void sleep_inner(void)
{
	char byte;

	if (read(pipe_ends[0], &byte, 1) == 1)
		sink++;
}

KEPT static void sleep_outer(void)
{
	sleep_inner();
	sink++;
}

static int compare(const void *a, const void *b)
{
	(void)a;
	(void)b;
	sleep_outer();
	return 0;
}

static pid_t start(char *line, size_t capacity)
{
	int pair[2] = {2, 1}, fd;
	char path[64];
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(pipe_ends), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		qsort(pair, 2, sizeof(pair[0]), compare);
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	do { /* in read() */
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		got = read(fd, line, capacity - 1);
		close(fd);
		assert_true(got > 0);
		line[got] = '\0';
	} while (strncmp(line, "0 ", 2) != 0);
	return child;
}

/* Forked, it is mapped as we are: our own tables are its tables. */
static void process__walks_a_thread_that_sleeps(void **state)
{
	struct own_tables tables = {0};
	struct ky_walk_start from;
	uint64_t frames[64];
	struct ky_walk walk = {.frames = frames, .frames_max = 64};
	char line[256];
	int64_t number;
	pid_t child;

	(void)state;
	assert_int_equal(own_tables_open(&tables), 0);
	child = start(line, sizeof(line));
	assert_true(ky_unwind_syscall_line(line, &number, &from));
	assert_int_equal(number, 0);
	ky_unwind_process(&walk, &tables.view, (uint32_t)child, &from);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	own_tables_close(&tables);
	assert_int_equal(walk.end, KY_WALK_FIRST);
	assert_true(walk.count >= 9); /* read, two of ours, compare, qsort's, start, test, main */
}

static void syscall_line__has_three_forms(void **state)
{
	struct ky_walk_start start;
	int64_t number;

	(void)state;
	assert_true(ky_unwind_syscall_line("202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffe10 0x55aa\n",
					   &number, &start));
	assert_int_equal(number, 202);
	assert_int_equal(start.sp, 0x7ffe10);
	assert_int_equal(start.pc, 0x55aa);
	assert_false(start.is_fp_known);
	assert_true(ky_unwind_syscall_line("-1 0x7ffe10 0x55aa\n", &number, &start));
	assert_int_equal(number, -1);
	assert_int_equal(start.sp, 0x7ffe10);
	assert_false(ky_unwind_syscall_line("running\n", &number, &start));
	assert_false(ky_unwind_syscall_line("", &number, &start));
	assert_false(ky_unwind_syscall_line("1 ", &number, &start));
	assert_false(ky_unwind_syscall_line("1 0x5 x", &number, &start));
}

static void view__an_image_that_lies_has_none(void **state)
{
	static _Alignas(64) uint8_t image[131072];
	struct ky_ring_header *header = (struct ky_ring_header *)(void *)image;
	struct ky_unwind_view view;

	(void)state;
	assert_false(ky_unwind_view_of(image, 16, &view));
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
	header->unwind_ready = 1;
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
	header->unwind_offset = 8192;
	header->unwind_bytes = sizeof(image) - 8192;
	assert_true(ky_unwind_view_of(image, sizeof(image), &view));
	assert_false(ky_unwind_view_of(image, sizeof(image) - 1, &view));
	header->unwind_bytes = UINT64_MAX;
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
	header->unwind_bytes = 4096; /* less than a head */
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
	header->unwind_bytes = sizeof(image) - 8192;
	header->unwind_offset = 8191;
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
	header->unwind_offset = UINT64_MAX - 63;
	assert_false(ky_unwind_view_of(image, sizeof(image), &view));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process__walks_a_thread_that_sleeps),
		cmocka_unit_test(syscall_line__has_three_forms),
		cmocka_unit_test(view__an_image_that_lies_has_none),
	};

	if (test_is_under_valgrind()) {
		print_message("1..0 # SKIP under Valgrind code is not where its file says\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
