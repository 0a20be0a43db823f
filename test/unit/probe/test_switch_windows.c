/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Windows over the records of a kernel of the test's own, with clocks that it sets: what is watched
 * when, what comes of it in the ring's area, and what that stands for. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"
#include "../../lib/sample_list.h"

#include <errno.h>
#include <probe/fault_stacks.h>
#include <probe/switch_duty.h>
#include <probe/switch_windows.h>
#include <string.h>
#include <unistd.h>
#include <wire/switch_sample.h>

#define T0 UINT64_C(1000000000000)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
/* Processes and threads that are none of this machine. */
#define PID 4100000001u
#define TID 4100000002u
#define OTHER 4100000003u
#define WINDOW KY_DUTY_WINDOW_NS_MIN
#define OUT PERF_RECORD_MISC_SWITCH_OUT
#define PREEMPTED (PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
#define ONE (UINT64_C(1) << 32)

static struct sample_list list;
static struct listed_sample listed;
static uint32_t decoded; /* frames of it */
static struct ky_switch_windows *windows;
static bool is_wanted;

static const struct ky_sample_ring *at(const void *ctx, uint32_t i)
{
	(void)ctx;
	assert_int_equal(i, 0);
	return is_wanted ? &list.ring : NULL;
}

static const struct ky_sample_ring *find(const void *ctx, uint32_t pid, uint64_t ns)
{
	(void)ctx;
	(void)ns;
	return is_wanted && pid == PID ? &list.ring : NULL;
}

static const struct ky_switch_places places = {.count = 1, .at = at, .find = find};

static int setup(void **state)
{
	(void)state;
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = T0;
	fake_perf_reset();
	sample_list_open(&list);
	memset(&listed, 0, sizeof(listed));
	decoded = 0;
	is_wanted = true;
	windows = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_switch_windows_close(windows);
	sample_list_close(&list);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

static void open_windows(bool can_rest)
{
	const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};

	assert_int_equal(ky_switch_windows_open(&windows, &how, can_rest), 0);
	ky_switch_windows_start(windows, (pid_t)PID);
}

static uint64_t step_at(uint64_t ns)
{
	test_now.ns = ns;
	return ky_switch_windows_step(windows, &places);
}

/* The next one in the area, of that thread: a sample has several of them. */
static struct ky_switch_interval next_interval(uint32_t tid)
{
	struct ky_switch_interval interval;

	if (decoded == listed.sample.frame_count) {
		assert_true(sample_list_next(&list, &listed));
		decoded = 0;
	}
	assert_int_equal(listed.sample.kind, KY_SAMPLE_SWITCHES);
	assert_int_equal(listed.sample.tid, tid);
	assert_in_range(listed.sample.frame_count, decoded + KY_SWITCH_FRAMES,
			KY_SAMPLE_FRAMES_MAX);
	ky_switch_dec(&interval, listed.sample.stamp, listed.frames + decoded);
	decoded += KY_SWITCH_FRAMES;
	return interval;
}

/* The next one says what was watched. */
static void assert_window(uint64_t end_ns, uint64_t observed_ns, uint64_t stands_for_ns,
			  uint64_t records, uint64_t lost)
{
	assert_int_equal(decoded, listed.sample.frame_count);
	decoded = 0;
	assert_true(sample_list_next(&list, &listed));
	assert_int_equal(listed.sample.kind, KY_SAMPLE_SWITCHES);
	assert_int_equal(listed.sample.tid, 0);
	assert_int_equal(listed.sample.stamp, end_ns);
	assert_int_equal(listed.sample.value, observed_ns);
	assert_int_equal(listed.sample.more, stands_for_ns);
	assert_int_equal(listed.sample.other & UINT32_MAX, records);
	assert_int_equal(listed.sample.other >> 32, lost);
}

static void assert_nothing(void)
{
	assert_false(sample_list_next(&list, &listed));
}

/* A wait from one time to another, on one CPU. */
static void wait_on(int cpu, uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
	assert_true(fake_perf_switch(cpu, PID, tid, from_ns, OUT));
	assert_true(fake_perf_switch(cpu, PID, tid, to_ns, 0));
}

