/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The process that is seen from outside is this one. */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <cli/run_outside.h>
#include <dirent.h>
#include <errno.h>
#include <drain/ring_view.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/temp_tree.h"

#define SESSION 77u
#define SECOND_NS UINT64_C(1000000000)

static char folder[64];
static struct ky_run_options options;
static struct ky_run_outside outside;

static int open_outside(void **state)
{
	(void)state;
	options = (struct ky_run_options){.is_flight = false};
	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	ky_run_outside_open(&outside, &options, folder, SESSION);
	return 0;
}

static int close_outside(void **state)
{
	(void)state;
	ky_run_outside_close(&outside);
	return temp_tree_remove(folder);
}

static bool step(enum ky_run_status status, const char *reason, uint64_t age_ns)
{
	return ky_run_outside_step(&outside, status, reason, false, outside.start_ns + age_ns);
}

static uint32_t count_rings(void)
{
	DIR *stream = opendir(folder);
	struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream)) != NULL)
		count += strstr(entry->d_name, ".ring") != NULL;
	closedir(stream);
	return count;
}

/* Is this text somewhere in the directory of the ring? */
static bool has_text(const char *text)
{
	static uint8_t bytes[65536];
	ssize_t got = pread(outside.fd, bytes, sizeof(bytes),
			    (off_t)outside.header.directory_offset);

	return got > 0 && memmem(bytes, (size_t)got, text, strlen(text)) != NULL;
}

static void run_outside__a_program_without_tokio_gets_a_ring_that_reads_as_one(void **state)
{
	struct ky_ring_view view;
	struct stat st;
	void *image;

	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	assert_true(step(KY_RUN_STATUS_NONE, "", 0));
	assert_int_equal(count_rings(), 0);
	assert_true(step(KY_RUN_STATUS_NO_TOKIO, "", 99000000));
	assert_int_equal(count_rings(), 0);
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "", 100000000));
	assert_int_equal(count_rings(), 1);
	assert_int_equal(fstat(outside.fd, &st), 0);
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, outside.fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	assert_int_equal(ky_ring_view_open(&view, image, (uint64_t)st.st_size), 0);
	assert_int_equal(view.pid, getpid());
	assert_int_equal(view.header->session, SESSION);
	assert_int_equal(view.flags, KY_RING_CLOCK_MONOTONIC | KY_RING_OUTSIDE);
	assert_int_equal(view.open_anchor.monotonic_ns, outside.start_ns);
	assert_string_equal(view.service, "test_run_outside");
	assert_int_not_equal(view.sample_bytes, 0);
	assert_int_not_equal(view.resource_offset, 0);
	assert_false(ky_run_outside_is_half_full(&view));
	assert_true(has_text("recorder.unseen"));
	assert_true(has_text("polls, wakes and tasks: it does not use Tokio"));
	assert_true(has_text("/test_run_outside"));
	assert_true(has_text("libc.so"));
	munmap(image, (size_t)st.st_size);
}

static void run_outside__whoever_records_himself_needs_none(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	assert_false(
		ky_run_outside_step(&outside, KY_RUN_STATUS_NO_TOKIO, "", true, outside.start_ns));
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "", 5 * SECOND_NS));
	assert_int_equal(count_rings(), 0);
}

static void run_outside__whoever_brings_a_recorder_needs_none(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "recorder", 0));
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "recorder", 5 * SECOND_NS));
	assert_int_equal(count_rings(), 0);
}

/* Where samples come fast they cannot wait. */
static void run_outside__a_ring_comes_before_samples_are_lost(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), true, 16000000);
	assert_true(step(KY_RUN_STATUS_NONE, "", 15000000));
	assert_false(step(KY_RUN_STATUS_NONE, "", 16000000));
	assert_int_equal(count_rings(), 1);
}

