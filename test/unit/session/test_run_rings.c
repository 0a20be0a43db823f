/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"

#include <base/gnu.h>

#include <session/run_rings.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/temp_tree.h"

#define SLOTS 128u
#define SESSION 77u
#define WHILE_NS UINT64_C(10000000)
#define POLLS 20000u /* more events than a chunk holds */

static char folder[64], ring_folder[80], trace_folder[80];
static struct ky_session_options options;
static struct ky_run_rings *rings;

static uint64_t own_start_ticks(void)
{
	char text[1024] = "", *at;
	FILE *file = fopen("/proc/self/stat", "r");
	size_t bytes;

	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	assert_true(bytes > 0);
	(void)fclose(file);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	assert_non_null(at);
	return strtoull(at, NULL, 10);
}

/* What the image of this process that began at made_ns has recorded, for reveal(). */
static void record(const char *name, uint64_t made_ns)
{
	struct test_writer writer;
	struct test_ring ring;
	char path[128];
	FILE *file;

	test_ring_open(&ring, SLOTS);
	ring.header->session = SESSION;
	ring.header->pid = (uint32_t)getpid();
	ring.header->start_time_ticks = own_start_ticks();
	ring.now_ns = made_ns;
	(void)test_ring_anchor(&ring, &ring.header->open_anchor);
	test_writer_open(&writer, &ring, 101, made_ns);
	for (uint32_t i = 0; i < POLLS; i++) {
		test_poll(&writer, made_ns + 20 * i + 10, 1, 0);
		test_poll_end(&writer, made_ns + 20 * i + 20, 0);
	}
	assert_int_equal(writer.dropped, 0);
	(void)snprintf(path, sizeof(path), "%s/.%s.ring", ring_folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(ring.image, 1, ring.image_bytes, file), ring.image_bytes);
	assert_int_equal(fclose(file), 0);
	test_ring_close(&ring);
}

static int open_rings(void **state)
{
	(void)state;
	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	(void)snprintf(ring_folder, sizeof(ring_folder), "%s/rings", folder);
	(void)snprintf(trace_folder, sizeof(trace_folder), "%s/traces", folder);
	if (mkdir(ring_folder, 0700) != 0)
		return -1;
	/* This machine's counter, by which the rings are drained, may have begun just now. */
	test_ticks_base = 0;
	options = (struct ky_session_options){.agent.output.directory = trace_folder};
	ky_stage_zstd(&options.agent.output.stage, 1);
	return ky_run_rings_open(&rings, &options, ring_folder, SESSION);
}

static int close_rings(void **state)
{
	(void)state;
	ky_run_rings_close(rings);
	return temp_tree_remove(folder);
}

static void reveal(const char *name)
{
	char hidden[128], path[128];

	(void)snprintf(hidden, sizeof(hidden), "%s/.%s.ring", ring_folder, name);
	(void)snprintf(path, sizeof(path), "%s/%s.ring", ring_folder, name);
	assert_int_equal(rename(hidden, path), 0);
}

/* The next image's ring is found while that of the first is not due to be looked at: the step
 * before was just now. */
static void run_rings__an_image_that_was_replaced_leaves_its_directory_at_once(void **state)
{
	struct ky_run_totals totals;
	uint64_t due_ns;

	(void)state;
	record("a", UINT64_C(2000000000));
	record("b", UINT64_C(3000000000));
	reveal("a");
	do { /* until it has a directory, holds its lock, and is not due for a while */
		due_ns = ky_run_rings_step(rings);
		ky_run_rings_totals(rings, &totals);
		assert_int_equal(totals.live_count, 1);
	} while (!totals.trace_path[0] || due_ns < WHILE_NS);
	reveal("b");
	do {
		(void)ky_run_rings_step(rings);
		ky_run_rings_totals(rings, &totals);
	} while (totals.live_count > 1);
	ky_run_rings_finish(rings);
	ky_run_rings_totals(rings, &totals);
	assert_int_equal(totals.write_error, 0);
	assert_int_equal(totals.lost_count, 0);
	assert_int_equal(totals.process_count, 1);
	assert_true(totals.event_count >= 4 * POLLS);
}

/* A drain that a fault left in the middle of a step is abandoned, not closed: its memory is lost on
 * purpose, and the leak sanitizer reports it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:ky_drain_open\n";
}

/* Another program cuts the file while it is mapped: only a step may touch its pages. */
static void run_rings__totals_of_a_ring_that_was_cut_are_those_of_the_last_step(void **state)
{
	struct ky_run_totals before, after;
	char path[128];

	(void)state;
	record("a", UINT64_C(2000000000));
	reveal("a");
	do {
		(void)ky_run_rings_step(rings);
		ky_run_rings_totals(rings, &before);
	} while (!before.event_count);
	(void)snprintf(path, sizeof(path), "%s/a.ring", ring_folder);
	assert_int_equal(before.live_count, 1);
	assert_int_equal(truncate(path, 0), 0);
	ky_run_rings_totals(rings, &after);
	assert_int_equal(after.event_count, before.event_count);
	assert_int_equal(after.dropped_count, before.dropped_count);
	assert_int_equal(after.error, 0);
	ky_run_rings_finish(rings);
	ky_run_rings_totals(rings, &after);
	assert_int_equal(after.live_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			run_rings__an_image_that_was_replaced_leaves_its_directory_at_once,
			open_rings, close_rings),
		cmocka_unit_test_setup_teardown(
			run_rings__totals_of_a_ring_that_was_cut_are_those_of_the_last_step,
			open_rings, close_rings),
	};

	return cmocka_run_group_tests_name("run_rings", tests, NULL, NULL);
}