static void window__shows_a_wait_from_its_beginning_to_its_end(void **state)
{
	struct ky_switch_interval interval;

	(void)state;
	open_windows(false);
	assert_false(fake_perf_switch(0, PID, TID, T0, OUT)); /* nothing is recorded before it */
	assert_int_equal(step_at(T0), WINDOW);
	wait_on(0, TID, T0 + MS, T0 + 4 * MS);
	(void)step_at(T0 + WINDOW);
	interval = next_interval(TID);
	assert_int_equal(interval.begin_ns, T0 + MS);
	assert_int_equal(interval.end_ns, T0 + 4 * MS);
	assert_int_equal(interval.reason, KY_OFF_CPU_SYSCALL);
	assert_int_equal(interval.flags, 0);
	/* No wake-up was reported. */
	assert_int_equal(interval.runnable_min_ns, 0);
	assert_int_equal(interval.runnable_max_ns, 3 * MS);
	assert_int_equal(listed.sample.weight, ONE);
	assert_int_equal(listed.sample.value, 0);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 2, 0);
	assert_nothing();
	assert_int_equal(ky_switch_windows_rate(windows), 2 * SECOND / WINDOW);
}

/* The rings are read CPU by CPU. */
static void window__puts_records_of_several_cpus_in_their_order(void **state)
{
	struct ky_switch_interval interval;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + 5 * MS, 0)); /* read first */
	assert_true(fake_perf_switch(1, PID, TID, T0 + 2 * MS, OUT));
	(void)step_at(T0 + WINDOW);
	interval = next_interval(TID);
	assert_int_equal(interval.begin_ns, T0 + 2 * MS);
	assert_int_equal(interval.end_ns, T0 + 5 * MS);
}

static void window__distinguishes_preemption_and_page_faults(void **state)
{
	struct ky_switch_interval interval;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + MS, PREEMPTED));
	assert_true(fake_perf_switch(0, PID, TID, T0 + 2 * MS, 0));
	wait_on(0, TID, T0 + 3 * MS, T0 + 5 * MS);
	assert_true(fake_perf_fault(0, PID, TID, T0 + 5 * MS + 100 * US));
	(void)step_at(T0 + WINDOW);
	interval = next_interval(TID);
	assert_int_equal(interval.reason, KY_OFF_CPU_PREEMPTED);
	assert_int_equal(interval.runnable_min_ns, MS);
	interval = next_interval(TID);
	assert_int_equal(interval.reason, KY_OFF_CPU_FAULT);
	assert_int_equal(interval.begin_ns, T0 + 3 * MS);
}

static bool tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	(void)ctx;
	(void)ns;
	*out = (struct ky_unwind_view){NULL, 0};
	return pid == PID;
}

/* Beside the interval, which is alone in its sample then. */
static void window__puts_the_stack_of_a_page_fault(void **state)
{
	const uint64_t words[16] = {PERF_RECORD_SAMPLE | UINT64_C(128) << 48,
				    PID | (uint64_t)TID << 32,
				    T0 + 5 * MS,
				    0,
				    1,
				    0,
				    PERF_SAMPLE_REGS_ABI_64,
				    1,
				    2,
				    3,
				    0x555500001234,
				    16,
				    5,
				    6,
				    16};
	struct ky_switch_places with_tables = places;

	(void)state;
	with_tables.tables = tables;
	open_windows(false);
	test_now.ns = T0;
	(void)ky_switch_windows_step(windows, &with_tables);
	wait_on(0, TID, T0 + 3 * MS, T0 + 5 * MS);
	wait_on(0, TID, T0 + 6 * MS, T0 + 7 * MS);
	/* The same fault, by the event that copies stacks. */
	assert_true(fake_perf_fault(0, PID, TID, T0 + 5 * MS));
	assert_true(fake_perf_put(
		fake_perf_find(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 0, 0), words));
	test_now.ns = T0 + WINDOW;
	(void)ky_switch_windows_step(windows, &with_tables);
	assert_true(sample_list_next(&list, &listed));
	assert_true(listed.sample.flags & KY_SAMPLE_HAS_STACK);
	assert_int_equal(listed.sample.frame_count, KY_SWITCH_FRAMES + 1);
	assert_int_equal(listed.frames[KY_SWITCH_FRAMES], 0x555500001234);
	assert_true(sample_list_next(&list, &listed));
	assert_false(listed.sample.flags & KY_SAMPLE_HAS_STACK);
	assert_int_equal(listed.sample.frame_count, KY_SWITCH_FRAMES);
}

