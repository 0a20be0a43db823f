/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/resource_use.h>
#include <base/alloc.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define NONE KY_RESOURCE_NONE

static struct ky_trace_resource rows[64];
static struct ky_trace trace;
static struct ky_resource_use *use;

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	trace.resources = rows;
	use = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_free(use);
	return 0;
}

static uint64_t *add(uint64_t second, uint8_t kind, uint8_t scope)
{
	struct ky_trace_resource *row = &rows[trace.resource_count++];

	*row = (struct ky_trace_resource){
		.time_ns = second * SECOND, .kind = kind, .scope = scope, .address = KY_NONE};
	for (uint32_t i = 0; i < KY_RESOURCE_VALUES; i++)
		row->values[i] = NONE;
	return row->values;
}

static void make(uint64_t from, uint64_t to)
{
	ky_free(use);
	assert_int_equal(ky_resource_use(&trace, from * SECOND, to * SECOND, &use), 0);
	assert_non_null(use);
}

/* The last reading comes a ms after the one before it, and the kernel has counted a tick. */
static void use__a_rate_is_of_readings_that_are_far_enough_apart(void **state)
{
	(void)state;
	for (uint64_t second = 1; second <= 3; second++) {
		uint64_t *values = add(second, KY_RESOURCE_USAGE, 0);

		values[KY_USAGE_USER_NS] = second * SECOND / 100;
		values[KY_USAGE_SYSTEM_NS] = 0;
	}
	rows[2].time_ns = 2 * SECOND + SECOND / 1000;
	make(0, 0);
	assert_int_equal(use->cpu.sum, 2 * SECOND / 100);
	assert_int_equal(use->cpu.max_permille, 10);
}

static void use__sums_growth_between_readings(void **state)
{
	(void)state;
	for (uint64_t second = 1; second <= 5; second++) {
		uint64_t *values = add(second, KY_RESOURCE_USAGE, 0);

		values[KY_USAGE_USER_NS] = second * second * SECOND / 10;
		values[KY_USAGE_SYSTEM_NS] = second * SECOND / 10;
		values[KY_USAGE_RSS] = second == 3 ? 900 : 100 * second;
		values[KY_USAGE_VOLUNTARY] = second == 2 ? NONE : 7 * second;
	}
	make(0, 0);
	assert_int_equal(use->reading_count, 5);
	assert_true(use->from_ns == SECOND && use->to_ns == 5 * SECOND);
	assert_true(use->user.sum == 2400000000);
	assert_int_equal(use->system.sum, 400000000);
	assert_true(use->cpu.sum == 2800000000);
	assert_int_equal(use->cpu.max_permille, 1000); /* from the fourth to the fifth */
	assert_int_equal(use->rss.first, 100);
	assert_int_equal(use->rss.last, 500);
	assert_int_equal(use->rss.max, 900);
	assert_int_equal(use->voluntary.sum, 28);
	assert_true(use->major_faults.sum == NONE);
	assert_true(use->fds.max == NONE);
	assert_int_equal(use->findings, 0);
	/* A range: from the reading before it to the one after it. */
	trace.run_first_ns = SECOND;
	trace.run_last_ns = 5 * SECOND;
	make(2, 4);
	assert_int_equal(use->reading_count, 3);
	assert_int_equal(use->user.sum, 1200000000);
	make(9, 9);
	assert_int_equal(use->reading_count, 1);
}

static void use__of_several_processes_is_none(void **state)
{
	(void)state;
	add(1, KY_RESOURCE_USAGE, 0);
	trace.has_processes = true;
	assert_int_equal(ky_resource_use(&trace, 0, 0, &use), 0);
	assert_null(use);
	trace.has_processes = false;
	trace.resource_count = 0;
	assert_int_equal(ky_resource_use(&trace, 0, 0, &use), 0);
	assert_null(use);
}

static void use__counters_that_begin_anew_are_not_growth(void **state)
{
	(void)state;
	add(1, KY_RESOURCE_DROPS, 0)[0] = 50;
	add(2, KY_RESOURCE_DROPS, 0)[0] = 60;
	add(3, KY_RESOURCE_DROPS, 0)[0] = 5;
	add(4, KY_RESOURCE_DROPS, 0)[0] = 6;
	make(0, 0);
	assert_int_equal(use->overflows.sum, 11);
	assert_true(use->drops.sum == NONE);
}

