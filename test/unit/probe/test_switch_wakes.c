/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Wake-ups and switches of a kernel of the test's own, of this process and its only thread: what of
 * a wait was ready to run, who ended it, and which threads are followed. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"
#include "../../lib/sample_list.h"

#include <errno.h>
#include <probe/switch_duty.h>
#include <probe/switch_wakes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wire/switch_sample.h>

#define T0 UINT64_C(1000000000000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define WINDOW KY_DUTY_WINDOW_NS_MIN
#define SLEEPS ((uint32_t)PERF_RECORD_MISC_SWITCH_OUT)
#define PREEMPTED (SLEEPS | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
#define NAME "ky-waker"

static struct sample_list list;
static struct listed_sample listed;
static struct ky_switch_windows *windows;
static struct ky_switch_wakes wakes;
static uint32_t own_pid, own_tid;

static const struct ky_sample_ring *at(const void *ctx, uint32_t i)
{
	(void)ctx;
	(void)i;
	return &list.ring;
}

static const struct ky_sample_ring *find(const void *ctx, uint32_t pid, uint64_t ns)
{
	(void)ctx;
	(void)ns;
	return pid == own_pid ? &list.ring : NULL;
}

static uint32_t pid_at(const void *ctx, uint32_t i)
{
	(void)ctx;
	(void)i;
	return own_pid;
}

static const struct ky_switch_places places = {.count = 1, .at = at, .find = find};

static int setup(void **state)
{
	(void)state;
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = T0;
	fake_perf_reset();
	sample_list_open(&list);
	own_pid = (uint32_t)getpid();
	own_tid = (uint32_t)syscall(SYS_gettid);
	windows = NULL;
	memset(&wakes, 0, sizeof(wakes));
	return prctl(PR_SET_NAME, NAME);
}

static int teardown(void **state)
{
	(void)state;
	ky_switch_windows_close(windows);
	ky_switch_wakes_close(&wakes);
	sample_list_close(&list);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

/* Returns when the first window ends. */
static uint64_t open_windows(void)
{
	const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};

	assert_int_equal(ky_switch_windows_open(&windows, &how, false), 0);
	ky_switch_windows_add_wakes(windows, pid_at);
	/* What is opened for the process must not answer as for the tests. */
	fake_perf.is_silent = true;
	ky_switch_windows_start(windows, (pid_t)own_pid);
	assert_int_equal(ky_switch_windows_refusal(windows), 0);
	/* Its tests slept. */
	test_now.ns = T0;
	return T0 + ky_switch_windows_step(windows, &places);
}

static void step_at(uint64_t ns)
{
	test_now.ns = ns;
	(void)ky_switch_windows_step(windows, &places);
}

/* The next sample of that kind; those in between are passed over. */
static bool next_of(uint8_t kind)
{
	while (sample_list_next(&list, &listed))
		if (listed.sample.kind == kind && (kind != KY_SAMPLE_SWITCHES || listed.sample.tid))
			return true;
	return false;
}

static struct ky_switch_interval interval_at(uint32_t frame)
{
	struct ky_switch_interval interval;

	ky_switch_dec(&interval, listed.sample.stamp, listed.frames + frame);
	if (listed.sample.flags & KY_SAMPLE_HAS_WAKER)
		ky_switch_dec_waker(&interval, listed.frames[frame + KY_SWITCH_FRAMES]);
	return interval;
}

/* This thread waits from one time to another, and is woken in between by a thread of that id. */
static void wait_for(uint64_t from_ns, uint64_t woken_ns, uint64_t to_ns, uint32_t by_tid)
{
	assert_true(fake_perf_switch(0, own_pid, own_tid, from_ns, SLEEPS));
	assert_true(fake_perf_wake(1, own_pid, by_tid, woken_ns, own_tid, 0));
	assert_true(fake_perf_switch(0, own_pid, own_tid, to_ns, 0));
}

