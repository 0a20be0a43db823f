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
static struct ky_rule rules[KY_RULES_MAX];
static uint64_t side_offset; /* in the ring that was recorded last */

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
	side_offset = ring.header->side_offset;
	(void)snprintf(ring.side->counters[0].name, KY_COUNTER_NAME_BYTES, "jobs");
	atomic_store(&ring.side->counters[0].value, 7);
	atomic_store(&ring.side->counter_count, 1);
	(void)snprintf(path, sizeof(path), "%s/.%s.ring", ring_folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(ring.image, 1, ring.image_bytes, file), ring.image_bytes);
	assert_int_equal(fclose(file), 0);
	test_ring_close(&ring);
}

static int open_rings_with(const char *rule_text)
{
	char why[256];

	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	(void)snprintf(ring_folder, sizeof(ring_folder), "%s/rings", folder);
	(void)snprintf(trace_folder, sizeof(trace_folder), "%s/traces", folder);
	if (mkdir(ring_folder, 0700) != 0)
		return -1;
	/* This machine's counter, by which the rings are drained, may have begun just now. */
	test_ticks_base = 0;
	options = (struct ky_session_options){.agent.output.directory = trace_folder};
	ky_compressor_zstd(&options.agent.output.compressor, 1);
	options.agent.triggers.rules = rules;
	if (ky_rules_parse(rules, &options.agent.triggers.rule_count, rule_text, why,
			   sizeof(why)) != 0)
		return -1;
	return ky_run_rings_open(&rings, &options, ring_folder, SESSION);
}

static int open_rings(void **state)
{
	(void)state;
	return open_rings_with("");
}

static int open_rings_with_a_rule_that_waits(void **state)
{
	(void)state;
	return open_rings_with("counter:jobs>1 after=1h");
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

/* The next program's ring is found while that of the first is not due to be checked: the step
 * before was just now. */
static void run_rings__a_program_that_was_replaced_leaves_its_directory_at_once(void **state)
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
	ky_run_rings_finish(rings, false);
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
	return "leak:ky_drain_open\nleak:ky_drain_step\nleak:ky_rules_set\nleak:ky_rules_open\n";
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
	ky_run_rings_finish(rings, false);
	ky_run_rings_totals(rings, &after);
	assert_int_equal(after.live_count, 0);
}

static uint64_t count_firings(const char *path)
{
	uint64_t at = side_offset + offsetof(struct ky_ring_side, watched.fired), fired = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &fired, sizeof(fired), (off_t)at), sizeof(fired));
	(void)close(fd);
	return fired;
}

/* What it prints on standard error. */
static void step_and_read(char *text, size_t text_bytes)
{
	int ends[2], before = dup(STDERR_FILENO);
	ssize_t bytes;

	assert_int_equal(pipe(ends), 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	(void)ky_run_rings_step(rings);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	(void)close(before);
	(void)close(ends[1]);
	bytes = read(ends[0], text, text_bytes - 1);
	(void)close(ends[0]);
	assert_true(bytes >= 0);
	text[bytes] = 0;
}

static void run_rings__a_dump_that_waits_in_a_ring_that_was_cut_is_reported(void **state)
{
	struct ky_run_totals totals;
	char path[128], said[1024];

	(void)state;
	record("a", UINT64_C(2000000000));
	reveal("a");
	(void)snprintf(path, sizeof(path), "%s/a.ring", ring_folder);
	do
		(void)ky_run_rings_step(rings);
	while (count_firings(path) == 0);
	assert_int_equal(truncate(path, 0), 0);
	step_and_read(said, sizeof(said));
	assert_non_null(strstr(said, "a.ring: the input ends in the middle of a record; this "
				     "process is not recorded"));
	assert_non_null(strstr(said, "counter:jobs>1 after=1h: 7; no dump: the ring file was "
				     "truncated before it was made\n"));
	ky_run_rings_totals(rings, &totals);
	assert_int_equal(totals.live_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			run_rings__a_program_that_was_replaced_leaves_its_directory_at_once,
			open_rings, close_rings),
		cmocka_unit_test_setup_teardown(
			run_rings__totals_of_a_ring_that_was_cut_are_those_of_the_last_step,
			open_rings, close_rings),
		cmocka_unit_test_setup_teardown(
			run_rings__a_dump_that_waits_in_a_ring_that_was_cut_is_reported,
			open_rings_with_a_rule_that_waits, close_rings),
	};

	return cmocka_run_group_tests_name("run_rings", tests, NULL, NULL);
}
