/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What has the name of a dump, or takes it while it is being made; whom the writer gives way to. */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"
#include "../../lib/temp_tree.h"

#include <base/gnu.h>

#include <agent/dump_writer.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 8u
#define NS UINT64_C(2000000000)
#define OTHERS 64 /* exit status of a child that could not dump */

static struct test_ring ring;
static struct ky_dump_job job;
static char folder[64], path[128], old[136];

static int open_ring(void **state)
{
	struct test_writer writer;

	(void)state;
	test_ring_open(&ring, SLOTS);
	test_writer_open(&writer, &ring, 101, NS);
	test_poll(&writer, NS + 10, 1, 0);
	test_poll_end(&writer, NS + 20, 0);
	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/a.trc", folder);
	(void)snprintf(old, sizeof(old), "%s.old", path);
	job = (struct ky_dump_job){
		.cut = {.image = ring.image, .image_bytes = ring.image_bytes, .is_dead = true},
		.compressor = ky_compressor_none,
		.path = path,
	};
	return 0;
}

static int close_ring(void **state)
{
	(void)state;
	test_ring_close(&ring);
	return temp_tree_remove(folder);
}

static void write_text(const char *name, const char *text, size_t count)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

static long size_of(const char *name)
{
	struct stat about;

	return lstat(name, &about) == 0 ? (long)about.st_size : -1;
}

/* ---- a name that is taken ---- */

static int set_aside(void)
{
	job.taken = KY_DUMP_SET_ASIDE;
	job.is_active = true;
	return ky_dump_write(&job);
}

/* The compressor is opened once the name has been checked. */
static int open_and_interfere(const struct ky_compressor_factory *self, struct ky_compressor *out)
{
	(void)self;
	write_text(path, "a letter", 8);
	return ky_compressor_none.open(&ky_compressor_none, out);
}

static void dump__other_file_made_meanwhile_stays(void **state)
{
	(void)state;
	write_text(old, "TRC", 4);
	job.compressor.open = open_and_interfere;
	assert_int_equal(set_aside(), KYMO_E_NOT_TRACE);
	assert_true(job.is_file_trouble);
	assert_int_equal(size_of(path), 8);
	assert_int_equal(size_of(old), 4);
	(void)snprintf(old, sizeof(old), "%s.active", path);
	assert_int_equal(size_of(old), -1);
}

static void dump__an_empty_file_does_not_replace_the_earlier_trace(void **state)
{
	(void)state;
	write_text(old, "TRC", 4);
	write_text(path, "", 0);
	assert_int_equal(set_aside(), 0);
	assert_true(size_of(path) > 100);
	assert_int_equal(size_of(path), job.bytes);
	assert_int_equal(size_of(old), 4);
}

static void dump__earlier_file_becomes_the_old_file(void **state)
{
	(void)state;
	write_text(path, "TRC\0 before", 11);
	assert_int_equal(set_aside(), 0);
	assert_true(size_of(path) > 100);
	assert_int_equal(size_of(old), 11);
}

static void dump__killed_before_does_not_block_the_next_ones_name(void **state)
{
	char active[136];

	(void)state;
	(void)snprintf(active, sizeof(active), "%s.active", path);
	write_text(active, "TRC\0 half", 9);
	assert_int_equal(set_aside(), 0);
	assert_true(size_of(path) > 100);
	assert_int_equal(size_of(active), -1);
}

static int open_and_come_first(const struct ky_compressor_factory *self, struct ky_compressor *out)
{
	(void)self;
	write_text(path, "TRC\0 first", 10);
	return ky_compressor_none.open(&ky_compressor_none, out);
}

static void dump__replaces_no_trace_made_meanwhile(void **state)
{
	(void)state;
	job.is_active = true;
	job.compressor.open = open_and_come_first;
	assert_int_equal(ky_dump_write(&job), 0);
	assert_int_equal(size_of(path), job.bytes);
	assert_int_equal(size_of(old), 10);
}

