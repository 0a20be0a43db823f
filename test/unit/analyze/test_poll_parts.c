/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/poll_parts.h>
#include <string.h>

#define MS UINT64_C(1000000)

static struct ky_trace_poll_cost costs[3];
static struct ky_worker workers[2];
static struct ky_trace trace;
static struct ky_poll_parts parts;

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	memset(workers, 0, sizeof(workers));
	workers[0].id = 10;
	workers[1].id = 11;
	trace.workers = workers;
	trace.worker_count = 2;
	trace.poll_costs = costs;
	trace.poll_cost_count = 3;
	for (uint32_t i = 0; i < 3; i++) {
		costs[i] = (struct ky_trace_poll_cost){.start_ns = i < 2 ? 100 * MS : 200 * MS,
						       .worker_id = i < 2 ? 10 + i : 10};
		for (uint32_t value = 0; value < KY_COST_VALUES; value++)
			costs[i].values[value] = UINT64_MAX;
	}
	return 0;
}

static bool find(uint32_t worker, uint64_t start_ns, uint64_t duration_ns)
{
	const struct ky_poll poll = {
		.worker = worker, .start_ns = start_ns, .duration_ns = duration_ns};

	return ky_poll_parts(&trace, &poll, &parts);
}

static void parts__are_those_of_the_poll(void **state)
{
	(void)state;
	costs[1].cpu_ns = 6 * MS;
	costs[1].values[KY_COST_DELAY_NS] = 3 * MS;
	assert_true(find(1, 100 * MS, 10 * MS));
	assert_ptr_equal(parts.cost, &costs[1]);
	assert_int_equal(parts.cpu_ns, 6 * MS);
	assert_int_equal(parts.delay_ns, 3 * MS);
	assert_int_equal(parts.blocked_ns, MS);
	assert_int_equal(parts.unsure_ns, 0);
	assert_false(find(1, 200 * MS, 10 * MS));
	assert_false(find(1, 100 * MS + 1, 10 * MS));
	assert_false(find(7, 100 * MS, 10 * MS));
}

/* The kernel's counters and our stamps are not of one moment. */
static void parts__never_exceed_the_duration(void **state)
{
	(void)state;
	costs[0].cpu_ns = 11 * MS;
	costs[0].values[KY_COST_DELAY_NS] = 5 * MS;
	assert_true(find(0, 100 * MS, 10 * MS));
	assert_int_equal(parts.cpu_ns, 10 * MS);
	assert_int_equal(parts.delay_ns, 0);
	assert_int_equal(parts.blocked_ns, 0);
}

static void parts__of_a_poll_on_cpu_are_exact(void **state)
{
	(void)state;
	costs[0].is_on_cpu = true;
	costs[0].gap_ns = 9 * MS;
	assert_true(find(0, 100 * MS, 10 * MS));
	assert_int_equal(parts.cpu_ns, 10 * MS);
	assert_int_equal(parts.delay_ns, 0);
	assert_int_equal(parts.unsure_ns, 0);
}

static void parts__say_what_is_not_known(void **state)
{
	(void)state;
	costs[0].cpu_ns = 4 * MS;
	costs[0].gap_ns = 300000;
	assert_true(find(0, 100 * MS, 10 * MS));
	assert_true(parts.delay_ns == UINT64_MAX && parts.blocked_ns == UINT64_MAX);
	assert_int_equal(parts.off_ns, 6 * MS);
	assert_int_equal(parts.unsure_ns, 300000);
	/* 2 % of the duration. */
	assert_true(find(0, 100 * MS, 15 * MS));
	assert_int_equal(parts.unsure_ns, 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup(fn, setup)
	const struct CMUnitTest tests[] = {
		CASE(parts__are_those_of_the_poll),
		CASE(parts__never_exceed_the_duration),
		CASE(parts__of_a_poll_on_cpu_are_exact),
		CASE(parts__say_what_is_not_known),
	};

	return cmocka_run_group_tests_name("poll_parts", tests, NULL, NULL);
}
