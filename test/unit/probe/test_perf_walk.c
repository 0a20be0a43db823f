/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A sample of perf_event as it lies in the sample area: its words, the kernel's frames, the first
 * frame of the program. Walks by tables: test_unwind_walk.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/sample_list.h"

#include <probe/perf_walk.h>
#include <string.h>

#define KERNEL UINT64_C(0xffffffff81000010)
#define PC UINT64_C(0x555500001234)
#define SP UINT64_C(0x7ffd00001000)

static const struct ky_unwind_view no_tables = {NULL, 0};
static struct sample_list list;
static struct listed_sample listed;
static uint64_t kernel[KY_SAMPLE_FRAMES_MAX];
static const uint64_t stack[2] = {1, 2};
static struct ky_perf_sample sample;

static int setup(void **state)
{
	(void)state;
	sample_list_open(&list);
	for (uint32_t i = 0; i < KY_SAMPLE_FRAMES_MAX; i++)
		kernel[i] = KERNEL + 16 * i;
	sample = (struct ky_perf_sample){.pid = 4000,
					 .tid = 4001,
					 .cpu = 3,
					 .ns = 5000000000,
					 .period_ns = 10000000,
					 .kernel = kernel,
					 .kernel_count = 2,
					 .has_registers = true,
					 .pc = PC,
					 .sp = SP,
					 .fp = SP - 8, /* none of this stack */
					 .stack = (const uint8_t *)stack,
					 .stack_bytes = sizeof(stack)};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sample_list_close(&list);
	return 0;
}

static void put(void)
{
	ky_perf_put(&list.ring, &no_tables, &sample);
	assert_true(sample_list_next(&list, &listed));
}

static void put__has_thread_cpu_stamp_and_time(void **state)
{
	(void)state;
	put();
	assert_int_equal(listed.sample.kind, KY_SAMPLE_CPU);
	assert_int_equal(listed.sample.tid, 4001);
	assert_int_equal(listed.sample.cpu, 3);
	assert_int_equal(listed.sample.stamp, 5000000000);
	assert_int_equal(listed.sample.value, 10000000);
	assert_int_equal(listed.sample.other, KY_SOURCE_PERF);
	assert_int_equal(listed.sample.syscall, -1);
	/* Without tables it is where it stands, and no more. */
	assert_int_equal(listed.sample.flags,
			 KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_CPU | KY_SAMPLE_TRUNCATED);
}

/* The innermost as it stands, callers by the address that they return to, less 1. */
static void put__has_the_kernels_frames_first(void **state)
{
	(void)state;
	put();
	assert_int_equal(listed.sample.frame_count, 3);
	assert_true(listed.frames[0] == KERNEL);
	assert_true(listed.frames[1] == KERNEL + 16 - 1);
	assert_true(listed.frames[2] == PC);
}

/* Half of the room at most, so that the program's are there, too. */
static void put__leaves_room_for_the_program(void **state)
{
	(void)state;
	sample.kernel_count = KY_SAMPLE_FRAMES_MAX;
	put();
	assert_int_equal(listed.sample.frame_count, KY_SAMPLE_FRAMES_MAX / 2 + 1);
	assert_true(listed.frames[KY_SAMPLE_FRAMES_MAX / 2] == PC);
}

/* A thread of the kernel; or a stack that cannot lie there. */
static void put__walks_nothing_without_registers(void **state)
{
	(void)state;
	sample.has_registers = false;
	put();
	assert_int_equal(listed.sample.frame_count, 2);
	assert_true(listed.sample.flags & KY_SAMPLE_TRUNCATED);
	sample.has_registers = true;
	sample.sp = UINT64_MAX - 7;
	put();
	assert_int_equal(listed.sample.frame_count, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(put__has_thread_cpu_stamp_and_time),
		CASE(put__has_the_kernels_frames_first),
		CASE(put__leaves_room_for_the_program),
		CASE(put__walks_nothing_without_registers),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