/* So many records that the window is paid for by the time after it. */
static void fill_window(uint64_t from_ns, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		wait_on(0, TID, from_ns + i * 10 * US, from_ns + i * 10 * US + 5 * US);
}

/* 1,000 records of 500 ns each, and what stacks of page faults add to a switch, are paid for by 333
 * times as long: half to one and a half of it, drawn. What comes meanwhile is not
 * recorded, and the next window stands for it, too. */
static void window__stands_for_the_time_before_it(void **state)
{
	uint64_t paid_ns = 1000 * (500 + KY_FAULT_SWITCH_NS) * KY_DUTY_COST_INVERSE;
	uint64_t gap_ns, begin_ns, end_ns;
	struct ky_switch_interval interval;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	fill_window(T0 + MS, 500); /* too short to be written */
	gap_ns = step_at(T0 + WINDOW);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 1000, 0);
	assert_in_range(gap_ns, (paid_ns - WINDOW) / 2, (paid_ns - WINDOW) / 2 * 3);
	assert_false(fake_perf_switch(0, PID, TID, T0 + WINDOW + MS, OUT));
	/* Not before its time. */
	assert_int_equal(step_at(T0 + WINDOW + gap_ns - 1), 1);
	begin_ns = T0 + WINDOW + gap_ns;
	assert_int_equal(step_at(begin_ns), WINDOW);
	end_ns = begin_ns + WINDOW;
	wait_on(1, TID, begin_ns + MS, begin_ns + 2 * MS);
	(void)step_at(end_ns);
	interval = next_interval(TID);
	assert_int_equal(interval.begin_ns, begin_ns + MS);
	/* Of 2^32 parts, as far as a double has them. */
	assert_int_equal(listed.sample.weight,
			 (uint64_t)((double)(WINDOW + gap_ns) / (double)WINDOW * (double)ONE));
	assert_window(end_ns, WINDOW, WINDOW + gap_ns, 2, 0);
}

/* Windows that continue: a wait across their border is written once, whole. */
static void window__continues_without_a_gap_where_it_costs_little(void **state)
{
	struct ky_switch_interval interval;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + MS, OUT));
	(void)step_at(T0 + WINDOW);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 1, 0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + WINDOW + MS, 0));
	(void)step_at(T0 + WINDOW + 2 * WINDOW);
	interval = next_interval(TID);
	assert_int_equal(interval.begin_ns, T0 + MS);
	assert_int_equal(interval.end_ns, T0 + WINDOW + MS);
	assert_int_equal(interval.flags, 0);
	/* Cheap ones grow, to twice the last one at most. */
	assert_window(T0 + 3 * WINDOW, 2 * WINDOW, 2 * WINDOW, 1, 0);
}

/* Before a gap what still waits is written as far as it was seen; after it nothing is known of what
 * was off already but that. */
