/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../read/read_case.h"

#include <errno.h>
#include <report/call_text.h>
#include <report/errno_name.h>
#include <string.h>
#include <sys/syscall.h>

static struct read_case c;

static void expect(const struct ky_stack_profile_calls *calls, uint8_t reason, uint64_t count,
		   const char *expected)
{
	char cell[KY_CALL_TEXT_BYTES];

	assert_string_equal(ky_call_text(cell, c.trace, reason, SYS_read, calls, count), expected);
}

static int set_up(void **state)
{
	(void)state;
	case_begin(&c);
	case_open(&c);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static void call_text__of_what_is_not_known_is_the_reason(void **state)
{
	struct ky_stack_profile_calls calls = {0};

	(void)state;
	expect(&calls, KY_WAIT_CALL, 3, "read");
	expect(&calls, KY_WAIT_FAULT, 3, "page fault");
	calls.fd_kind = 3;
	expect(&calls, KY_WAIT_CALL, 3, "read, a pipe");
}

/* Connections of a server have its port, and those to one the other's. */
static void call_text__has_the_port_that_means_something(void **state)
{
	struct ky_stack_profile_calls calls = {.fd_kind = KY_FD_KIND_TCP,
					       .peer_port_count = 1,
					       .peer_ports = {5432},
					       .local_port = 40000};

	(void)state;
	expect(&calls, KY_WAIT_CALL, 1, "read, TCP from port 40000 to port 5432");
	calls.local_port = 0; /* several */
	expect(&calls, KY_WAIT_CALL, 2, "read, TCP to port 5432");
	calls.peer_port_count = 2;
	calls.peer_ports[1] = 6379;
	calls.has_more_peer_ports = true;
	expect(&calls, KY_WAIT_CALL, 9, "read, TCP to ports 5432, 6379 and others");
	calls.local_port = 8080;
	expect(&calls, KY_WAIT_CALL, 9, "read, TCP at port 8080");
}

static void call_text__says_how_many_failed(void **state)
{
	struct ky_stack_profile_calls calls = {
		.fd_kind = 1, .failed_count = 1, .error_count = 1, .errors = {ETIMEDOUT}};

	(void)state;
	expect(&calls, KY_WAIT_CALL, 1, "read, a file, failed: ETIMEDOUT");
	expect(&calls, KY_WAIT_CALL, 4, "read, a file, 1 of 4 failed: ETIMEDOUT");
	calls.failed_count = 4;
	calls.error_count = 2;
	calls.errors[1] = 4000;
	expect(&calls, KY_WAIT_CALL, 4, "read, a file, all failed: ETIMEDOUT, error 4000");
}

static void call_text__never_outgrows_its_cell(void **state)
{
	struct ky_stack_profile_calls calls = {.fd_kind = 255,
					       .peer_port_count = 3,
					       .error_count = 3,
					       .has_more_errors = true,
					       .failed_count = UINT64_MAX - 1,
					       .errors = {65535, 65534, 65533}};
	char cell[KY_CALL_TEXT_BYTES];

	(void)state;
	ky_call_text(cell, c.trace, KY_WAIT_CALL, 4000000000u, &calls, UINT64_MAX);
	assert_true(strlen(cell) < sizeof(cell));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(call_text__of_what_is_not_known_is_the_reason),
		CASE(call_text__has_the_port_that_means_something),
		CASE(call_text__says_how_many_failed),
		CASE(call_text__never_outgrows_its_cell),
	};

	return cmocka_run_group_tests_name("call_text", tests, NULL, NULL);
}
