/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stacks of page faults, by a perf_event of the test's own: which are walked and kept, and when
 * they are counted. The machine's own: test_fault_kernel.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"

#include <errno.h>
#include <probe/fault_stacks.h>
#include <probe/perf_record.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define PID 4100000001u
#define TID 4100000002u
#define PC UINT64_C(0x555500001234)

static const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};
static struct ky_fault_stacks stacks;
static bool has_tables;

static int set_up(void **state)
{
	(void)state;
	memset(&stacks, 0, sizeof(stacks));
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = SECOND;
	fake_perf_reset();
	has_tables = true;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ky_fault_stacks_close(&stacks);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

static void fault_stacks__are_kept_until_as_many_more_came(void **state)
{
	struct ky_fault_stack stack = {.count = 2, .frames = {10, 20}};
	const struct ky_fault_stack *found;
	uint64_t first;

	(void)state;
	assert_null(ky_fault_stacks_find(&stacks, 0));
	first = ky_fault_stacks_add(&stacks, &stack);
	found = ky_fault_stacks_find(&stacks, first);
	assert_non_null(found);
	assert_int_equal(found->count, 2);
	assert_int_equal(found->frames[1], 20);
	assert_false(found->is_truncated);
	stack.count = KY_SAMPLE_FRAMES_MAX;
	found = ky_fault_stacks_find(&stacks, ky_fault_stacks_add(&stacks, &stack));
	assert_non_null(found);
	assert_int_equal(found->count, KY_FAULT_FRAMES_MAX);
	assert_true(found->is_truncated);
	for (uint32_t i = 2; i < KY_FAULT_STACKS; i++)
		(void)ky_fault_stacks_add(&stacks, &stack);
	assert_non_null(ky_fault_stacks_find(&stacks, first));
	(void)ky_fault_stacks_add(&stacks, &stack);
	assert_null(ky_fault_stacks_find(&stacks, first));
}

static uint32_t count_allowed(uint64_t ns, uint32_t asked)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < asked; i++)
		count += ky_fault_stacks_may(&stacks, ns);
	return count;
}

static void fault_stacks__are_walked_within_a_budget(void **state)
{
	(void)state;
	assert_int_equal(count_allowed(1000 * SECOND, 10000), KY_FAULT_STACKS);
	assert_int_equal(count_allowed(1000 * SECOND, 10), 0);
	assert_int_equal(count_allowed(999 * SECOND, 10), 0); /* of another CPU */
	assert_int_equal(count_allowed(1001 * SECOND, 10000), KY_FAULT_STACKS_HZ);
	assert_int_equal(count_allowed(1001 * SECOND + SECOND / 10, 10000),
			 KY_FAULT_STACKS_HZ / 10);
}

static bool tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	(void)ctx;
	(void)ns;
	/* Empty ones will do for where it is. */
	*out = (struct ky_unwind_view){NULL, 0};
	return has_tables && pid == PID;
}

static const struct ky_switch_places places = {.tables = tables};

static void open_stacks(void)
{
	assert_int_equal(ky_fault_stacks_test(&how), 0);
	ky_fault_stacks_open(&stacks, &how, (pid_t)PID, false);
	assert_int_equal(stacks.refusal, 0);
}

/* A sample with registers and a stack of two words. */
static bool put_fault(uint64_t ns)
{
	struct fake_perf_event *event = fake_perf_find(PERF_TYPE_SOFTWARE,
						       PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, 0);
	const uint64_t words[16] = {PERF_RECORD_SAMPLE | UINT64_C(128) << 48,
				    PID | (uint64_t)TID << 32,
				    ns,
				    1,
				    1,
				    0,
				    PERF_SAMPLE_REGS_ABI_64,
				    1,
				    2,
				    3,
				    PC,
				    16,
				    5,
				    6,
				    16};

	assert_int_equal(event->attr.sample_type, KY_PERF_SAMPLE_TYPE);
	return fake_perf_put(event, words);
}

static struct ky_perf_switch reported;

static void on_fault(void *ctx, const struct ky_perf_switch *what)
{
	(*(uint32_t *)ctx)++;
	reported = *what;
}