static void window__marks_the_unseen_part_of_a_wait(void **state)
{
	struct ky_switch_interval interval;
	uint64_t gap_ns, begin_ns;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	fill_window(T0 + MS, 500);
	assert_true(fake_perf_switch(1, PID, OTHER, T0 + 10 * MS, OUT));
	gap_ns = step_at(T0 + WINDOW);
	interval = next_interval(OTHER);
	assert_int_equal(interval.begin_ns, T0 + 10 * MS);
	assert_int_equal(interval.end_ns, T0 + WINDOW);
	assert_int_equal(interval.flags, KY_SWITCH_END_UNSEEN);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 1001, 0);
	begin_ns = T0 + WINDOW + gap_ns;
	(void)step_at(begin_ns);
	assert_true(fake_perf_switch(0, PID, OTHER, begin_ns + 3 * MS, 0));
	(void)step_at(begin_ns + WINDOW);
	interval = next_interval(OTHER);
	assert_int_equal(interval.begin_ns, begin_ns);
	assert_int_equal(interval.end_ns, begin_ns + 3 * MS);
	assert_int_equal(interval.flags, KY_SWITCH_BEGIN_UNSEEN);
	assert_int_equal(interval.reason, KY_OFF_CPU_UNKNOWN);
}

/* A ring of 16 KiB has room for 512 records. The kernel counts the others, and says so with the
 * next one: no beginning is guessed from what came before. */
static void window__counts_records_without_room_and_guesses_nothing(void **state)
{
	(void)state;
	fake_perf.ring_bytes_most = 1u << 14;
	open_windows(false);
	(void)step_at(T0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + 1, OUT));
	for (uint32_t i = 1; i < 512; i++)
		assert_true(fake_perf_switch(0, PID, OTHER, T0 + 1 + i, OUT));
	for (uint32_t i = 0; i < 30; i++)
		assert_false(fake_perf_switch(0, PID, TID, T0 + MS, 0));
	test_now.ns = T0 + 2 * MS;
	ky_switch_windows_fetch(windows, &places);
	assert_nothing();
	assert_true(fake_perf_switch(0, PID, TID, T0 + 3 * MS, 0));
	(void)step_at(T0 + WINDOW);
	/* It would have waited from T0 on, had nothing been lost. */
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 513, 30);
	assert_nothing();
}

/* More than 2,000 at once: the short ones are kept by chance from then on, and say so. */
static void window__keeps_surplus_waits_by_length(void **state)
{
	struct ky_switch_interval interval;
	uint64_t begin_ns = T0, gap_ns;
	uint32_t count = 0;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	for (uint32_t i = 0; i < 3000; i++)
		wait_on(0, TID + i, T0 + i, T0 + i + KY_SWITCH_NS_MIN);
	gap_ns = step_at(T0 + WINDOW);
	while (sample_list_next(&list, &listed) && listed.sample.tid != 0) {
		assert_int_equal(listed.sample.value, 0); /* all are kept */
		count++;
	}
	assert_int_equal(count, 3000);
	memset(&listed, 0, sizeof(listed));
	begin_ns += WINDOW + gap_ns;
	(void)step_at(begin_ns);
	/* T has doubled at the window's end, at the gap, and as this one begins: one as long as
	 * that is kept for sure. */
	wait_on(0, TID, begin_ns + MS, begin_ns + MS + 8 * KY_SWITCH_NS_MIN);
	(void)step_at(begin_ns + WINDOW);
	interval = next_interval(TID);
	assert_int_equal(listed.sample.value, 8 * KY_SWITCH_NS_MIN);
	assert_int_equal(interval.end_ns - interval.begin_ns, 8 * KY_SWITCH_NS_MIN);
}

/* What a dump in the middle of a window finds. */
static void fetch__puts_each_wait_so_far_once(void **state)
{
	(void)state;
	open_windows(false);
	(void)step_at(T0);
	wait_on(0, TID, T0 + MS, T0 + 2 * MS);
	/* From this moment on records may be missing. */
	wait_on(0, OTHER, T0 + 3 * MS, T0 + 5 * MS);
	test_now.ns = T0 + 4 * MS;
	ky_switch_windows_fetch(windows, &places);
	(void)next_interval(TID);
	assert_nothing();
	(void)step_at(T0 + WINDOW);
	(void)next_interval(OTHER);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 4, 0);
	assert_nothing();
}

