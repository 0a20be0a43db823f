/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <wire/call_facts.h>

static struct ky_call_facts through(const struct ky_call_facts *facts)
{
	struct ky_call_facts out;
	uint64_t more, other;

	ky_call_facts_enc(facts, &more, &other);
	ky_call_facts_dec(&out, more, other);
	return out;
}

static void call_facts__of_an_older_recorder_are_the_reason_alone(void **state)
{
	struct ky_call_facts out;

	(void)state;
	ky_call_facts_dec(&out, 1, 0);
	assert_int_equal(out.reason, 1);
	assert_int_equal(out.fd, -1);
	assert_int_equal(out.bytes, -1);
	assert_int_equal(out.fd_kind, KY_FD_UNKNOWN);
	assert_int_equal(out.peer_port + out.local_port + out.error + out.tcp_state, 0);
	assert_int_equal(out.lock, 0);
}

static void call_facts__come_back_as_they_were(void **state)
{
	struct ky_call_facts facts = {.reason = 1,
				      .fd_kind = KY_FD_TCP,
				      .tcp_state = 8,
				      .error = ETIMEDOUT,
				      .peer_port = 65535,
				      .local_port = 40000,
				      .fd = INT32_MAX,
				      .bytes = INT32_MAX};
	struct ky_call_facts out = through(&facts);

	(void)state;
	assert_int_equal(out.fd_kind, KY_FD_TCP);
	assert_int_equal(out.tcp_state, 8);
	assert_int_equal(out.error, ETIMEDOUT);
	assert_int_equal(out.peer_port, 65535);
	assert_int_equal(out.local_port, 40000);
	assert_int_equal(out.fd, INT32_MAX);
	assert_int_equal(out.bytes, INT32_MAX);
	facts = (struct ky_call_facts){.reason = 1, .fd = 0, .bytes = 0};
	out = through(&facts);
	assert_int_equal(out.fd, 0);
	assert_int_equal(out.bytes, 0);
}

static void call_facts__of_a_futex_have_its_address(void **state)
{
	struct ky_call_facts facts = {
		.reason = KY_CALL_FUTEX, .fd = -1, .bytes = -1, .lock = 0x7f1234567890};
	struct ky_call_facts out = through(&facts);

	(void)state;
	assert_true(out.lock == 0x7f1234567890);
	assert_int_equal(out.bytes, -1);
	assert_int_equal(out.peer_port, 0);
}

static void call_facts__of_an_unknown_kind_have_none(void **state)
{
	struct ky_call_facts out;

	(void)state;
	ky_call_facts_dec(&out, UINT64_MAX, UINT64_MAX);
	assert_int_equal(out.fd_kind, KY_FD_UNKNOWN);
	assert_int_equal(out.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_facts__of_an_older_recorder_are_the_reason_alone),
		cmocka_unit_test(call_facts__come_back_as_they_were),
		cmocka_unit_test(call_facts__of_a_futex_have_its_address),
		cmocka_unit_test(call_facts__of_an_unknown_kind_have_none),
	};

	return cmocka_run_group_tests_name("call_facts", tests, NULL, NULL);
}
