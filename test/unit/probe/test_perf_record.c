/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records of perf_event, word for word as the kernel lays them out. */
#include "../../lib/cmocka_all.h"

#include <probe/perf_record.h>
#include <string.h>

#define PID 4000u
#define TID 4001u
#define NS UINT64_C(5000000000)
#define STACK_WORDS 4u

static uint64_t words[128];

static const struct perf_event_header *record_of(uint32_t type, uint32_t misc, uint32_t count)
{
	const struct perf_event_header parts = {type, (uint16_t)misc, (uint16_t)(count * 8)};

	memcpy(words, &parts, sizeof(parts));
	return (const void *)words;
}

static uint32_t put_words(uint32_t at, const uint64_t *list, uint32_t count)
{
	memcpy(words + at, list, count * sizeof(*list));
	return at + count;
}

/* Everything that is asked for, with two frames of the kernel after their mark. */
static uint32_t fill_sample(void)
{
	const uint64_t list[] = {PID | (uint64_t)TID << 32,
				 NS,
				 3, /* CPU */
				 10000000,
				 3, /* frames */
				 (uint64_t)PERF_CONTEXT_KERNEL,
				 0xffffffff81000010u,
				 0xffffffff81000020u,
				 PERF_SAMPLE_REGS_ABI_64,
				 11,
				 12,
				 13,
				 14,
				 STACK_WORDS * 8,
				 21,
				 22,
				 23,
				 24,
				 16}; /* bytes of the stack that could be read */

	return put_words(1, list, sizeof(list) / sizeof(list[0]));
}

static void sample__has_each_word_where_the_kernel_puts_it(void **state)
{
	struct ky_perf_sample sample;
	uint32_t count = fill_sample();

	(void)state;
	ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
	assert_int_equal(sample.pid, PID);
	assert_int_equal(sample.tid, TID);
	assert_int_equal(sample.ns, NS);
	assert_int_equal(sample.cpu, 3);
	assert_int_equal(sample.period_ns, 10000000);
	assert_int_equal(sample.kernel_count, 2);
	assert_int_equal(sample.kernel[0], 0xffffffff81000010u);
	assert_true(sample.has_registers);
#if defined(__x86_64__)
	assert_int_equal(sample.second, 11);
	assert_int_equal(sample.fp, 12);
#else
	assert_int_equal(sample.fp, 11);
	assert_int_equal(sample.second, 12);
#endif
	assert_int_equal(sample.sp, 13);
	assert_int_equal(sample.pc, 14);
	/* As much as was read, not as much as there is room for. */
	assert_int_equal(sample.stack_bytes, 16);
	assert_int_equal(((const uint64_t *)(const void *)sample.stack)[1], 22);
}

static void sample__of_a_thread_of_the_kernel_has_no_registers(void **state)
{
	const uint64_t list[] = {PID, NS, 0, 1, 0, PERF_SAMPLE_REGS_ABI_NONE, 0};
	struct ky_perf_sample sample;
	uint32_t count = put_words(1, list, 7);

	(void)state;
	ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
	assert_int_equal(sample.kernel_count, 0);
	assert_false(sample.has_registers);
	assert_int_equal(sample.stack_bytes, 0);
	assert_null(sample.stack);
}

/* Cut after each of its words: nothing outside of it is read, which the sanitizers watch. */
static void sample__survives_truncation_anywhere(void **state)
{
	uint32_t whole = fill_sample();
	uint64_t copy[128];

	(void)state;
	memcpy(copy, words, sizeof(copy));
	for (uint32_t count = 1; count < whole; count++) {
		struct ky_perf_sample sample;

		memset(words, 0xee, sizeof(words));
		memcpy(words, copy, count * sizeof(*words));
		ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
		assert_int_equal(sample.pid, count > 1 ? PID : 0);
		assert_int_equal(sample.ns, count > 2 ? NS : 0);
		assert_int_equal(sample.kernel_count, count > 8 ? 2 : 0);
		assert_int_equal(sample.has_registers, count > 13);
		/* Without the count at its end it is not known how much of it was read. */
		assert_int_equal(sample.stack_bytes, 0);
	}
}

static void sample__false_lengths_are_bounded(void **state)
{
	struct ky_perf_sample sample;
	uint32_t count = fill_sample();

	(void)state;
	words[5] = UINT64_MAX; /* frames */
	ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
	assert_int_equal(sample.kernel_count, 0);
	count = fill_sample();
	words[14] = UINT64_C(1) << 40; /* bytes of the stack */
	ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
	assert_int_equal(sample.pc, 14);
	assert_null(sample.stack);
	count = fill_sample();
	words[19] = UINT64_C(1) << 40; /* bytes that could be read */
	ky_perf_record_sample(record_of(PERF_RECORD_SAMPLE, 0, count), &sample);
	assert_int_equal(sample.stack_bytes, STACK_WORDS * 8);
}

static struct ky_perf_switch switch_of(uint32_t type, uint32_t misc, uint32_t count)
{
	const uint64_t list[] = {PID | (uint64_t)TID << 32, NS, 1};
	struct ky_perf_switch what;

	(void)put_words(1, list, 3);
	assert_true(ky_perf_record_switch(record_of(type, misc, count), &what));
	assert_int_equal(what.pid, PID);
	assert_int_equal(what.tid, TID);
	assert_int_equal(what.ns, NS);
	return what;
}

static void switch__has_direction_and_reason(void **state)
{
	const uint32_t out = PERF_RECORD_MISC_SWITCH_OUT;
	struct ky_perf_switch what;

	(void)state;
	assert_int_equal(switch_of(PERF_RECORD_SWITCH, 0, 4).kind, KY_SWITCH_IN);
	assert_int_equal(switch_of(PERF_RECORD_SWITCH, out, 4).kind, KY_SWITCH_OUT);
	assert_int_equal(
		switch_of(PERF_RECORD_SWITCH, out | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, 4).kind,
		KY_SWITCH_PREEMPTED);
	what = switch_of(PERF_RECORD_SAMPLE, 0, 4);
	assert_int_equal(what.kind, KY_SWITCH_FAULT);
	assert_false(what.is_swollen);
	/* As long as the record of the event beside it, which copies a stack. */
	assert_true(switch_of(PERF_RECORD_SAMPLE, 0, 17).is_swollen);
	assert_false(switch_of(PERF_RECORD_SAMPLE, 0, 16).is_swollen);
}

static void switch__is_no_other_record_and_no_short_one(void **state)
{
	struct ky_perf_switch what;

	(void)state;
	assert_false(ky_perf_record_switch(record_of(PERF_RECORD_LOST, 0, 4), &what));
	assert_false(ky_perf_record_switch(record_of(PERF_RECORD_FORK, 0, 4), &what));
	assert_false(ky_perf_record_switch(record_of(PERF_RECORD_EXIT, 0, 6), &what));
	assert_false(ky_perf_record_switch(record_of(PERF_RECORD_SWITCH, 0, 3), &what));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample__has_each_word_where_the_kernel_puts_it),
		cmocka_unit_test(sample__of_a_thread_of_the_kernel_has_no_registers),
		cmocka_unit_test(sample__survives_truncation_anywhere),
		cmocka_unit_test(sample__false_lengths_are_bounded),
		cmocka_unit_test(switch__has_direction_and_reason),
		cmocka_unit_test(switch__is_no_other_record_and_no_short_one),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
