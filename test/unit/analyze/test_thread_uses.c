/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/thread_uses.h>
#include <base/alloc.h>

#define SECOND UINT64_C(1000000000)

static struct ky_trace_thread_use reading(uint64_t second, uint32_t tid, uint64_t cpu_ns,
					  uint64_t delay_ns)
{
	return (struct ky_trace_thread_use){.time_ns = second * SECOND,
					    .cpu_ns = cpu_ns,
					    .run_delay_ns = delay_ns,
					    .name = tid,
					    .tid = tid};
}

static uint32_t make(struct ky_trace *trace, uint64_t from, uint64_t to, struct ky_thread_use **out)
{
	uint32_t count;

	assert_int_equal(ky_thread_uses(trace, from * SECOND, to * SECOND, out, &count), 0);
	return count;
}

static void uses__are_growth_from_the_first_reading_on(void **state)
{
	struct ky_trace_thread_use list[] = {
		reading(1, 20, 1000, 10), reading(1, 21, 50, 0),   reading(2, 20, 1500, 30),
		reading(2, 22, 700, 5), /* began after the first reading */
		reading(3, 20, 1600, 30), reading(3, 22, 9000, 6),
	};
	struct ky_trace_thread_cpu worker = {.tid = 21};
	struct ky_trace trace = {.thread_uses = list,
				 .thread_use_count = 6,
				 .thread_cpus = &worker,
				 .thread_cpu_count = 1};
	struct ky_thread_use *uses;

	(void)state;
	assert_int_equal(make(&trace, 0, 0, &uses), 2);
	assert_int_equal(uses[0].tid, 22);
	assert_int_equal(uses[0].cpu_ns, 9000);
	assert_int_equal(uses[0].run_delay_ns, 6);
	assert_int_equal(uses[1].tid, 20);
	assert_int_equal(uses[1].cpu_ns, 600);
	assert_int_equal(uses[1].run_delay_ns, 20);
	ky_free(uses);
	/* Within a range alone its growth. */
	assert_int_equal(make(&trace, 2, 3, &uses), 2);
	assert_int_equal(uses[0].cpu_ns, 8300);
	assert_int_equal(uses[1].cpu_ns, 100);
	ky_free(uses);
}

static void uses__of_another_thread_under_the_same_number_begin_anew(void **state)
{
	struct ky_trace_thread_use list[] = {reading(1, 20, 1000, 10), reading(2, 20, 30, 0),
					     reading(3, 20, 80, 1)};
	struct ky_trace trace = {.thread_uses = list, .thread_use_count = 3};
	struct ky_thread_use *uses;

	(void)state;
	assert_int_equal(make(&trace, 0, 0, &uses), 1);
	assert_int_equal(uses[0].cpu_ns, 50);
	ky_free(uses);
	trace.has_processes = true;
	assert_int_equal(make(&trace, 0, 0, &uses), 0);
	assert_null(uses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uses__are_growth_from_the_first_reading_on),
		cmocka_unit_test(uses__of_another_thread_under_the_same_number_begin_anew),
	};

	return cmocka_run_group_tests_name("thread_uses", tests, NULL, NULL);
}
