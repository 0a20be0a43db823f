/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stacks of page faults of a child that takes them in a known place, by the machine's own
 * perf_event. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <fcntl.h>
#include <probe/fault_stacks.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CELLS 2048u
#define FILE_BYTES (1u << 24)
#define DISTANCE (1u << 18) /* further than what is read ahead */
#define CODE_BYTES 4096u
#define STEPS 1000u
#define ENOUGH 200u /* faults that were waited for */

__attribute__((noinline)) static void read_pages(const volatile char *pages)
{
	for (size_t at = 0; at < FILE_BYTES; at += DISTANCE)
		(void)pages[at];
}

/* Until it is killed. */
static void take_faults(int fd)
{
	char *pages = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if ((void *)pages == MAP_FAILED || madvise(pages, FILE_BYTES, MADV_RANDOM) != 0)
		_exit(1);
	for (;;) {
		(void)madvise(pages, FILE_BYTES, MADV_DONTNEED);
		(void)posix_fadvise(fd, 0, FILE_BYTES, POSIX_FADV_DONTNEED);
		read_pages(pages);
	}
}

static int make_file(const char *directory)
{
	static const char block[1u << 16];
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/pages", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (uint32_t i = 0; i < FILE_BYTES / sizeof(block); i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(fsync(fd), 0);
	return fd;
}

static struct ky_sample_class_head head;
static _Alignas(64) uint8_t cells[CELLS * KY_SAMPLE_CELL_BYTES];
static const struct ky_sample_ring ring = {&head, cells, CELLS};

static const struct ky_sample_ring *at(const void *ctx, uint32_t i)
{
	(void)ctx;
	(void)i;
	return &ring;
}

static const struct ky_sample_ring *find(const void *ctx, uint32_t pid, uint64_t ns)
{
	(void)pid;
	(void)ns;
	return at(ctx, 0);
}

/* Empty ones will do for where it is. */
static bool tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	(void)ctx;
	(void)pid;
	(void)ns;
	*out = (struct ky_unwind_view){NULL, 0};
	return true;
}

static uint64_t frame_at(const struct ky_sample_cell *cell, uint32_t i)
{
	uint64_t frame = 0;

	memcpy(&frame, cell->frames + (size_t)i * KY_SAMPLE_FRAME_BYTES, KY_SAMPLE_FRAME_BYTES);
	return frame;
}

struct tally {
	uint32_t faults, with_stack, in_place;
};

static void count_cell(const struct ky_sample_cell *cell, struct tally *tally)
{
	bool has_stack = cell->flags & KY_SAMPLE_HAS_STACK;
	uint64_t place = (uint64_t)(uintptr_t)read_pages, frame;
	struct ky_switch_interval interval;

	for (uint32_t i = 0; i + KY_SWITCH_FRAMES <= cell->frame_count &&
			     i + KY_SWITCH_FRAMES <= KY_SAMPLE_FRAMES_FIRST;
	     i += KY_SWITCH_FRAMES) {
		uint64_t frames[] = {frame_at(cell, i), frame_at(cell, i + 1),
				     frame_at(cell, i + 2)};

		ky_switch_dec(&interval, cell->stamp, frames);
		tally->faults += interval.reason == KY_OFF_CPU_FAULT;
		if (!has_stack)
			continue;
		assert_int_equal(interval.reason, KY_OFF_CPU_FAULT);
		frame = frame_at(cell, KY_SWITCH_FRAMES);
		tally->with_stack++;
		tally->in_place += frame >= place && frame - place < CODE_BYTES;
		break;
	}
}

static struct tally count_all(void)
{
	struct tally tally = {0};

	for (uint32_t i = 0; i < CELLS; i++) {
		const struct ky_sample_cell *cell =
			(const void *)(cells + (size_t)i * KY_SAMPLE_CELL_BYTES);

		if (cell->kind == KY_SAMPLE_SWITCHES && cell->tid && cell->part == 0)
			count_cell(cell, &tally);
	}
	return tally;
}

/* Until some have a stack. Those that are reported before the event of stacks counts have none,
 * and may be many where we are held up. */
static struct tally watch(struct ky_switch_windows *windows)
{
	const struct ky_switch_places places = {NULL, 1, at, find, tables};
	const struct timespec moment = {.tv_nsec = 3000000};
	struct tally tally = {0};

	for (uint32_t i = 0; i < STEPS && tally.with_stack <= 10; i++) {
		(void)ky_switch_windows_step(windows, &places);
		(void)nanosleep(&moment, NULL);
		tally = count_all();
	}
	ky_switch_windows_stop(windows, &places);
	return count_all();
}

static void need_stacks(struct ky_perf_options *how)
{
	uint64_t cost_ns;
	int err;

	if (test_is_under_valgrind()) {
		print_message("# Valgrind stands between us and the kernel\n");
		skip();
	}
	err = ky_perf_test_switches(how, &cost_ns);
	if (!err)
		err = ky_fault_stacks_test(how);
	if (err) {
		print_message("# no stacks of page faults here: %s\n", strerror(-err));
		skip();
	}
}

static void fault_stacks__show_where_the_program_waited(void **state)
{
	struct ky_perf_options how = {.is_switches = true, .has_kernel = true};
	struct ky_switch_windows *windows;
	char directory[64];
	struct tally tally;
	pid_t child;
	int fd;

	(void)state;
	need_stacks(&how);
	assert_int_equal(temp_tree_make(directory, sizeof(directory)), 0);
	fd = make_file(directory);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		take_faults(fd);
	assert_int_equal(ky_switch_windows_open(&windows, &how, false), 0);
	ky_switch_windows_attach(windows, child);
	tally = watch(windows);
	ky_switch_windows_close(windows);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(fd);
	assert_int_equal(temp_tree_remove(directory), 0);
	print_message("# %u page faults were waited for, %u have a stack, %u in place\n",
		      tally.faults, tally.with_stack, tally.in_place);
	if (tally.faults < ENOUGH && !tally.with_stack) {
		print_message("# a disk that is never waited for\n");
		skip();
	}
	assert_true(tally.with_stack > 0);
	assert_int_equal(tally.in_place, tally.with_stack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_stacks__show_where_the_program_waited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
