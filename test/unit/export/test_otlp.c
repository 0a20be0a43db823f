/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whatever allocation fails, the error is told and nothing is lost; what the bytes say is
 * test/cli/test_otlp.py's. */
#include "../read/read_case.h"

#include "../../lib/alloc_fail.h"
#include <analyze/stack_profile.h>
#include <errno.h>
#include <export/otlp.h>

#define MS UINT64_C(1000000)

struct made {
	struct read_case c;
	struct ky_report *report;
	struct ky_stack_profile *profile;
	struct ky_findings *findings;
	struct ky_otlp otlp;
};

static void make(struct made *made)
{
	const struct ky_report_options options = {.worst_count = KY_REPORT_WORST_MAX};

	memset(made, 0, sizeof(*made));
	case_begin(&made->c);
	for (uint64_t i = 0; i < 40; i++) {
		case_wake(&made->c, (10 + 10 * i) * MS, 9, 7 + i % 3, 0);
		case_poll(&made->c, (11 + 10 * i) * MS, (13 + 10 * i) * MS, 0, 7 + i % 3);
	}
	case_loss(&made->c, 5, 420 * MS, 430 * MS);
	case_open(&made->c);
	assert_int_equal(ky_report_make(&made->report, made->c.trace, &options), 0);
	assert_int_equal(
		ky_stack_profile_make(&made->profile, made->c.trace, made->report, NULL, NULL), 0);
	assert_int_equal(ky_findings_make(&made->findings, made->c.trace, made->report,
					  made->profile, NULL),
			 0);
	made->otlp = (struct ky_otlp){
		.trace = made->c.trace, .report = made->report, .findings = made->findings};
}

static void finish(struct made *made)
{
	ky_findings_free(made->findings);
	ky_stack_profile_free(made->profile);
	ky_report_free(made->report);
	case_finish(&made->c);
}

static void otlp__says_that_memory_is_out(void **state)
{
	static int (*const encoders[])(struct ky_buf * out,
				       struct ky_otlp * otlp) = {ky_otlp_metrics, ky_otlp_traces};
	struct made made;

	(void)state;
	make(&made);
	for (size_t i = 0; i < sizeof(encoders) / sizeof(encoders[0]); i++) {
		int result = -1;

		for (uint64_t n = 0; result; n++) {
			struct ky_buf out;

			ky_buf_init(&out, 0);
			test_alloc_fail_at(n);
			result = encoders[i](&out, &made.otlp);
			test_alloc_normal();
			assert_true(result == 0 || result == -ENOMEM);
			assert_true(result || out.used > 100);
			assert_in_range(n, 0, 1000);
			ky_buf_release(&out);
		}
	}
	assert_int_equal(made.otlp.poll_count, 40);
	assert_int_equal(made.otlp.slow_count, 40);
	assert_int_equal(made.otlp.poll_spans, 40);
	finish(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(otlp__says_that_memory_is_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