static void run_outside__each_reason_is_told_in_the_ring(void **state)
{
	static const struct {
		enum ky_run_status status;
		uint64_t age_ns;
		const char *reason, *told;
	} cases[] = {
		{KY_RUN_STATUS_NO_TOKIO, SECOND_NS, "", "it does not use Tokio"},
		{KY_RUN_STATUS_STRIPPED, SECOND_NS, "", "it is stripped"},
		{KY_RUN_STATUS_REFUSED, SECOND_NS, "it records itself", "tasks: it records itself"},
		{KY_RUN_STATUS_UNKNOWN_LAYOUT, SECOND_NS, "what", "that kymo does not know (what)"},
		{KY_RUN_STATUS_NONE, SECOND_NS, "", "the recorder was not loaded"},
		{KY_RUN_STATUS_OK, 2 * SECOND_NS, "", "it ran no task so far"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/%zu", folder, i);
		assert_int_equal(mkdir(path, 0700), 0);
		ky_run_outside_open(&outside, &options, path, SESSION);
		ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
		(void)step(cases[i].status, cases[i].reason, cases[i].age_ns);
		assert_true(outside.fd >= 0);
		assert_true(has_text(cases[i].told));
		ky_run_outside_close(&outside);
	}
}

static void run_outside__a_static_program_needs_no_word(void **state)
{
	(void)state;
	options.service = "..odd name";
	ky_run_outside_child(&outside, (uint32_t)getpid(), true, 0);
	assert_false(step(KY_RUN_STATUS_NONE, "", 100000000));
	assert_int_equal(count_rings(), 1);
	assert_true(has_text("it is statically linked"));
	assert_string_equal(outside.header.service, "_.odd_name");
}

static void run_outside__a_tokio_program_has_time_for_its_first_task(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	assert_false(step(KY_RUN_STATUS_OK, "", SECOND_NS));
	assert_int_equal(count_rings(), 0);
}

static void run_outside__a_further_image_begins_a_ring_of_its_own(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 100000000);
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", SECOND_NS);
	assert_int_equal(count_rings(), 1);
	(void)snprintf(outside.program, sizeof(outside.program), "/bin/what it was");
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 2 * SECOND_NS);
	assert_int_equal(count_rings(), 2);
	assert_true(outside.header.open_anchor.monotonic_ns > outside.start_ns);
	assert_true(has_text("/test_run_outside"));
}

static void run_outside__what_is_mapped_and_gone_is_told_once(void **state)
{
	uint64_t used;

	(void)state;
	ky_run_outside_child(&outside, (uint32_t)getpid(), false, 0);
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 100000000);
	used = outside.directory_used;
	assert_true(outside.module_count > 1);
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 2 * SECOND_NS);
	assert_int_equal(outside.directory_used, used);
	outside.modules[0]++; /* of a file that is not mapped */
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 4 * SECOND_NS);
	assert_int_equal(outside.modules[0], 0);
	assert_true(outside.directory_used > used);
	used = outside.directory_used;
	(void)step(KY_RUN_STATUS_NO_TOKIO, "", 6 * SECOND_NS);
	assert_int_equal(outside.directory_used, used);
}

/* Of a process that is gone, or in a directory that is. */
static void run_outside__what_cannot_be_made_is_given_up(void **state)
{
	(void)state;
	ky_run_outside_child(&outside, 0x7ffffffe, true, 0);
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "", SECOND_NS));
	assert_int_equal(outside.error, -ESRCH);
	ky_run_outside_close(&outside);
	ky_run_outside_open(&outside, &options, "/nonexistent", SESSION);
	ky_run_outside_child(&outside, (uint32_t)getpid(), true, 0);
	assert_false(step(KY_RUN_STATUS_NO_TOKIO, "", SECOND_NS));
	assert_int_equal(outside.error, -ENOENT);
	assert_true(outside.is_over);
	assert_int_equal(outside.fd, -1);
	assert_int_equal(count_rings(), 0);
}

static void run_outside__a_shell_is_not_worth_a_trace(void **state)
{
	(void)state;
	assert_false(ky_run_outside_is_worth(true, 3, 5));
	assert_true(ky_run_outside_is_worth(true, 10, 1));
	assert_true(ky_run_outside_is_worth(true, 0, 10));
	assert_false(ky_run_outside_is_worth(false, 0, 1));
	assert_true(ky_run_outside_is_worth(false, 0, 2));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_outside, close_outside)
	const struct CMUnitTest tests[] = {
		CASE(run_outside__a_program_without_tokio_gets_a_ring_that_reads_as_one),
		CASE(run_outside__whoever_records_himself_needs_none),
		CASE(run_outside__whoever_brings_a_recorder_needs_none),
		CASE(run_outside__a_ring_comes_before_samples_are_lost),
		CASE(run_outside__each_reason_is_told_in_the_ring),
		CASE(run_outside__a_static_program_needs_no_word),
		CASE(run_outside__a_tokio_program_has_time_for_its_first_task),
		CASE(run_outside__a_further_image_begins_a_ring_of_its_own),
		CASE(run_outside__what_is_mapped_and_gone_is_told_once),
		CASE(run_outside__what_cannot_be_made_is_given_up),
		CASE(run_outside__a_shell_is_not_worth_a_trace),
	};

	return cmocka_run_group_tests_name("run_outside", tests, NULL, NULL);
}