/* Late by several windows, which continued meanwhile. */
static void step__ends_each_window_that_is_over(void **state)
{
	(void)state;
	open_windows(false);
	(void)step_at(T0);
	(void)step_at(T0 + 3 * WINDOW);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 0, 0);
	assert_window(T0 + 3 * WINDOW, 2 * WINDOW, 2 * WINDOW, 0, 0);
	assert_nothing();
}

/* In the process itself: it did nothing, so nothing wakes it for the window's end. */
static void rest__lasts_until_a_record_comes(void **state)
{
	struct ky_switch_interval interval;

	(void)state;
	open_windows(true);
	assert_int_equal(step_at(T0), WINDOW);
	assert_int_equal(step_at(T0 + WINDOW), UINT64_MAX);
	assert_true(ky_switch_windows_is_resting(windows));
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 0, 0);
	/* Nothing: it stays open. */
	assert_int_equal(step_at(T0 + 100 * MS), UINT64_MAX);
	assert_nothing();
	wait_on(0, TID, T0 + 101 * MS, T0 + 111 * MS);
	assert_int_not_equal(step_at(T0 + 200 * MS), UINT64_MAX);
	assert_false(ky_switch_windows_is_resting(windows));
	interval = next_interval(TID);
	assert_int_equal(interval.begin_ns, T0 + 101 * MS);
	assert_window(T0 + 200 * MS, 200 * MS - WINDOW, 200 * MS - WINDOW, 2, 0);
}

static void rest__needs_an_idle_process(void **state)
{
	(void)state;
	open_windows(true);
	(void)step_at(T0);
	test_now.process_cpu_ns = WINDOW / 2; /* no switch, and half of the time */
	assert_int_not_equal(step_at(T0 + WINDOW), UINT64_MAX);
	assert_false(ky_switch_windows_is_resting(windows));
}

/* A second at most, so that a dump has what there is. */
static void rest__ends_after_a_second(void **state)
{
	(void)state;
	open_windows(true);
	(void)step_at(T0);
	(void)step_at(T0 + WINDOW);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 0, 0);
	(void)step_at(T0 + 500 * MS);
	assert_nothing();
	(void)step_at(T0 + WINDOW + SECOND);
	assert_window(T0 + WINDOW + SECOND, SECOND, SECOND, 0, 0);
}

/* A ring's gate is shut in the middle of a window. */
static void stop__puts_what_was_seen_up_to_then(void **state)
{
	uint64_t gate_ns = T0 + 5 * MS;

	(void)state;
	open_windows(false);
	(void)step_at(T0);
	assert_true(fake_perf_switch(0, PID, TID, T0 + MS, OUT));
	test_now.ns = gate_ns;
	ky_switch_windows_stop(windows, &places);
	assert_int_equal(next_interval(TID).end_ns, gate_ns);
	assert_window(gate_ns, 5 * MS, 5 * MS, 1, 0);
	assert_false(fake_perf_switch(0, PID, TID, gate_ns, 0));
	assert_int_equal(ky_switch_windows_rate(windows), 0);
	/* What is not watched from there on stands for nothing. */
	is_wanted = false;
	assert_int_equal(step_at(gate_ns + SECOND), UINT64_MAX);
	is_wanted = true;
	(void)step_at(gate_ns + 2 * SECOND);
	(void)step_at(gate_ns + 2 * SECOND + WINDOW);
	assert_window(gate_ns + 2 * SECOND + WINDOW, WINDOW, WINDOW, 0, 0);
}

static void gap__at_the_end_is_put_as_not_watched(void **state)
{
	(void)state;
	open_windows(false);
	(void)step_at(T0);
	ky_switch_windows_report_gap(windows, &places); /* a window is open: it will be written */
	assert_nothing();
	fill_window(T0 + MS, 500);
	(void)step_at(T0 + WINDOW);
	assert_window(T0 + WINDOW, WINDOW, WINDOW, 1000, 0);
	test_now.ns = T0 + WINDOW + 7 * MS;
	ky_switch_windows_report_gap(windows, &places);
	assert_window(T0 + WINDOW + 7 * MS, 0, 7 * MS, 0, 0);
}

