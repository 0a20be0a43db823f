/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <send/retry.h>

#define SECOND UINT64_C(1000000000)

/* An unknown key is 404 on one server and 403 on another: a person has to mend either. */
static void judge__decides_by_the_code(void **state)
{
	(void)state;
	assert_int_equal(ky_retry_judge(200, ""), KY_VERDICT_TAKEN);
	assert_int_equal(ky_retry_judge(404, "XAdminUserNotFound"), KY_VERDICT_DENIED);
	assert_int_equal(ky_retry_judge(403, "InvalidAccessKeyId"), KY_VERDICT_DENIED);
	assert_int_equal(ky_retry_judge(403, "RequestTimeTooSkewed"), KY_VERDICT_SKEW);
	assert_int_equal(ky_retry_judge(400, "ExpiredToken"), KY_VERDICT_REFRESH);
	assert_int_equal(ky_retry_judge(400, "RequestTimeout"), KY_VERDICT_AGAIN);
	assert_int_equal(ky_retry_judge(400, "BadDigest"), KY_VERDICT_AGAIN);
	assert_int_equal(ky_retry_judge(400, "KeyTooLongError"), KY_VERDICT_REFUSED);
	assert_int_equal(ky_retry_judge(412, ""), KY_VERDICT_EXISTS);
	assert_int_equal(ky_retry_judge(301, ""), KY_VERDICT_REDIRECT);
	assert_int_equal(ky_retry_judge(0, ""), KY_VERDICT_AGAIN);
	for (long status = 500; status < 600; status++)
		assert_int_equal(ky_retry_judge(status, ""), KY_VERDICT_AGAIN);
	for (long status = 400; status < 500; status++)
		assert_int_not_equal(ky_retry_judge(status, "Odd"), KY_VERDICT_TAKEN);
}

static void failed__waits_longer_each_time_up_to_five_minutes(void **state)
{
	struct ky_retry retry = {.random = 7};
	uint64_t now_ns = 5 * SECOND, least_ns, longest_ns = 0;

	(void)state;
	for (uint32_t i = 1; i <= 40; i++) {
		ky_retry_failed(&retry, KY_VERDICT_AGAIN, 0, now_ns);
		assert_true(retry.due_ns >= now_ns);
		assert_true(retry.due_ns - now_ns <= KY_RETRY_BREAKER_NS_MAX);
		least_ns = i > KY_RETRY_QUICK + 9 ? KY_RETRY_BREAKER_NS_MAX / 2 : 0;
		assert_true(retry.due_ns - now_ns >= least_ns);
		if (i <= KY_RETRY_QUICK)
			assert_true(retry.due_ns - now_ns <= KY_RETRY_CAP_NS);
		if (retry.due_ns - now_ns > longest_ns)
			longest_ns = retry.due_ns - now_ns;
		now_ns = retry.due_ns;
		assert_true(ky_retry_is_due(&retry, now_ns));
		assert_false(now_ns && ky_retry_is_due(&retry, now_ns - 1));
	}
	ky_retry_succeeded(&retry);
	assert_true(ky_retry_is_due(&retry, 0));
	ky_retry_failed(&retry, KY_VERDICT_AGAIN, 0, now_ns);
	assert_true(retry.due_ns - now_ns <= SECOND);
}

/* Once: a second time it is trouble that does not pass by itself. */
static void failed__tries_at_once_what_helps_at_once(void **state)
{
	static const enum ky_verdict verdicts[] = {KY_VERDICT_REFRESH, KY_VERDICT_SKEW,
						   KY_VERDICT_REDIRECT};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct ky_retry retry = {.random = 7};

		ky_retry_failed(&retry, verdicts[i], 0, SECOND);
		assert_int_equal(retry.due_ns, SECOND);
		ky_retry_failed(&retry, verdicts[i], 0, SECOND);
		assert_int_equal(retry.due_ns, SECOND + KY_RETRY_BREAKER_NS_MAX);
	}
}

static void failed__waits_as_long_as_the_server_asks(void **state)
{
	struct ky_retry retry = {.random = 7};

	(void)state;
	ky_retry_failed(&retry, KY_VERDICT_AGAIN, 17 * SECOND, SECOND);
	assert_int_equal(retry.due_ns, 18 * SECOND);
	ky_retry_failed(&retry, KY_VERDICT_AGAIN, 3600 * SECOND, SECOND);
	assert_int_equal(retry.due_ns, SECOND + KY_RETRY_BREAKER_NS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judge__decides_by_the_code),
		cmocka_unit_test(failed__waits_longer_each_time_up_to_five_minutes),
		cmocka_unit_test(failed__tries_at_once_what_helps_at_once),
		cmocka_unit_test(failed__waits_as_long_as_the_server_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
