/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/thread_counts.h>
#include <base/alloc.h>

#define SECOND UINT64_C(1000000000)

static struct ky_trace_thread_cpu reading(uint64_t second, uint32_t tid, uint64_t worker,
					  uint64_t cpu_ms, uint64_t delay_ms)
{
	return (struct ky_trace_thread_cpu){.time_ns = (second + 1) * SECOND,
					    .cpu_ns = cpu_ms * 1000000,
					    .run_delay_ns = delay_ms * 1000000,
					    .voluntary = second * 10,
					    .involuntary = second * 3,
					    .worker_id = worker,
					    .tid = tid};
}

static uint32_t make(struct ky_trace_thread_cpu *readings, uint32_t count, uint64_t from_ns,
		     uint64_t to_ns, struct ky_thread_count **out)
{
	struct ky_trace trace = {.thread_cpus = readings, .thread_cpu_count = count};
	uint32_t got;

	assert_int_equal(ky_thread_counts(&trace, from_ns, to_ns, out, &got), 0);
	return got;
}

static void counts__divide_the_time_between_readings(void **state)
{
	struct ky_trace_thread_cpu readings[] = {
		reading(0, 11, 1, 500, 10),  reading(0, 10, 0, 100, 0),
		reading(1, 11, 1, 600, 10),  reading(2, 10, 0, 400, 200),
		reading(3, 11, 1, 3700, 10), reading(3, 10, 0, 450, 250),
	};
	struct ky_thread_count *counts;

	(void)state;
	assert_int_equal(make(readings, 6, 0, 0, &counts), 2);
	assert_int_equal(counts[0].worker_id, 0);
	assert_true(counts[0].span_ns == 3 * SECOND);
	assert_int_equal(counts[0].cpu_ns, 350000000);
	assert_int_equal(counts[0].run_delay_ns, 250000000);
	assert_true(counts[0].blocked_ns == 2400000000);
	assert_true(counts[0].has_switches);
	assert_int_equal(counts[0].voluntary, 30);
	assert_int_equal(counts[0].involuntary, 9);
	assert_true(counts[0].apart_max_ns == 2 * SECOND);
	/* More CPU time than there was time: the kernel brought its counter up to date late. */
	assert_true(counts[1].cpu_ns == 3200000000);
	assert_int_equal(counts[1].blocked_ns, 900000000);
	ky_free(counts);
	assert_int_equal(make(readings, 6, 2 * SECOND, 4 * SECOND, &counts), 0);
	ky_free(counts);
}

static void counts__do_not_join_threads_or_workers(void **state)
{
	struct ky_trace_thread_cpu readings[] = {
		reading(0, 10, 0, 500, 0),
		reading(1, 10, 0, 100, 0), /* the number was given anew */
		reading(2, 10, 3, 200, 0),
		reading(3, 10, 3, 300, 0), /* it serves another worker now */
		reading(4, 10, 3, 400, 0),
	};
	struct ky_thread_count *counts;

	(void)state;
	readings[4].voluntary = readings[4].involuntary = UINT64_MAX;
	assert_int_equal(make(readings, 5, 0, 0, &counts), 1);
	assert_int_equal(counts[0].worker_id, 3);
	assert_true(counts[0].span_ns == 2 * SECOND);
	assert_int_equal(counts[0].cpu_ns, 200000000);
	assert_false(counts[0].has_switches);
	ky_free(counts);
	assert_int_equal(make(readings, 0, 0, 0, &counts), 0);
}

static void counts__no_moment_of_a_worker_twice(void **state)
{
	struct ky_trace_thread_cpu readings[] = {
		reading(0, 10, 0, 0, 0),      reading(0, 11, 0, 0, 0),
		reading(1, 11, 0, 700, 100),  reading(2, 10, 0, 900, 0),
		reading(2, 11, 0, 1400, 200), reading(3, 10, 255, 1000, 0),
		reading(4, 10, 255, 1100, 0),
	};
	struct ky_thread_count *counts;

	(void)state;
	assert_int_equal(make(readings, 7, 0, 0, &counts), 1);
	assert_int_equal(counts[0].worker_id, 0);
	assert_true(counts[0].span_ns == 2 * SECOND);
	assert_int_equal(counts[0].cpu_ns, 1400000000);
	assert_int_equal(counts[0].run_delay_ns, 200000000);
	assert_int_equal(counts[0].reading_count, 2);
	ky_free(counts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts__divide_the_time_between_readings),
		cmocka_unit_test(counts__no_moment_of_a_worker_twice),
		cmocka_unit_test(counts__do_not_join_threads_or_workers),
	};

	return cmocka_run_group_tests_name("thread_counts", tests, NULL, NULL);
}
