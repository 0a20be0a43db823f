/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/read_case.h"

#include <analyze/socket_groups.h>
#include <stdio.h>

#define POLL_NS 900

static struct read_case c;
static struct ky_socket_groups groups;

static void stands(uint64_t ns, uint32_t tid, uint64_t task, uint64_t since_ns, uint32_t state)
{
	ky_trc_enc_event(&c.enc, KY_EV_SOCKET_WAIT, ns);
	ky_trc_enc_u32(&c.enc, tid);
	ky_trc_enc_varint(&c.enc, 0);
	ky_trc_enc_varint(&c.enc, task);
	ky_trc_enc_varint(&c.enc, 45);
	ky_trc_enc_varint(&c.enc, 9);
	ky_trc_enc_varint(&c.enc, since_ns);
	ky_trc_enc_varint(&c.enc, ns);
	ky_trc_enc_u8(&c.enc, (uint8_t)state);
	ky_trc_enc_opt_varint(&c.enc, true, 5000);
	ky_trc_enc_opt_varint(&c.enc, state != 10, 5432);
	ky_trc_enc_varint(&c.enc, 2);
	ky_trc_enc_varint(&c.enc, 3);
	ky_trc_enc_opt_varint(&c.enc, true, 64);
	ky_trc_enc_opt_varint(&c.enc, state != 10, 700);
}

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1000 + POLL_NS, 0, 7);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static void groups__have_the_last_reading_of_each_call(void **state)
{
	(void)state;
	stands(1400, 51, 7, 1100, 1);
	stands(1500, 52, 0, 100, 1);
	stands(1800, 51, 7, 1100, 8);
	stands(1850, 51, 7, 1840, 1); /* another call */
	case_open(&c);
	ky_socket_groups(&groups, c.trace, 0, 0);
	assert_int_equal(groups.count, 3);
	/* Those of tasks first. */
	assert_int_equal(groups.list[0].time_ns, 1800);
	assert_int_equal(groups.list[0].tcp_state, 8);
	assert_int_equal(groups.list[1].since_ns, 1840);
	assert_int_equal(groups.list[2].tid, 52);
	ky_socket_groups(&groups, c.trace, 1450, 1501);
	assert_int_equal(groups.count, 1);
	assert_int_equal(groups.list[0].tid, 52);
}

static void groups__of_those_without_room_there_is_a_count(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < KY_SOCKET_GROUPS_MAX + 3; i++)
		stands(2000 + i, 100 + i, 0, 2000, 1);
	case_open(&c);
	ky_socket_groups(&groups, c.trace, 0, 0);
	assert_int_equal(groups.count, KY_SOCKET_GROUPS_MAX);
	assert_int_equal(groups.more, 3);
}

static void poll__has_the_last_reading_within_it(void **state)
{
	struct ky_poll poll;

	(void)state;
	stands(1300, 51, 7, 900, 1); /* before the poll: of another thread's call */
	stands(1400, 51, 7, 1100, 1);
	stands(1800, 51, 7, 1100, 8);
	stands(1901, 51, 7, 1100, 1); /* it is over */
	case_open(&c);
	ky_trace_poll(c.trace, 0, 0, &poll);
	assert_int_equal(ky_socket_wait_in(c.trace, &poll)->time_ns, 1800);
	poll.start_ns = 1200;
	assert_null(ky_socket_wait_in(c.trace, &poll));
}

static void load__leaves_out_what_contradicts_itself(void **state)
{
	(void)state;
	stands(1400, 51, 7, 1401, 1);
	case_open(&c);
	assert_int_equal(c.trace->socket_wait_count, 0);
}

static void json__has_them_where_there_are_some(void **state)
{
	struct ky_buf out;
	char got[512];

	(void)state;
	stands(1400, 51, 0, 1100, 10);
	case_open(&c);
	ky_buf_init(&out, 0);
	ky_socket_groups_json(&out, c.trace, 3000, 0);
	assert_int_equal(out.used, 0);
	ky_socket_groups_json(&out, c.trace, 0, 0);
	(void)snprintf(got, sizeof(got), "%.*s", (int)out.used, (const char *)out.bytes);
	assert_string_equal(got, "\"socket_waits\":[{\"tid\":51,\"task\":\"\",\"syscall\":45,"
				 "\"fd\":9,\"local_port\":5000,\"peer_port\":null,"
				 "\"state\":\"LISTEN\",\"since_ns\":1100,\"to_ns\":1400,"
				 "\"unacked\":2,\"retransmits\":3,\"send_queue_bytes\":64,"
				 "\"silent_ns\":null}],\"socket_waits_more\":0");
	ky_buf_release(&out);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(groups__have_the_last_reading_of_each_call),
		CASE(groups__of_those_without_room_there_is_a_count),
		CASE(poll__has_the_last_reading_within_it),
		CASE(load__leaves_out_what_contradicts_itself),
		CASE(json__has_them_where_there_are_some),
	};

	return cmocka_run_group_tests_name("socket_groups", tests, NULL, NULL);
}
