/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Step by step into a file, and by the thread of a program that links the library. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <agent/unwind_tables.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/recorder.h>
#include <kymo/stack.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind/unwind_table.h>

#define AREA_OFFSET 8192u
#define MS UINT64_C(1000000)
#define START (1000 * MS)

static char directory[64];
static uint64_t frames[64];

static struct ky_ring_header header;
static uint32_t piece_count;

static int count_pieces(void *ctx)
{
	(void)ctx;
	piece_count++;
	return 0;
}

static int stop_at_once(void *ctx)
{
	(void)ctx;
	return -ECANCELED;
}

static bool is_unwanted(const void *ctx)
{
	(void)ctx;
	return false;
}

static uint64_t step(struct ky_probe probe, uint64_t now_ns)
{
	return probe.step(probe.self, &(const struct ky_probe_moment){.now_ns = now_ns});
}

static int make_file(uint64_t bytes)
{
	int fd = memfd_create("unwind-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	header.pid = (uint32_t)getpid();
	header.unwind_offset = AREA_OFFSET;
	header.unwind_bytes = KY_UNWIND_AREA_BYTES;
	return fd;
}

static void tables__are_written_to_the_file(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	uint64_t own = (uint64_t)(uintptr_t)tables__are_written_to_the_file;
	const uint8_t *image = mmap(NULL, AREA_OFFSET + KY_UNWIND_AREA_BYTES, PROT_READ, MAP_SHARED,
				    fd, 0);
	const struct ky_ring_header *there = (const struct ky_ring_header *)(const void *)image;
	struct ky_unwind_view view = {image + AREA_OFFSET, KY_UNWIND_AREA_BYTES};
	struct ky_unwind_tables tables;
	struct ky_probe probe;
	struct ky_unwind_code code;
	struct ky_unwind_wide wide;
	char text[200];

	(void)state;
	assert_ptr_not_equal(image, MAP_FAILED);
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	assert_int_equal(step(probe, START), START + 1000 * MS);
	assert_int_equal(atomic_load_explicit(&there->unwind_ready, memory_order_acquire), 1);
	assert_true(ky_unwind_code_of(&view, own, &code));
	assert_true(ky_unwind_rule_kind(ky_unwind_rule_at(&code, own, &wide)) >= KY_UNWIND_BY_SP);
	ky_unwind_tables_text(&tables.stats, text, sizeof(text));
	assert_non_null(strstr(text, " modules, "));
	ky_probes_close(&probe, 1);
	munmap((void *)(uintptr_t)image, AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	close(fd);
}

static void hasty_tables__are_read_often_for_two_seconds(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_unwind_tables tables;
	struct ky_probe probe;
	uint64_t at = START;

	(void)state;
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	tables.is_hasty = tables.follows_cpu = true;
	for (; at < START + 2000 * MS; at += 100 * MS)
		assert_int_equal(step(probe, at), at + 100 * MS);
	assert_int_equal(step(probe, at), at + 1000 * MS);
	assert_int_equal(step(probe, at + MS), at + 1000 * MS);
	ky_probes_close(&probe, 1);
	close(fd);
}

/* Also where the process has not run meanwhile. */
static void tables__of_libraries_follow_the_early_ones(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_unwind_tables tables;
	struct ky_probe probe;
	uint32_t early;

	(void)state;
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	tables.early = "libc.so.6";
	tables.follows_cpu = true;
	assert_int_equal(step(probe, START), START + 5 * MS);
	early = tables.stats.module_count;
	assert_true(early > 0);
	assert_int_equal(step(probe, START + 5 * MS), START + 1005 * MS);
	assert_true(tables.stats.module_count > early);
	ky_probes_close(&probe, 1);
	close(fd);
}

static void tables__unused_are_not_made(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_unwind_tables tables;
	struct ky_probe probe;

	(void)state;
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	tables.is_wanted = is_unwanted;
	tables.between = count_pieces;
	assert_true(step(probe, START) == UINT64_MAX);
	assert_int_equal(piece_count, 0);
	tables.is_wanted = NULL;
	assert_true(step(probe, START) < UINT64_MAX);
	assert_true(piece_count > 0);
	ky_probes_close(&probe, 1);
	close(fd);
}

/* As on a full file system: the file cannot be written. */
static void tables__report_why_there_are_none(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_unwind_tables tables;
	struct ky_probe probe;
	char text[200];

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	ky_unwind_tables_text(&tables.stats, text, sizeof(text));
	assert_string_equal(text, "none: recording ended before they were made");
	assert_true(step(probe, START) == UINT64_MAX);
	ky_unwind_tables_text(&tables.stats, text, sizeof(text));
	assert_string_equal(text, "none: Operation not permitted");
	assert_true(step(probe, START + 5000 * MS) == UINT64_MAX);
	ky_probes_close(&probe, 1);
	close(fd);
}

static void a_step_that_is_stopped__ends(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_unwind_tables tables;
	struct ky_probe probe;

	(void)state;
	ky_unwind_tables_init(&tables, fd, &header);
	probe = ky_unwind_tables_probe(&tables);
	tables.between = stop_at_once;
	assert_true(step(probe, START) == UINT64_MAX);
	assert_int_equal(tables.error, -ECANCELED);
	ky_probes_close(&probe, 1);
	close(fd);
}

__attribute__((noinline)) static uint32_t capture(void)
{
	struct kymo_stack stack = {.frames = frames, .frames_max = 64};
	struct kymo_stack_start start;

	KYMO_STACK_HERE(&start);
	kymo_stack_capture(&stack, &start);
	return stack.end;
}

static void open_recorder(struct kymo_recorder **out)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.flags = KYMO_RECORDER_EAGER;
	options.service = "tables";
	options.trace_directory = directory;
	options.ring_directory = directory;
	assert_int_equal(kymo_recorder_open(out, &options), 0);
}

static void library__makes_tables_once_a_stack_was_wanted(void **state)
{
	struct kymo_recorder *recorder;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) { /* a later ring has tables of its own */
		open_recorder(&recorder);
		while (capture() != KYMO_STACK_FIRST)
			sched_yield();
		assert_int_equal(kymo_recorder_close(recorder), 0);
		assert_int_equal(capture(), KYMO_STACK_NO_TABLES);
	}
}

static void library__a_forked_child_has_none(void **state)
{
	struct kymo_recorder *recorder;
	int status;
	pid_t child;

	(void)state;
	open_recorder(&recorder);
	while (capture() != KYMO_STACK_FIRST)
		sched_yield();
	child = fork();
	if (child == 0)
		_exit(capture() == KYMO_STACK_NO_TABLES ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__are_written_to_the_file),
		cmocka_unit_test(hasty_tables__are_read_often_for_two_seconds),
		cmocka_unit_test(tables__of_libraries_follow_the_early_ones),
		cmocka_unit_test(tables__unused_are_not_made),
		cmocka_unit_test(tables__report_why_there_are_none),
		cmocka_unit_test(a_step_that_is_stopped__ends),
		cmocka_unit_test(library__makes_tables_once_a_stack_was_wanted),
		cmocka_unit_test(library__a_forked_child_has_none),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
