/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/read_case.h"

#include <analyze/failed_groups.h>
#include <stdio.h>

static struct read_case c;
static struct ky_failed_group groups[KY_FAILED_GROUPS_MAX];

static void failed(uint64_t ns, uint32_t tid, uint64_t task, uint64_t syscall, uint32_t error,
		   uint64_t fd, uint64_t count)
{
	ky_trc_enc_event(&c.enc, KY_EV_FAILED_CALLS, ns);
	ky_trc_enc_u32(&c.enc, tid);
	ky_trc_enc_varint(&c.enc, 0);
	ky_trc_enc_varint(&c.enc, task);
	ky_trc_enc_varint(&c.enc, syscall);
	ky_trc_enc_varint(&c.enc, error);
	ky_trc_enc_opt_varint(&c.enc, true, fd);
	ky_trc_enc_varint(&c.enc, count);
}

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

/* Each thread counts for itself, and says its count at powers of two. */
static void groups__add_threads_and_take_the_last_count_of_each(void **state)
{
	(void)state;
	failed(2000, 51, 7, 288, EMFILE, 4, 1);
	failed(2100, 51, 7, 288, EMFILE, 4, 2);
	failed(2200, 52, 7, 288, EMFILE, 5, 1);
	failed(2300, 51, 7, 288, EMFILE, 4, 4);
	case_open(&c);
	assert_int_equal(ky_failed_groups(groups, c.trace, 0, 0), 1);
	assert_int_equal(groups[0].count, 5);
	assert_int_equal(groups[0].from_ns, 2000);
	assert_int_equal(groups[0].to_ns, 2300);
	assert_true(groups[0].fd == UINT64_MAX);
	assert_string_equal(ky_trace_name(c.trace, groups[0].name), "svc::task");
	/* Of a range, what was counted in it. */
	assert_int_equal(ky_failed_groups(groups, c.trace, 2300, 3000), 1);
	assert_int_equal(groups[0].count, 2);
	assert_int_equal(ky_failed_groups(groups, c.trace, 2301, 3000), 0);
}

/* One that succeeded begins another row. */
static void groups__add_rows(void **state)
{
	(void)state;
	failed(2000, 51, 7, 45, EAGAIN, 4, 256);
	failed(2100, 51, 7, 45, EAGAIN, 4, 512);
	failed(2200, 51, 7, 45, EAGAIN, 4, 256);
	failed(2300, 51, 7, 45, EAGAIN, 9, 256);
	failed(2400, 51, 7, 288, EMFILE, 3, 1);
	case_open(&c);
	assert_int_equal(ky_failed_groups(groups, c.trace, 0, 0), 2);
	assert_int_equal(groups[0].count, 512 + 256 + 256);
	assert_int_equal(groups[0].error, EAGAIN);
	assert_int_equal(groups[1].count, 1);
	assert_int_equal(groups[1].fd, 3);
}

static void json__has_them_where_there_are_some(void **state)
{
	struct ky_buf out;
	char got[512];

	(void)state;
	failed(2000, 51, 0, 288, EMFILE, 4, 1);
	case_open(&c);
	ky_buf_init(&out, 0);
	ky_failed_groups_json(&out, c.trace, 3000, 0);
	assert_int_equal(out.used, 0);
	ky_failed_groups_json(&out, c.trace, 0, 0);
	(void)snprintf(got, sizeof(got), "%.*s", (int)out.used, (const char *)out.bytes);
	assert_string_equal(got, "\"failing_calls\":[{\"count_min\":1,\"syscall\":288,"
				 "\"errno\":24,\"fd\":4,\"from_ns\":2000,\"to_ns\":2000,"
				 "\"task\":\"\"}]");
	ky_buf_release(&out);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(groups__add_threads_and_take_the_last_count_of_each),
		CASE(groups__add_rows),
		CASE(json__has_them_where_there_are_some),
	};

	return cmocka_run_group_tests_name("failed_groups", tests, NULL, NULL);
}