static void wait__is_split_at_its_wake_up(void **state)
{
	uint64_t end_ns = open_windows();
	struct ky_switch_interval interval;

	(void)state;
	wait_for(T0 + MS, T0 + 4 * MS, T0 + 6 * MS, own_tid);
	step_at(end_ns);
	/* What the waker is called lies before what names it. */
	assert_true(sample_list_next(&list, &listed));
	assert_int_equal(listed.sample.kind, KY_SAMPLE_WAKER);
	assert_int_equal(listed.sample.tid, own_tid);
	assert_int_equal(listed.sample.more, own_pid);
	assert_memory_equal(&listed.frames[0], NAME, 6);
	assert_true(sample_list_next(&list, &listed));
	assert_int_equal(listed.sample.kind, KY_SAMPLE_SWITCHES);
	assert_int_equal(listed.sample.flags, KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_WAKER);
	interval = interval_at(0);
	assert_int_equal(interval.begin_ns, T0 + MS);
	assert_int_equal(interval.end_ns, T0 + 6 * MS);
	assert_int_equal(interval.reason, KY_OFF_CPU_SYSCALL);
	/* In parts of its length, rounded outwards. */
	assert_in_range(interval.runnable_min_ns, 2 * MS - 5, 2 * MS);
	assert_in_range(interval.runnable_max_ns, 2 * MS, 2 * MS + 5);
	assert_int_equal(interval.by, KY_WOKEN_BY_THREAD);
	assert_int_equal(interval.by_tid, own_tid);
	assert_int_equal(interval.by_pid, own_pid);
}

/* A timer, a device: no name is written. */
static void wait__ended_by_an_interrupt_has_no_waker(void **state)
{
	uint64_t end_ns = open_windows();
	struct ky_switch_interval interval;

	(void)state;
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + MS, SLEEPS));
	assert_true(fake_perf_wake(1, own_pid, own_tid, T0 + 2 * MS, own_tid, 0x08));
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + 3 * MS, 0));
	step_at(end_ns);
	assert_true(sample_list_next(&list, &listed));
	assert_int_equal(listed.sample.kind, KY_SAMPLE_SWITCHES);
	interval = interval_at(0);
	assert_int_equal(interval.by, KY_WOKEN_BY_INTERRUPT);
	assert_int_equal(interval.by_tid, 0);
}

static void wait__of_a_preempted_thread_is_all_ready(void **state)
{
	uint64_t end_ns = open_windows();
	struct ky_switch_interval interval;

	(void)state;
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + MS, PREEMPTED));
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + 3 * MS, 0));
	step_at(end_ns);
	assert_true(next_of(KY_SAMPLE_SWITCHES));
	interval = interval_at(0);
	assert_int_equal(interval.reason, KY_OFF_CPU_PREEMPTED);
	assert_int_equal(interval.runnable_min_ns, 2 * MS);
}

/* The filter is ranges: it has those whose numbers lie after ours, too. */
static void others__between_our_thread_numbers_are_left_out(void **state)
{
	uint64_t end_ns = open_windows();

	(void)state;
	assert_true(fake_perf_wake(0, own_pid, own_tid, T0 + MS, own_tid + 1, 0));
	wait_for(T0 + 2 * MS, T0 + 3 * MS, T0 + 4 * MS, own_tid);
	step_at(end_ns);
	assert_true(next_of(KY_SAMPLE_SWITCHES));
	assert_int_equal(listed.sample.tid, own_tid);
	assert_false(next_of(KY_SAMPLE_SWITCHES));
}

static void filter__that_is_refused_leaves_the_switches(void **state)
{
	const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};

	(void)state;
	assert_int_equal(ky_switch_windows_open(&windows, &how, false), 0);
	ky_switch_windows_add_wakes(windows, pid_at);
	fake_perf.is_silent = true;
	ky_switch_windows_start(windows, (pid_t)own_pid);
	/* Only once its tests are through. */
	fake_perf.filter_error = -ENOMEM;
	test_now.ns = T0;
	assert_int_equal(ky_switch_windows_step(windows, &places), WINDOW);
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + MS, SLEEPS));
	assert_true(fake_perf_switch(0, own_pid, own_tid, T0 + 2 * MS, 0));
	step_at(T0 + WINDOW);
	assert_true(next_of(KY_SAMPLE_SWITCHES));
	assert_int_equal(interval_at(0).by, KY_WOKEN_UNKNOWN);
}

