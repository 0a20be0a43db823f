/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <probe/wake_format.h>

#define HEAD                                                                                       \
	"name: sched_waking\nID: 375\nformat:\n"                                                   \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"                               \
	"\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"

static void wake_format__fields_lie_where_the_kernel_says(void **state)
{
	struct ky_wake_format format;

	(void)state;
	assert_true(ky_wake_format_parse(&format, HEAD
					 "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\n"
					 "print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n"));
	assert_int_equal(format.id, 375);
	assert_int_equal(format.flags_at, 2);
	assert_int_equal(format.pid_at, 24);
	assert_int_equal(format.bytes, 28);
}

static void wake_format__what_is_not_understood_is_refused(void **state)
{
	struct ky_wake_format format;

	(void)state;
	assert_false(ky_wake_format_parse(&format, ""));
	assert_false(ky_wake_format_parse(&format, "name: sched_waking\nID: 375\n"));
	/* Only common_pid has these letters; another size; a place beyond any record. */
	assert_false(ky_wake_format_parse(&format, HEAD));
	assert_false(ky_wake_format_parse(&format, HEAD
					  "\tfield:pid_t pid;\toffset:24;\tsize:8;\tsigned:1;\n"));
	assert_false(ky_wake_format_parse(
		&format, HEAD "\tfield:pid_t pid;\toffset:99999;\tsize:4;\tsigned:1;\n"));
	assert_false(ky_wake_format_parse(&format, HEAD "\tfield:pid_t pid"));
}

#define SWITCH_HEAD                                                                                \
	"name: sched_switch\nID: 372\nformat:\n"                                                   \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"                               \
	"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"                            \
	"\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"                                \
	"\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
#define NEXT "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"

static void wake_format__of_switches_has_who_goes_and_who_comes(void **state)
{
	struct ky_switch_format format;

	(void)state;
	assert_true(ky_switch_format_parse(
		&format, SWITCH_HEAD "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
				     "\tfield:char next_comm[16];\toffset:40;\tsize:16;\n" NEXT));
	assert_int_equal(format.id, 372);
	assert_int_equal(format.prev_at, 24);
	assert_int_equal(format.state_at, 32);
	assert_int_equal(format.next_at, 56);
	assert_int_equal(format.bytes, 60);
	assert_false(ky_switch_format_parse(&format, SWITCH_HEAD NEXT));
	assert_false(ky_switch_format_parse(
		&format,
		SWITCH_HEAD "\tfield:long prev_state;\toffset:32;\tsize:4;\tsigned:1;\n" NEXT));
	assert_false(ky_switch_format_parse(&format, SWITCH_HEAD
					    "\tfield:long prev_state;\toffset:32;\tsize:8;\n"));
	assert_false(ky_switch_format_parse(
		&format, SWITCH_HEAD "\tfield:long prev_state;\toffset:1020;\tsize:8;\n" NEXT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wake_format__fields_lie_where_the_kernel_says),
		cmocka_unit_test(wake_format__what_is_not_understood_is_refused),
		cmocka_unit_test(wake_format__of_switches_has_who_goes_and_who_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