static void add_group(uint64_t second, uint8_t level, uint64_t throttled, uint64_t limit,
		      uint64_t memory, uint64_t memory_limit)
{
	uint64_t *values = add(second, KY_RESOURCE_CGROUP, level);

	values[KY_CGROUP_THROTTLED_NS] = throttled;
	values[KY_CGROUP_PERIODS] = throttled == NONE ? NONE : 10 * second;
	values[KY_CGROUP_THROTTLED_PERIODS] = throttled == NONE ? NONE : throttled / 10;
	values[KY_CGROUP_CPU_LIMIT_NS] = limit;
	values[KY_CGROUP_MEMORY] = memory;
	values[KY_CGROUP_MEMORY_LIMIT] = memory_limit;
}

static void group__tightest_limit_of_all_levels_counts(void **state)
{
	(void)state;
	for (uint64_t second = 1; second <= 2; second++) {
		add_group(second, 0, 100 * second, 2 * SECOND, 50, 1000);
		add_group(second, 1, 1000 * second, SECOND, 950, 1000);
		add_group(second, 2, NONE, NONE, 5000, NONE);
	}
	make(0, 0);
	assert_int_equal(use->group.throttled.sum, 1000);
	assert_int_equal(use->group.throttled_periods.sum, 100);
	assert_int_equal(use->group.periods.sum, 10);
	assert_int_equal(use->group.cpu_limit.last, SECOND);
	assert_int_equal(use->group.memory.max, 950);
	assert_int_equal(use->group.memory_limit.last, 1000);
	assert_int_equal(use->findings, 1u << KY_FOUND_THROTTLED | 1u << KY_FOUND_MEMORY_LIMIT);
}

static void group__without_limits_finds_nothing(void **state)
{
	(void)state;
	add_group(1, 0, 0, NONE, 500, NONE);
	add_group(2, 0, 0, NONE, 600, NONE);
	make(0, 0);
	assert_int_equal(use->group.throttled.sum, 0);
	assert_int_equal(use->group.memory.max, 600);
	assert_true(use->group.memory_limit.last == NONE);
	assert_int_equal(use->findings, 0);
}

static void findings__each_by_itself(void **state)
{
	uint64_t *values;

	(void)state;
	/* The CPU limit of half a core, used up to 95 %. */
	add_group(1, 0, 0, SECOND / 2, NONE, NONE);
	add(1, KY_RESOURCE_USAGE, 0)[KY_USAGE_MAJOR_FAULTS] = 0;
	add_group(2, 0, 0, SECOND / 2, NONE, NONE);
	values = add(2, KY_RESOURCE_USAGE, 0);
	rows[1].values[KY_USAGE_USER_NS] = rows[1].values[KY_USAGE_SYSTEM_NS] = 0;
	values[KY_USAGE_USER_NS] = SECOND / 4;
	values[KY_USAGE_SYSTEM_NS] = SECOND / 4 - SECOND / 40;
	values[KY_USAGE_MAJOR_FAULTS] = 9;
	make(0, 0);
	assert_int_equal(use->findings, 1u << KY_FOUND_CPU_LIMIT);
	values[KY_USAGE_USER_NS] = SECOND / 10;
	values[KY_USAGE_MAJOR_FAULTS] = 10;
	make(0, 0);
	assert_int_equal(use->findings, 1u << KY_FOUND_MAJOR_FAULTS);
	values[KY_USAGE_MAJOR_FAULTS] = 0;
	values[KY_USAGE_FDS] = 900;
	values[KY_USAGE_FD_LIMIT] = 1000;
	make(0, 0);
	assert_int_equal(use->findings, 1u << KY_FOUND_DESCRIPTORS);
	values[KY_USAGE_FDS] = 899;
	make(0, 0);
	assert_int_equal(use->findings, 0);
}

static void pressure__worst_time_between_two_readings(void **state)
{
	uint64_t second, *values;

	(void)state;
	for (second = 1; second <= 3; second++) {
		values = add(second, KY_RESOURCE_PRESSURE, 0);
		values[KY_PRESSURE_CPU_SOME] = second == 3 ? SECOND / 5 : 0;
		values[KY_PRESSURE_MEMORY_SOME] = 0;
		add(second, KY_RESOURCE_PRESSURE, 1)[KY_PRESSURE_IO_SOME] = second * SECOND / 10;
	}
	make(0, 0);
	assert_int_equal(use->pressure[0][KY_PRESSURE_CPU_SOME].sum, SECOND / 5);
	assert_int_equal(use->pressure[0][KY_PRESSURE_CPU_SOME].max_permille, 200);
	assert_int_equal(use->pressure[1][KY_PRESSURE_IO_SOME].max_permille, 100);
	assert_true(use->pressure[1][KY_PRESSURE_CPU_SOME].sum == NONE);
	/* Others wait: no cause here, unless this process waits, too. */
	assert_int_equal(use->findings, 0);
	assert_true(use->own_delay_permille == NONE);
}