static void refusal__is_described_and_has_no_other_effect(void **state)
{
	struct ky_sample_class_head head = {0};

	(void)state;
	fake_perf.open_error = -EACCES;
	open_windows(false);
	assert_int_equal(ky_switch_windows_refusal(windows), -EACCES);
	ky_switch_windows_describe(windows, &head);
	assert_int_equal(head.refusals[KY_SOURCE_SWITCHES], EACCES);
	assert_int_equal(head.source, 0);
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_nothing();
}

/* It opens, and yields nothing. */
static void refusal__is_of_an_event_without_records(void **state)
{
	(void)state;
	fake_perf.is_silent = true;
	open_windows(false);
	assert_int_equal(ky_switch_windows_refusal(windows), -ENODATA);
}

/* What may be locked goes to the switches: stacks of page faults are given up for them. */
static void faults__give_way_where_memory_is_short(void **state)
{
	struct ky_sample_class_head head = {0};

	(void)state;
	open_windows(false);
	ky_switch_windows_describe(windows, &head);
	assert_true(head.source & 1u << KY_SOURCE_SWITCHES);
	assert_true(head.source & 1u << KY_SOURCE_PERF);
	assert_int_equal(head.refusals[KY_SOURCE_PERF], 0);
	ky_switch_windows_close(windows);
	memset(&head, 0, sizeof(head));
	fake_perf.ring_bytes_most = KY_PERF_SWITCH_RING_BYTES / 2;
	open_windows(false);
	assert_int_equal(ky_switch_windows_refusal(windows), 0);
	ky_switch_windows_describe(windows, &head);
	assert_true(head.source & 1u << KY_SOURCE_SWITCHES);
	assert_false(head.source & 1u << KY_SOURCE_PERF);
	assert_int_equal(head.refusals[KY_SOURCE_PERF], ENOMEM);
	assert_int_equal(fake_perf_open_count(), FAKE_PERF_CPUS);
}

/* ---- events of windows alone ---- */

static const struct ky_sample_ring *at_all(const void *ctx, uint32_t i)
{
	(void)ctx;
	(void)i;
	return &list.ring;
}

static uint32_t own_pid(const void *ctx, uint32_t i)
{
	(void)ctx;
	(void)i;
	return (uint32_t)getpid();
}

/* One process with two rings, as after its exec. */
static const struct ky_switch_places two_places = {.count = 2, .at = at_all, .find = find};

static uint64_t step_two_at(uint64_t ns)
{
	test_now.ns = ns;
	return ky_switch_windows_step(windows, &two_places);
}

static void open_left_windows(void)
{
	const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};

	assert_int_equal(ky_switch_windows_open(&windows, &how, false), 0);
	ky_switch_windows_leave_between(windows, own_pid);
	/* What is opened for the process must not answer as for the tests. */
	fake_perf.is_silent = true;
	ky_switch_windows_start(windows, getpid());
	assert_int_equal(ky_switch_windows_refusal(windows), 0);
}

/* That count, of those that are open. */
static uint32_t counting(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++)
		count += fake_perf.events[i].is_open && fake_perf.events[i].is_enabled;
	return count;
}

/* Of this process's only thread: switches, and while there are no gaps page faults beside them.
 * What keeps the rings counts nothing, and no thread of the program's has it. */
