/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What stands under the name of a dump, or comes there while it is being made. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <base/alloc.h>
#include <kymo/kymo.h>
#include <agent/dump_file.h>
#include <record/emit/emit_engine.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64], path[128], old[136];
static struct kymo_recorder *recorder;

static void write_text(const char *name, const char *text, size_t count)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, count, file), count);
	fclose(file);
}

static long size_of(const char *name)
{
	struct stat about;

	return lstat(name, &about) == 0 ? (long)about.st_size : -1;
}

static int set_up(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	(void)state;
	if (temp_tree_make(top, sizeof(top)) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/a.trc", top);
	snprintf(old, sizeof(old), "%s.old", path);
	options.dump_directory = top;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	kymo_poll_begin(5, 0, 1);
	kymo_poll_end(0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(kymo_recorder_close(recorder), 0);
	temp_tree_remove(top);
	return 0;
}

/* The stage is opened once the name has been looked at. */
static int open_and_interfere(const struct ky_stage_factory *self, struct ky_stage *out)
{
	(void)self;
	write_text(path, "a letter", 8);
	return ky_stage_none.open(&ky_stage_none, out);
}

static int choose_interfering(struct ky_stage_factory *out, uint32_t compression)
{
	(void)compression;
	*out = ky_stage_none;
	out->open = open_and_interfere;
	return 0;
}

static int choose_none(struct ky_stage_factory *out, uint32_t compression)
{
	(void)compression;
	*out = ky_stage_none;
	return 0;
}

static int make(int (*choose_stage)(struct ky_stage_factory *out, uint32_t compression))
{
	const struct ky_dump_place place = {.directory = top,
					    .service = "s",
					    .stage = &ky_stage_none,
					    .choose_stage = choose_stage};
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct ky_dump_request *request;
	int err;

	options.path = path;
	assert_int_equal(ky_dump_request_make(&request, &options, 1), 0);
	err = ky_dump_make(request, &place, ky_engine.ring);
	ky_free(request);
	return err;
}

static void dump_file__what_comes_meanwhile_and_is_no_trace_stays(void **state)
{
	(void)state;
	write_text(old, "TRC", 4);
	assert_int_equal(make(choose_interfering), KYMO_E_NOT_TRACE);
	assert_int_equal(size_of(path), 8);
	assert_int_equal(size_of(old), 4);
	snprintf(old, sizeof(old), "%s.active", path);
	assert_int_equal(size_of(old), -1);
}

static void dump_file__an_empty_file_does_not_replace_the_earlier_trace(void **state)
{
	(void)state;
	write_text(old, "TRC", 4);
	write_text(path, "", 0);
	assert_int_equal(make(choose_none), 0);
	assert_true(size_of(path) > 100);
	assert_int_equal(size_of(old), 4);
}

static void dump_file__an_earlier_dump_becomes_the_old_one(void **state)
{
	(void)state;
	write_text(path, "TRC\0 before", 11);
	assert_int_equal(make(choose_none), 0);
	assert_true(size_of(path) > 100);
	assert_int_equal(size_of(old), 11);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(dump_file__what_comes_meanwhile_and_is_no_trace_stays),
		CASE(dump_file__an_empty_file_does_not_replace_the_earlier_trace),
		CASE(dump_file__an_earlier_dump_becomes_the_old_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
