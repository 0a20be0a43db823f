/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Notes over any length of time: few, even, the first and the latest among them. */
#include "../../lib/cmocka_all.h"

#include <watch/stuck_log.h>
#include <string.h>

static struct ky_stuck_logs logs;
static struct ky_stuck_note out[KY_STUCK_NOTES];

static void add(uint32_t thread, uint64_t begin, uint64_t ns)
{
	struct ky_stuck_note note = {.monotonic_ns = ns, .tid = thread};

	ky_stuck_logs_add(&logs, thread, begin, &note);
}

/* For every number of notes: in order, the ends kept, no gap more than four times the mean. */
static void log__covers_the_whole_time(void **state)
{
	(void)state;
	memset(&logs, 0, sizeof(logs));
	for (uint64_t i = 1; i <= 20000; i++) {
		size_t count;

		add(1, 5, i);
		if (i > 300 && i % 97)
			continue;
		count = ky_stuck_logs_get(&logs, 1, 5, 0, out, KY_STUCK_NOTES);
		assert_in_range(count, i < 32 ? i : 32, i < 64 ? i : 64);
		assert_int_equal(out[0].monotonic_ns, 1);
		assert_int_equal(out[count - 1].monotonic_ns, i);
		for (size_t k = 1; k < count; k++)
			assert_in_range(out[k].monotonic_ns - out[k - 1].monotonic_ns, 1,
					4 * i / count + 1);
	}
}

static void log__each_poll_has_its_share(void **state)
{
	size_t count, of[9] = {0};

	(void)state;
	memset(&logs, 0, sizeof(logs));
	for (uint64_t i = 1; i <= 400; i++)
		add(1 + (uint32_t)(i % 8), 5, i);
	count = ky_stuck_logs_get(&logs, 0, 0, 0, out, KY_STUCK_NOTES);
	assert_int_equal(count, KY_STUCK_NOTES);
	for (size_t k = 0; k < count; k++) {
		of[out[k].tid]++;
		assert_true(!k || out[k - 1].monotonic_ns < out[k].monotonic_ns);
	}
	for (uint32_t i = 1; i <= 8; i++)
		assert_int_equal(of[i], 8);
	/* Only what is new. */
	count = ky_stuck_logs_get(&logs, 0, 0, 399, out, KY_STUCK_NOTES);
	assert_int_equal(count, 2);
	assert_int_equal(ky_stuck_logs_get(&logs, 0, 0, 401, out, KY_STUCK_NOTES), 0);
	assert_int_equal(ky_stuck_logs_get(&logs, 3, 6, 0, out, KY_STUCK_NOTES), 0);
}

static void log__replaces_the_thread_silent_for_longest(void **state)
{
	(void)state;
	memset(&logs, 0, sizeof(logs));
	for (uint32_t i = 0; i < KY_STUCK_LOGS; i++)
		add(1 + i, 5, 100 + i);
	add(1, 5, 200);
	add(99, 5, 201); /* thread 2 was silent for the longest time */
	assert_int_equal(ky_stuck_logs_get(&logs, 1, 5, 0, out, KY_STUCK_NOTES), 2);
	assert_int_equal(ky_stuck_logs_get(&logs, 2, 5, 0, out, KY_STUCK_NOTES), 0);
	assert_int_equal(ky_stuck_logs_get(&logs, 3, 5, 0, out, KY_STUCK_NOTES), 1);
	assert_int_equal(ky_stuck_logs_get(&logs, 99, 5, 0, out, KY_STUCK_NOTES), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log__covers_the_whole_time),
		cmocka_unit_test(log__each_poll_has_its_share),
		cmocka_unit_test(log__replaces_the_thread_silent_for_longest),
	};

	return cmocka_run_group_tests_name("stuck_log", tests, NULL, NULL);
}