static void name__is_repeated_after_ten_seconds(void **state)
{
	struct ky_switch_pair pair = {
		.pid = own_pid,
		.tid = own_tid,
		.interval = {.by = KY_WOKEN_BY_THREAD, .by_pid = own_pid, .by_tid = own_tid}};

	(void)state;
	ky_switch_wakes_open(&wakes, pid_at);
	assert_non_null(wakes.wakes);
	ky_switch_wakes_name(&wakes, &list.ring, &pair, 1, T0);
	assert_true(next_of(KY_SAMPLE_WAKER));
	ky_switch_wakes_name(&wakes, &list.ring, &pair, 1, T0 + 10 * SECOND - 1);
	assert_false(next_of(KY_SAMPLE_WAKER));
	ky_switch_wakes_name(&wakes, &list.ring, &pair, 1, T0 + 10 * SECOND);
	assert_true(next_of(KY_SAMPLE_WAKER));
	/* One that has ended by now has no name. */
	pair.interval.by_tid = pair.interval.by_pid = 4100000001u & KY_WAKER_ID_MAX;
	ky_switch_wakes_name(&wakes, &list.ring, &pair, 1, T0 + 20 * SECOND);
	assert_false(next_of(KY_SAMPLE_WAKER));
}

/* How soon a thread that is not covered makes them be listed. */
static void threads__are_listed_sooner_where_one_is_missing(void **state)
{
	const uint64_t stale_ns = 100 * MS;

	(void)state;
	ky_switch_wakes_open(&wakes, pid_at);
	ky_switch_wakes_window(&wakes, &places, T0);
	assert_int_equal(wakes.listed_ns, T0);
	assert_int_equal(wakes.thread_count, 1);
	assert_int_equal(wakes.threads[0], own_tid);
	ky_switch_wakes_note(&wakes, own_tid);
	assert_false(wakes.is_stale);
	ky_switch_wakes_window(&wakes, &places, T0 + SECOND - 1);
	assert_int_equal(wakes.listed_ns, T0);
	ky_switch_wakes_note(&wakes, own_tid + KY_WAKE_ROOM + 1);
	assert_true(wakes.is_stale);
	ky_switch_wakes_window(&wakes, &places, T0 + stale_ns - 1);
	assert_int_equal(wakes.listed_ns, T0);
	ky_switch_wakes_window(&wakes, &places, T0 + stale_ns);
	assert_int_equal(wakes.listed_ns, T0 + stale_ns);
	assert_false(wakes.is_stale);
	ky_switch_wakes_window(&wakes, &places, T0 + stale_ns + SECOND);
	assert_int_equal(wakes.listed_ns, T0 + stale_ns + SECOND);
}

static void count_one(void *ctx, const struct ky_perf_switch *what)
{
	*(uint32_t *)ctx += what->kind == KY_SWITCH_WOKEN;
}

/* The counters have all switches of the machine: those that were handed out are paid for by their
 * records. */
static void cost__is_of_records_that_were_not_returned(void **state)
{
	struct fake_perf_event *counter;
	uint32_t count = 0;
	uint64_t lost;

	(void)state;
	ky_switch_wakes_open(&wakes, pid_at);
	assert_int_equal(ky_switch_wakes_passed_ns(&wakes), 0);
	counter = fake_perf_find(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, 0);
	assert_non_null(counter);
	counter->words[0] += 1000;
	assert_int_equal(ky_switch_wakes_passed_ns(&wakes), 1000 * KY_WAKE_PASSED_NS);
	assert_int_equal(ky_switch_wakes_passed_ns(&wakes), 0);
	/* Records without room are counted once. */
	counter->unreported = 5;
	fake_perf_find(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0, 0)->unreported = 2;
	ky_switch_wakes_window(&wakes, &places, T0);
	ky_switch_wakes_pause(&wakes, false);
	assert_true(fake_perf_wake(0, own_pid, own_tid, T0, own_tid, 0));
	assert_true(fake_perf_wake(1, own_pid, own_tid, T0, own_tid, 0));
	assert_int_equal(ky_switch_wakes_read(&wakes, count_one, &count, &lost), 2);
	assert_int_equal(count, 2);
	assert_int_equal(lost, 7);
	assert_int_equal(ky_switch_wakes_read(&wakes, count_one, &count, &lost), 0);
	assert_int_equal(lost, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(wait__is_split_at_its_wake_up),
		CASE(wait__ended_by_an_interrupt_has_no_waker),
		CASE(wait__of_a_preempted_thread_is_all_ready),
		CASE(others__between_our_thread_numbers_are_left_out),
		CASE(filter__that_is_refused_leaves_the_switches),
		CASE(name__is_repeated_after_ten_seconds),
		CASE(threads__are_listed_sooner_where_one_is_missing),
		CASE(cost__is_of_records_that_were_not_returned),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