static void pressure__is_a_cause_where_the_process_itself_waits(void **state)
{
	struct ky_trace_thread_cpu readings[] = {
		{.time_ns = SECOND, .cpu_ns = 0, .run_delay_ns = 0, .tid = 7},
		{.time_ns = 3 * SECOND, .cpu_ns = 970, .run_delay_ns = 30, .tid = 7},
	};

	(void)state;
	for (uint64_t second = 1; second <= 3; second++)
		add(second, KY_RESOURCE_PRESSURE, 0)[KY_PRESSURE_CPU_SOME] = second * SECOND / 2;
	trace.thread_cpus = readings;
	trace.thread_cpu_count = 2;
	make(0, 0);
	assert_int_equal(use->own_delay_permille, 30);
	assert_int_equal(use->findings, 0);
	readings[1].run_delay_ns = 970;
	make(0, 0);
	assert_int_equal(use->own_delay_permille, 500);
	assert_int_equal(use->findings, 1u << KY_FOUND_CPU_PRESSURE);
}

static uint64_t *add_queue(uint64_t second, uint64_t inode, uint64_t pending, uint64_t dropped)
{
	uint64_t *values = add(second, KY_RESOURCE_LISTENER, 4);

	values[KY_LISTENER_COOKIE] = 0;
	values[KY_LISTENER_INODE] = inode;
	values[KY_LISTENER_PORT] = 80;
	values[KY_LISTENER_PENDING] = pending;
	values[KY_LISTENER_LIMIT] = 128;
	values[KY_LISTENER_DROPS] = dropped;
	return values;
}

static void queues__are_distinguished_and_full_at_their_limit(void **state)
{
	(void)state;
	add_queue(1, 5, 0, 0);
	add_queue(1, 6, 127, 4);
	add_queue(2, 5, 128, 0);
	add_queue(2, 6, 3, 4);
	make(0, 0);
	assert_int_equal(use->queue_count, 2);
	assert_int_equal(use->queues[0].pending.max, 128);
	assert_true(use->queues[0].full_ns == 2 * SECOND);
	assert_int_equal(use->queues[1].pending.max, 127);
	assert_int_equal(use->queues[1].full_ns, 0);
	assert_int_equal(use->queues[1].dropped.sum, 0);
	assert_int_equal(use->findings, 1u << KY_FOUND_QUEUE_FULL);
	rows[2].values[KY_LISTENER_PENDING] = 0;
	make(0, 0);
	assert_int_equal(use->findings, 0);
	rows[3].values[KY_LISTENER_DROPS] = 5;
	make(0, 0);
	assert_int_equal(use->queues[1].dropped.sum, 1);
	assert_int_equal(use->findings, 1u << KY_FOUND_QUEUE_FULL);
}

static void queues__of_each_length_last_until_the_next_row(void **state)
{
	(void)state;
	add_queue(1, 5, 0, 0);
	add_queue(3, 5, 2, 0);
	add_queue(4, 5, 1, 0);
	add_queue(6, 5, 0, 0);
	add_queue(9, 5, 0, 0);
	make(0, 0);
	assert_true(use->queues[0].waited_ns == (2 * 1 + 1 * 2) * SECOND);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(use__a_rate_is_of_readings_that_are_far_enough_apart),
		CASE(use__sums_growth_between_readings),
		CASE(use__of_several_processes_is_none),
		CASE(use__counters_that_begin_anew_are_not_growth),
		CASE(group__tightest_limit_of_all_levels_counts),
		CASE(group__without_limits_finds_nothing),
		CASE(findings__each_by_itself),
		CASE(pressure__worst_time_between_two_readings),
		CASE(pressure__is_a_cause_where_the_process_itself_waits),
		CASE(queues__are_distinguished_and_full_at_their_limit),
		CASE(queues__of_each_length_last_until_the_next_row),
	};

	return cmocka_run_group_tests_name("resource_use", tests, NULL, NULL);
}
