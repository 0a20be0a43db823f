/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The child that names stacks: what becomes of it when it fails, or takes too long. */
#include "../../lib/cmocka_all.h"

#include <cli/end_stacks.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct ky_cut_report no_report = {.open_poll_count = 0};

static void check_nothing(struct ky_buf *out)
{
	ky_buf_append(out, "", 1);
	assert_string_equal((const char *)out->bytes, "before");
	ky_buf_release(out);
	/* Nobody is left behind. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void end__trace_that_is_not_there_is_an_error(void **state)
{
	const struct ky_end_stacks_options options = {.report = &no_report};
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "before", 6);
	assert_int_equal(ky_end_stacks(&out, "/no/such/trace.trc", &options), -EIO);
	check_nothing(&out);
}

/* Whoever opens it waits for somebody who writes. */
static void end__child_that_takes_too_long_is_ended(void **state)
{
	const struct ky_end_stacks_options options = {
		.report = &no_report, .is_json = true, .ms_max = 50};
	char directory[] = "/tmp/kymo-end-stacks-XXXXXX", path[sizeof(directory) + 16];
	struct ky_buf out;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fifo.trc", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "before", 6);
	assert_int_equal(ky_end_stacks(&out, path, &options), -ETIMEDOUT);
	check_nothing(&out);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0);
}

static void end__json_has_its_members_without_anything(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "{", 1);
	ky_end_stacks_none(&out);
	ky_buf_append(&out, "", 1);
	assert_string_equal((const char *)out.bytes, "{\"crashes\":[],\"open_poll_stacks\":[]");
	ky_buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__trace_that_is_not_there_is_an_error),
		cmocka_unit_test(end__child_that_takes_too_long_is_ended),
		cmocka_unit_test(end__json_has_its_members_without_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
