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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wake_format__fields_lie_where_the_kernel_says),
		cmocka_unit_test(wake_format__what_is_not_understood_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
