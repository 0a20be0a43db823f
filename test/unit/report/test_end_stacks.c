/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The last stacks of a recovered process, where its trace says nothing of them. */
#include "../../lib/cmocka_all.h"

#include <report/end_stacks.h>

static const struct ky_cut_report no_report = {.open_poll_count = 0};

static const char *said(struct ky_buf *out)
{
	ky_buf_append(out, "", 1);
	return (const char *)out->bytes;
}

static void end__trace_that_is_not_there_adds_no_text(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "before", 6);
	ky_end_stacks(&out, "/no/such/trace.trc", &no_report, false);
	assert_string_equal(said(&out), "before");
	ky_buf_release(&out);
}

static void end__json_of_a_trace_that_is_not_there_has_empty_members(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "{", 1);
	ky_end_stacks(&out, "/no/such/trace.trc", &no_report, true);
	assert_string_equal(said(&out), "{\"crashes\":[],\"open_poll_stacks\":[]");
	ky_buf_release(&out);
}

static void end__json_has_its_members_without_anything(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 4096);
	ky_buf_append(&out, "{", 1);
	ky_end_stacks_none(&out);
	assert_string_equal(said(&out), "{\"crashes\":[],\"open_poll_stacks\":[]");
	ky_buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__trace_that_is_not_there_adds_no_text),
		cmocka_unit_test(end__json_of_a_trace_that_is_not_there_has_empty_members),
		cmocka_unit_test(end__json_has_its_members_without_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