static void fault_stacks__are_reported_with_their_number(void **state)
{
	const struct ky_fault_stack *stack;
	uint32_t count = 0;

	(void)state;
	open_stacks();
	assert_false(put_fault(SECOND)); /* opened paused */
	ky_fault_stacks_follow(&stacks, true, SECOND);
	assert_true(put_fault(2 * SECOND));
	assert_int_equal(ky_fault_stacks_read(&stacks, &places, on_fault, &count), 1);
	assert_int_equal(count, 1);
	assert_int_equal(reported.kind, KY_SWITCH_FAULT);
	assert_int_equal(reported.pid, PID);
	assert_int_equal(reported.tid, TID);
	assert_int_equal(reported.ns, 2 * SECOND);
	stack = ky_fault_stacks_find(&stacks, reported.user);
	assert_non_null(stack);
	assert_int_equal(stack->frames[0], PC);
}

/* A guess of one frame is not worth its place; nor is what the budget does not pay for. */
static void fault_stacks__without_tables_or_budget_are_not_reported(void **state)
{
	uint32_t count = 0;

	(void)state;
	open_stacks();
	ky_fault_stacks_follow(&stacks, true, SECOND);
	has_tables = false;
	assert_true(put_fault(1000 * SECOND));
	assert_int_equal(ky_fault_stacks_read(&stacks, &places, on_fault, &count), 1);
	assert_int_equal(count, 0);
	has_tables = true;
	assert_int_equal(count_allowed(1000 * SECOND, KY_FAULT_STACKS - 1), KY_FAULT_STACKS - 1);
	assert_true(put_fault(1000 * SECOND));
	assert_true(put_fault(1000 * SECOND));
	assert_int_equal(ky_fault_stacks_read(&stacks, &places, on_fault, &count), 2);
	assert_int_equal(count, 1);
}

/* In windows alone; where there are gaps between them, for ten seconds after one was reported. */
static void fault_stacks__are_counted_while_they_are_worth_it(void **state)
{
	(void)state;
	open_stacks();
	ky_fault_stacks_follow(&stacks, true, SECOND);
	assert_true(stacks.is_counting && put_fault(SECOND));
	ky_fault_stacks_follow(&stacks, false, SECOND);
	assert_false(stacks.is_counting || put_fault(SECOND));
	stacks.has_gaps = true;
	ky_fault_stacks_follow(&stacks, true, 2 * SECOND);
	assert_false(stacks.is_counting || put_fault(2 * SECOND));
	ky_fault_stacks_note(&stacks, 2 * SECOND);
	ky_fault_stacks_note(&stacks, SECOND); /* of another CPU */
	ky_fault_stacks_follow(&stacks, true, 12 * SECOND - 1);
	assert_true(stacks.is_counting && put_fault(12 * SECOND - 1));
	ky_fault_stacks_follow(&stacks, true, 12 * SECOND);
	assert_false(stacks.is_counting || put_fault(12 * SECOND));
}

/* Both say it of a fault of ours, or it is not believed. */
static void fault_stacks__test_needs_both_events(void **state)
{
	(void)state;
	assert_int_equal(ky_fault_stacks_test(&how), 0);
	fake_perf.is_silent = true;
	assert_int_equal(ky_fault_stacks_test(&how), -ENODATA);
	fake_perf.open_error = -EPERM;
	assert_int_equal(ky_fault_stacks_test(&how), -EPERM);
	ky_fault_stacks_open(&stacks, &how, (pid_t)PID, false);
	assert_int_equal(stacks.refusal, -EPERM);
	assert_null(stacks.perf);
	assert_int_equal(ky_fault_stacks_read(&stacks, &places, on_fault, NULL), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(fault_stacks__are_kept_until_as_many_more_came),
		CASE(fault_stacks__are_walked_within_a_budget),
		CASE(fault_stacks__are_reported_with_their_number),
		CASE(fault_stacks__without_tables_or_budget_are_not_reported),
		CASE(fault_stacks__are_counted_while_they_are_worth_it),
		CASE(fault_stacks__test_needs_both_events),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