static void dump__gets_a_number_where_the_name_is_taken(void **state)
{
	char active[136];

	(void)state;
	write_text(path, "a letter", 8);
	(void)snprintf(active, sizeof(active), "%s/a.2.trc.active", folder);
	write_text(active, "TRC\0 half", 9);
	assert_int_equal(ky_dump_write(&job), 0);
	assert_string_equal(job.written + strlen(folder), "/a.2.trc");
	assert_int_equal(unlink(job.written), 0);
	job.is_active = true;
	assert_int_equal(ky_dump_write(&job), 0);
	assert_string_equal(job.written + strlen(folder), "/a.3.trc");
	assert_int_equal(size_of(path), 8);
	assert_int_equal(size_of(active), 9);
}

static void dump__replaces_a_file_where_that_is_allowed(void **state)
{
	(void)state;
	write_text(path, "a letter", 8);
	job.taken = KY_DUMP_REPLACED;
	assert_int_equal(ky_dump_write(&job), 0);
	assert_int_equal(size_of(path), job.bytes);
	assert_int_equal(size_of(old), -1);
}

/* ---- a range without records ---- */

static void dump__without_a_record_is_an_error_where_one_is_needed(void **state)
{
	(void)state;
	test_ring_close(&ring);
	test_ring_open(&ring, SLOTS);
	job.cut.image = ring.image;
	job.needs_records = true;
	assert_int_equal(ky_dump_write(&job), -ENODATA);
	assert_false(job.is_file_trouble);
	assert_int_equal(size_of(path), -1);
	job.needs_records = false;
	assert_int_equal(ky_dump_write(&job), 0);
}

/* ---- giving way ---- */

/* A thread cannot take back what it gave away: a process of its own. Returns by how much its nice
 * value grew. */
static int growth(bool gives_way)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		int before = getpriority(PRIO_PROCESS, 0), err;

		job.gives_way = gives_way;
		err = ky_dump_write(&job);
		_exit(err ? OTHERS : getpriority(PRIO_PROCESS, 0) - before);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_true(size_of(path) > 0);
	return WEXITSTATUS(status);
}

static void dump__raises_its_nice_value_on_request(void **state)
{
	int most = 19 - getpriority(PRIO_PROCESS, 0);

	(void)state;
	assert_int_equal(growth(true), most < 10 ? most : 10);
}

static void dump__keeps_its_nice_value_otherwise(void **state)
{
	(void)state;
	assert_int_equal(growth(false), 0);
}

/* ---- names ---- */

static void utc__has_milliseconds_on_request(void **state)
{
	const uint64_t leap_ns = UINT64_C(1709210096789000000); /* 2024-02-29 12:34:56.789 */
	char text[KY_DUMP_UTC_BYTES];

	(void)state;
	ky_dump_utc(text, leap_ns, true);
	assert_string_equal(text, "20240229T123456.789Z");
	ky_dump_utc(text, leap_ns, false);
	assert_string_equal(text, "20240229T123456Z");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(dump__other_file_made_meanwhile_stays),
		TEST(dump__an_empty_file_does_not_replace_the_earlier_trace),
		TEST(dump__earlier_file_becomes_the_old_file),
		TEST(dump__killed_before_does_not_block_the_next_ones_name),
		TEST(dump__replaces_no_trace_made_meanwhile),
		TEST(dump__gets_a_number_where_the_name_is_taken),
		TEST(dump__replaces_a_file_where_that_is_allowed),
		TEST(dump__without_a_record_is_an_error_where_one_is_needed),
		TEST(dump__raises_its_nice_value_on_request),
		TEST(dump__keeps_its_nice_value_otherwise),
		cmocka_unit_test(utc__has_milliseconds_on_request),
	};

	return cmocka_run_group_tests_name("dump_writer", tests, NULL, NULL);
}