static void events__are_of_windows_alone(void **state)
{
	const uint32_t held = 2 * FAKE_PERF_CPUS;
	struct ky_switch_interval interval;
	uint64_t gap_ns, next_ns;

	(void)state;
	open_left_windows();
	assert_int_equal(fake_perf_open_count(), held);
	assert_int_equal(counting(), 0);
	(void)step_two_at(T0);
	assert_int_equal(fake_perf_open_count(), held + 2 * FAKE_PERF_CPUS);
	assert_int_equal(counting(), 2 * FAKE_PERF_CPUS);
	fill_window(T0 + MS, 500);
	gap_ns = step_two_at(T0 + WINDOW);
	assert_true(gap_ns > 0);
	assert_int_equal(fake_perf_open_count(), held);
	assert_int_equal(counting(), 0);
	/* With gaps stacks of faults are taken only once there is a fault; from then on at once. */
	next_ns = T0 + WINDOW + gap_ns;
	(void)step_two_at(next_ns);
	assert_int_equal(fake_perf_open_count(), held + 2 * FAKE_PERF_CPUS);
	assert_int_equal(counting(), FAKE_PERF_CPUS);
	assert_true(fake_perf_fault(0, PID, TID, next_ns + MS));
	ky_switch_windows_fetch(windows, &two_places);
	assert_int_equal(counting(), 2 * FAKE_PERF_CPUS);
	wait_on(1, TID, next_ns + 2 * MS, next_ns + 4 * MS);
	fill_window(next_ns + 5 * MS, 500);
	gap_ns = step_two_at(next_ns + WINDOW);
	while (sample_list_next(&list, &listed) &&
	       (listed.sample.tid != TID || listed.sample.stamp < next_ns))
		;
	ky_switch_dec(&interval, listed.sample.stamp, listed.frames);
	assert_int_equal(interval.begin_ns, next_ns + 2 * MS);
	assert_int_equal(interval.end_ns, next_ns + 4 * MS);
	assert_int_equal(fake_perf_open_count(), held);
	(void)step_two_at(next_ns + WINDOW + gap_ns);
	assert_int_equal(counting(), 2 * FAKE_PERF_CPUS);
	ky_switch_windows_stop(windows, &two_places);
	assert_int_equal(fake_perf_open_count(), held);
}

/* A program whose windows follow each other at once keeps its events. */
static void events__stay_where_windows_continue(void **state)
{
	(void)state;
	open_left_windows();
	(void)step_two_at(T0);
	(void)step_two_at(T0 + WINDOW);
	(void)step_two_at(T0 + 3 * WINDOW);
	assert_int_equal(counting(), 2 * FAKE_PERF_CPUS);
}

static void events__refused_at_a_window_are_told_and_tried_again(void **state)
{
	struct ky_sample_class_head *head = list.ring.head;

	(void)state;
	open_left_windows();
	fake_perf.open_error = -EMFILE;
	assert_int_equal(step_two_at(T0), SECOND);
	assert_int_equal(atomic_load(&head->refusals[KY_SOURCE_SWITCHES]), EMFILE);
	assert_int_equal(counting(), 0);
	assert_int_equal(fake_perf_open_count(), 2 * FAKE_PERF_CPUS);
	fake_perf.open_error = 0;
	(void)step_two_at(T0 + SECOND);
	assert_int_equal(atomic_load(&head->refusals[KY_SOURCE_SWITCHES]), 0);
	assert_int_equal(counting(), 2 * FAKE_PERF_CPUS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(window__shows_a_wait_from_its_beginning_to_its_end),
		CASE(window__puts_records_of_several_cpus_in_their_order),
		CASE(window__distinguishes_preemption_and_page_faults),
		CASE(window__puts_the_stack_of_a_page_fault),
		CASE(window__stands_for_the_time_before_it),
		CASE(window__continues_without_a_gap_where_it_costs_little),
		CASE(window__marks_the_unseen_part_of_a_wait),
		CASE(window__counts_records_without_room_and_guesses_nothing),
		CASE(window__keeps_surplus_waits_by_length),
		CASE(fetch__puts_each_wait_so_far_once),
		CASE(step__ends_each_window_that_is_over),
		CASE(rest__lasts_until_a_record_comes),
		CASE(rest__needs_an_idle_process),
		CASE(rest__ends_after_a_second),
		CASE(stop__puts_what_was_seen_up_to_then),
		CASE(gap__at_the_end_is_put_as_not_watched),
		CASE(refusal__is_described_and_has_no_other_effect),
		CASE(refusal__is_of_an_event_without_records),
		CASE(faults__give_way_where_memory_is_short),
		CASE(events__are_of_windows_alone),
		CASE(events__stay_where_windows_continue),
		CASE(events__refused_at_a_window_are_told_and_tried_again),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
