/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <probe/switch_pairs.h>

#define MS UINT64_C(1000000)
#define PID 77u

static struct ky_switch_pairs pairs;

static int open_pairs(void **state)
{
	(void)state;
	return ky_switch_pairs_init(&pairs);
}

static int close_pairs(void **state)
{
	(void)state;
	ky_switch_pairs_release(&pairs);
	return 0;
}

static void report(uint32_t tid, uint64_t ns, uint32_t kind)
{
	const struct ky_perf_switch what = {.pid = PID, .tid = tid, .ns = ns, .kind = kind};

	ky_switch_pairs_take(&pairs, &what);
}

static void report_fault(uint32_t tid, uint64_t ns, uint64_t user)
{
	const struct ky_perf_switch what = {
		.pid = PID, .tid = tid, .ns = ns, .kind = KY_SWITCH_FAULT, .user = user};

	ky_switch_pairs_take(&pairs, &what);
}

static void check(uint32_t at, uint32_t tid, uint64_t begin_ns, uint64_t end_ns, uint32_t reason,
		  uint32_t flags)
{
	assert_true(at < pairs.out_count);
	assert_int_equal(pairs.out[at].pid, PID);
	assert_int_equal(pairs.out[at].tid, tid);
	assert_int_equal(pairs.out[at].interval.begin_ns, begin_ns);
	assert_int_equal(pairs.out[at].interval.end_ns, end_ns);
	assert_int_equal(pairs.out[at].interval.reason, reason);
	assert_int_equal(pairs.out[at].interval.flags, flags);
}

static void pairs__out_and_in_are_an_interval(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(2, 102 * MS, KY_SWITCH_PREEMPTED);
	report(2, 104 * MS, KY_SWITCH_IN);
	report(1, 107 * MS, KY_SWITCH_IN);
	report(1, 108 * MS, KY_SWITCH_OUT);
	report(1, 108 * MS + KY_SWITCH_NS_MIN - 1, KY_SWITCH_IN); /* too short to be written */
	report(1, 109 * MS, KY_SWITCH_PREEMPTED);
	report(1, 110 * MS, KY_SWITCH_IN);
	ky_switch_pairs_end(&pairs, 120 * MS);
	assert_int_equal(pairs.out_count, 3);
	check(0, 2, 102 * MS, 104 * MS, KY_OFF_CPU_PREEMPTED, 0);
	check(1, 1, 101 * MS, 107 * MS, KY_OFF_CPU_SYSCALL, 0);
	check(2, 1, 109 * MS, 110 * MS, KY_OFF_CPU_PREEMPTED, 0);
}

static void pairs__window_cuts_waits_at_its_edges(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 103 * MS, KY_SWITCH_IN);
	report(2, 110 * MS, KY_SWITCH_PREEMPTED);
	assert_true(ky_switch_pairs_has_seen(&pairs, 2));
	assert_false(ky_switch_pairs_has_seen(&pairs, 3));
	ky_switch_pairs_put_whole(&pairs, PID, 3, 120 * MS, KY_OFF_CPU_PREEMPTED);
	ky_switch_pairs_end(&pairs, 120 * MS);
	assert_int_equal(pairs.out_count, 3);
	check(0, 1, 100 * MS, 103 * MS, KY_OFF_CPU_UNKNOWN, KY_SWITCH_BEGIN_UNSEEN);
	check(1, 3, 100 * MS, 120 * MS, KY_OFF_CPU_PREEMPTED,
	      KY_SWITCH_BEGIN_UNSEEN | KY_SWITCH_END_UNSEEN);
	check(2, 2, 110 * MS, 120 * MS, KY_OFF_CPU_PREEMPTED, KY_SWITCH_END_UNSEEN);
	/* Nothing of it is known in the next one. */
	ky_switch_pairs_taken(&pairs);
	ky_switch_pairs_begin(&pairs, 200 * MS, false);
	report(2, 201 * MS, KY_SWITCH_IN);
	check(0, 2, 200 * MS, 201 * MS, KY_OFF_CPU_UNKNOWN, KY_SWITCH_BEGIN_UNSEEN);
}

static void pairs__continued_window_cuts_nothing(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 150 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_begin(&pairs, 200 * MS, true);
	report(1, 250 * MS, KY_SWITCH_IN);
	report(2, 260 * MS, KY_SWITCH_IN); /* it came before the first window, or is new */
	assert_int_equal(pairs.out_count, 1);
	check(0, 1, 150 * MS, 250 * MS, KY_OFF_CPU_SYSCALL, 0);
}

static void pairs__fault_is_the_reason_of_the_wait_before_it(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(1, 102 * MS, KY_SWITCH_IN);
	report(1, 102 * MS + 5000, KY_SWITCH_FAULT);
	report(1, 102 * MS + 6000, KY_SWITCH_FAULT); /* that one did not wait */
	report(2, 103 * MS, KY_SWITCH_OUT);
	report(2, 104 * MS, KY_SWITCH_IN);
	report(2, 106 * MS, KY_SWITCH_FAULT); /* too late to be of that wait */
	report(3, 107 * MS, KY_SWITCH_PREEMPTED);
	report(3, 108 * MS, KY_SWITCH_IN);
	report(3, 108 * MS + 5000, KY_SWITCH_FAULT);
	assert_int_equal(pairs.out_count, 3);
	check(0, 1, 101 * MS, 102 * MS, KY_OFF_CPU_FAULT, 0);
	check(1, 2, 103 * MS, 104 * MS, KY_OFF_CPU_SYSCALL, 0);
	check(2, 3, 107 * MS, 108 * MS, KY_OFF_CPU_PREEMPTED, 0);
	/* What has been taken belongs to the caller. */
	ky_switch_pairs_taken(&pairs);
	report(2, 109 * MS, KY_SWITCH_FAULT);
	assert_int_equal(pairs.out_count, 0);
}

/* Two events report the same fault, in either order. */
static void pairs__stack_of_a_fault_is_that_of_its_wait(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(1, 102 * MS, KY_SWITCH_IN);
	report(1, 102 * MS + 5000, KY_SWITCH_FAULT);
	report_fault(1, 102 * MS + 6000, 41);
	report_fault(1, 102 * MS + 7000, 42); /* of one that did not wait */
	report(2, 101 * MS, KY_SWITCH_OUT);
	report(2, 103 * MS, KY_SWITCH_IN);
	report_fault(2, 103 * MS + 5000, 43);
	report(2, 103 * MS + 6000, KY_SWITCH_FAULT);
	report(3, 103 * MS, KY_SWITCH_OUT);
	report(3, 104 * MS, KY_SWITCH_IN);
	report(3, 104 * MS + 5000, KY_SWITCH_FAULT);
	report_fault(3, 104 * MS + 205000, 44); /* of another fault */
	report(4, 103 * MS, KY_SWITCH_OUT);
	report(4, 104 * MS, KY_SWITCH_IN);
	report_fault(4, 106 * MS, 45); /* too late to be of that wait */
	report(5, 105 * MS, KY_SWITCH_OUT);
	report(5, 106 * MS, KY_SWITCH_IN);
	report(5, 106 * MS + 5000, KY_SWITCH_FAULT);
	report(5, 106 * MS + 10000, KY_SWITCH_OUT);
	report(5, 106 * MS + 15000, KY_SWITCH_IN);
	report_fault(5, 106 * MS + 20000,
		     46); /* of the next wait, which is too short to be written */
	assert_int_equal(pairs.out_count, 5);
	assert_int_equal(pairs.out[0].user, 41);
	assert_int_equal(pairs.out[1].user, 43);
	check(1, 2, 101 * MS, 103 * MS, KY_OFF_CPU_FAULT, 0);
	assert_int_equal(pairs.out[2].user, 0);
	check(3, 4, 103 * MS, 104 * MS, KY_OFF_CPU_SYSCALL, 0);
	assert_int_equal(pairs.out[3].user, 0);
	check(4, 5, 105 * MS, 106 * MS, KY_OFF_CPU_FAULT, 0);
	assert_int_equal(pairs.out[4].user, 0);
	/* What has been taken belongs to the caller, and its place has no stack. */
	ky_switch_pairs_taken(&pairs);
	report_fault(2, 103 * MS + 7000, 47);
	report(2, 107 * MS, KY_SWITCH_PREEMPTED);
	report(2, 108 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 1);
	assert_int_equal(pairs.out[0].user, 0);
}

/* On a busy machine a thread loses its CPU on the way back to what it waited for. */
static void pairs__fault_is_recognised_after_a_preemption(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(1, 102 * MS, KY_SWITCH_IN);
	report(1, 102 * MS + 4000, KY_SWITCH_PREEMPTED);
	report(1, 105 * MS, KY_SWITCH_IN);
	report(1, 105 * MS + 1000, KY_SWITCH_PREEMPTED);
	report(1, 105 * MS + 2000, KY_SWITCH_IN); /* too short to be written */
	report(1, 105 * MS + 5000, KY_SWITCH_FAULT);
	report(1, 106 * MS, KY_SWITCH_OUT);
	report(1, 106 * MS + 1000, KY_SWITCH_IN); /* the last wait, though it is not written */
	report(1, 106 * MS + 2000, KY_SWITCH_FAULT);
	report(2, 107 * MS, KY_SWITCH_OUT);
	report(2, 108 * MS, KY_SWITCH_IN);
	report(2, 108 * MS + 4000, KY_SWITCH_PREEMPTED);
	report(2, 109 * MS, KY_SWITCH_IN);
	report(2, 110 * MS + 5000, KY_SWITCH_FAULT); /* ran for over a millisecond */
	assert_int_equal(pairs.out_count, 4);
	check(0, 1, 101 * MS, 102 * MS, KY_OFF_CPU_FAULT, 0);
	check(1, 1, 102 * MS + 4000, 105 * MS, KY_OFF_CPU_PREEMPTED, 0);
	check(2, 2, 107 * MS, 108 * MS, KY_OFF_CPU_SYSCALL, 0);
	check(3, 2, 108 * MS + 4000, 109 * MS, KY_OFF_CPU_PREEMPTED, 0);
}

static void pairs__loss_ends_all_guesses(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_lost(&pairs);
	report(1, 109 * MS, KY_SWITCH_IN);
	report(2, 109 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 0);
	report(2, 110 * MS, KY_SWITCH_OUT);
	report(2, 111 * MS, KY_SWITCH_IN);
	check(0, 2, 110 * MS, 111 * MS, KY_OFF_CPU_SYSCALL, 0);
}

static void pairs__more_than_fits_is_counted(void **state)
{
	(void)state;
	ky_switch_pairs_begin(&pairs, 0, false);
	for (uint64_t i = 0; i < KY_PAIRS_INTERVALS + 10; i++) {
		report(1, (2 * i + 1) * MS, KY_SWITCH_OUT);
		report(1, (2 * i + 2) * MS, KY_SWITCH_IN);
	}
	assert_int_equal(pairs.out_count, KY_PAIRS_INTERVALS);
	assert_int_equal(pairs.dropped_count, 10);
	/* More threads than there is room for do no harm, and the next window has room again. */
	for (uint32_t tid = 2; tid < 2 * KY_PAIRS_THREADS; tid++)
		report(tid, MS, KY_SWITCH_OUT);
	ky_switch_pairs_begin(&pairs, MS, true);
	ky_switch_pairs_taken(&pairs);
	report(3 * KY_PAIRS_THREADS, 2 * MS, KY_SWITCH_OUT);
	report(3 * KY_PAIRS_THREADS, 3 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 1);
}

static void pairs__intervals_survive_their_packing(void **state)
{
	const struct ky_switch_interval all[] = {
		{1000 * MS, 1000 * MS + 20000, KY_OFF_CPU_FAULT, 0, 1, 19999, 0, 0, 0},
		{2000 * MS, 900000 * MS, KY_OFF_CPU_PREEMPTED, KY_SWITCH_END_UNSEEN, 898000 * MS,
		 898000 * MS, 0, 0, 0},
		{1000 * MS, 2000 * MS, KY_OFF_CPU_UNKNOWN, KY_SWITCH_BEGIN_UNSEEN, 0, 123456789, 0,
		 0, 0},
		{1000 * MS, 1000 * MS, KY_OFF_CPU_SYSCALL, 0, 0, 0, 0, 0, 0},
	};
	struct ky_switch_interval out;
	uint64_t frames[KY_SWITCH_FRAMES], part;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		ky_switch_enc(&all[i], 1000 * MS, frames);
		assert_true(frames[0] >> 47 == 0 && frames[1] >> 47 == 0);
		ky_switch_dec(&out, 1000 * MS, frames);
		assert_int_equal(out.begin_ns, all[i].begin_ns);
		assert_int_equal(out.end_ns, all[i].end_ns);
		assert_int_equal(out.reason, all[i].reason);
		assert_int_equal(out.flags, all[i].flags);
		/* Within a millionth of the length, and never tighter than they were. */
		part = (all[i].end_ns - all[i].begin_ns) / 1000000 + 1;
		assert_in_range(all[i].runnable_min_ns, out.runnable_min_ns,
				out.runnable_min_ns + part);
		assert_in_range(out.runnable_max_ns, all[i].runnable_max_ns,
				all[i].runnable_max_ns + part);
	}
	frames[0] = frames[1] = frames[2] = UINT64_MAX; /* of no thread */
	ky_switch_dec(&out, 0, frames);
	assert_int_equal(out.reason, KY_OFF_CPU_UNKNOWN);
	assert_int_equal(out.end_ns - out.begin_ns, KY_SWITCH_LENGTH_MAX);
	frames[2] = KY_SWITCH_PARTS; /* at least all, at most nothing */
	ky_switch_dec(&out, 0, frames);
	assert_int_equal(out.runnable_min_ns, out.runnable_max_ns);
}

static void pairs__wakers_survive_their_packing(void **state)
{
	const struct ky_switch_interval all[] = {
		{MS, 3 * MS, KY_OFF_CPU_SYSCALL, 0, 123457, 123457, KY_WAKER_ID_MAX, 1,
		 KY_WOKEN_BY_THREAD},
		{MS, 3 * MS, KY_OFF_CPU_SYSCALL, 0, 0, 2 * MS, 0, 0, KY_WOKEN_BY_INTERRUPT},
	};
	uint64_t frames[KY_SWITCH_FRAMES_MAX], name_frames[KY_WAKER_FRAMES];
	char name[KY_WAKER_NAME_BYTES];
	struct ky_switch_interval out;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		ky_switch_enc(&all[i], 0, frames);
		frames[3] = ky_switch_enc_waker(&all[i]);
		assert_true(frames[3] >> 47 == 0);
		ky_switch_dec(&out, 0, frames);
		ky_switch_dec_waker(&out, frames[3]);
		assert_int_equal(out.by, all[i].by);
		assert_int_equal(out.by_pid, all[i].by_pid);
		assert_int_equal(out.by_tid, all[i].by_tid);
		/* What is known exactly stays so. */
		assert_int_equal(out.runnable_min_ns == out.runnable_max_ns, i == 0);
	}
	ky_switch_dec_waker(&out, UINT64_MAX); /* of no thread */
	assert_int_equal(out.by, KY_WOKEN_UNKNOWN);
	ky_waker_enc("fifteen bytes..", name_frames);
	for (uint32_t i = 0; i < KY_WAKER_FRAMES; i++)
		assert_true(name_frames[i] >> 47 == 0);
	ky_waker_dec(name, name_frames);
	assert_string_equal(name, "fifteen bytes..");
}

static void report_wake(uint32_t tid, uint64_t ns, uint32_t by_tid)
{
	const struct ky_perf_switch what = {.tid = tid,
					    .ns = ns,
					    .kind = KY_SWITCH_WOKEN,
					    .by_pid = by_tid ? PID : 0,
					    .by_tid = by_tid,
					    .is_by_interrupt = !by_tid};

	ky_switch_pairs_take(&pairs, &what);
}

/* Threads up to 9 are covered. */
static bool covers(void *ctx, uint32_t tid, uint64_t from_ns)
{
	(void)ctx;
	return tid < 10 && from_ns >= 50 * MS;
}

static void check_parts(uint32_t at, uint64_t least_ns, uint64_t most_ns, uint32_t by,
			uint32_t by_tid)
{
	assert_true(at < pairs.out_count);
	assert_int_equal(pairs.out[at].interval.runnable_min_ns, least_ns);
	assert_int_equal(pairs.out[at].interval.runnable_max_ns, most_ns);
	assert_int_equal(pairs.out[at].interval.by, by);
	assert_int_equal(pairs.out[at].interval.by_tid, by_tid);
}

static void pairs__wake_up_splits_blocked_from_ready(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report_wake(1, 104 * MS, 7);
	report_wake(1, 105 * MS, 8); /* reported twice: the first one counts */
	report(1, 106 * MS, KY_SWITCH_IN);
	report(1, 107 * MS, KY_SWITCH_OUT);
	report_wake(1, 109 * MS, 0);
	report(1, 110 * MS, KY_SWITCH_IN);
	report(1, 111 * MS, KY_SWITCH_PREEMPTED);
	report(1, 112 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 3);
	check(0, 1, 101 * MS, 106 * MS, KY_OFF_CPU_SYSCALL, 0);
	check_parts(0, 2 * MS, 2 * MS, KY_WOKEN_BY_THREAD, 7);
	check_parts(1, MS, MS, KY_WOKEN_BY_INTERRUPT, 0);
	check_parts(2, MS, MS, KY_WOKEN_UNKNOWN, 0);
}

static void pairs__wake_up_on_the_way_out_leaves_nothing_blocked(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	/* One that led to no wait, then one that did. */
	report(1, 101 * MS, KY_SWITCH_IN);
	report_wake(1, 102 * MS, 7);
	report_wake(1, 103 * MS, 8);
	report(1, 103 * MS + 100, KY_SWITCH_OUT);
	report(1, 105 * MS, KY_SWITCH_IN);
	/* What ended before is of no use for the next one. */
	report(1, 106 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_end(&pairs, 108 * MS);
	assert_int_equal(pairs.out_count, 3);
	check_parts(1, 2 * MS - 100, 2 * MS - 100, KY_WOKEN_BY_THREAD, 8);
	check_parts(2, 0, 2 * MS, KY_WOKEN_UNKNOWN, 0); /* it waits still, as far as is reported */
}

/* The thread was woken for another wait than this one, or for none. */
static void pairs__wake_up_long_before_a_wait_did_not_end_it(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(1, 101 * MS, KY_SWITCH_IN);
	report_wake(1, 102 * MS, 7);
	report(1, 103 * MS, KY_SWITCH_OUT);
	report(1, 105 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 2);
	check_parts(1, 0, 2 * MS, KY_WOKEN_UNKNOWN, 0);
}

/* Of another CPU, whose record was there before that of the way out. */
static void pairs__wake_up_is_known_where_its_record_comes_first(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report_wake(1, 103 * MS, 7);
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(1, 104 * MS, KY_SWITCH_IN);
	assert_int_equal(pairs.out_count, 1);
	check_parts(0, MS, MS, KY_WOKEN_BY_THREAD, 7);
}

/* The kernel leaves some out and does not say which: neither ready nor blocked is a fact then. */
static void pairs__wait_without_a_wake_up_record_is_not_split(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(2, 101 * MS, KY_SWITCH_IN); /* since before the window */
	report(1, 101 * MS, KY_SWITCH_OUT);
	report(1, 104 * MS, KY_SWITCH_IN);
	report(1, 104 * MS + 9000, KY_SWITCH_FAULT);
	report(1, 105 * MS, KY_SWITCH_PREEMPTED); /* it needs no wake-up */
	report(1, 106 * MS, KY_SWITCH_IN);
	report(1, 107 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_put_whole(&pairs, PID, 3, 110 * MS, KY_OFF_CPU_PREEMPTED);
	ky_switch_pairs_put_whole(&pairs, PID, 4, 110 * MS, KY_OFF_CPU_SYSCALL);
	ky_switch_pairs_end(&pairs, 110 * MS);
	assert_int_equal(pairs.out_count, 6);
	check_parts(0, 0, MS, KY_WOKEN_UNKNOWN, 0);
	check(1, 1, 101 * MS, 104 * MS, KY_OFF_CPU_FAULT, 0);
	check_parts(1, 0, 3 * MS, KY_WOKEN_UNKNOWN, 0);
	check_parts(2, MS, MS, KY_WOKEN_UNKNOWN, 0);
	/* Ready at the window's end; since when is not reported. The other one was seen to wait. */
	check(3, 3, 100 * MS, 110 * MS, KY_OFF_CPU_UNKNOWN,
	      KY_SWITCH_BEGIN_UNSEEN | KY_SWITCH_END_UNSEEN);
	check_parts(3, 0, 10 * MS, KY_WOKEN_UNKNOWN, 0);
	check_parts(4, 0, 0, KY_WOKEN_UNKNOWN, 0);
	check_parts(5, 0, 3 * MS, KY_WOKEN_UNKNOWN, 0);
}

static void pairs__wake_up_across_the_edges_of_a_window(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report_wake(1, 103 * MS, 7);
	report(1, 104 * MS, KY_SWITCH_IN);
	report(2, 105 * MS, KY_SWITCH_IN); /* woken before the window */
	report_wake(3, 106 * MS, 7);       /* and does not run in it */
	report_wake(4, 107 * MS, 7);
	report(5, 108 * MS, KY_SWITCH_OUT);
	report_wake(5, 109 * MS, 8);
	ky_switch_pairs_put_whole(&pairs, PID, 3, 110 * MS, KY_OFF_CPU_PREEMPTED);
	ky_switch_pairs_put_whole(&pairs, PID, 6, 110 * MS, KY_OFF_CPU_PREEMPTED);
	ky_switch_pairs_end(&pairs, 110 * MS);
	assert_int_equal(pairs.out_count, 5);
	check(0, 1, 100 * MS, 104 * MS, KY_OFF_CPU_SYSCALL, KY_SWITCH_BEGIN_UNSEEN);
	check_parts(0, MS, MS, KY_WOKEN_BY_THREAD, 7);
	check_parts(1, 0, 5 * MS, KY_WOKEN_UNKNOWN, 0);
	check_parts(2, 4 * MS, 4 * MS, KY_WOKEN_BY_THREAD, 7);
	check_parts(3, 0, 10 * MS, KY_WOKEN_UNKNOWN, 0); /* it may have been ready all the time */
	check_parts(4, MS, MS, KY_WOKEN_BY_THREAD, 8);
}

static void pairs__recorded_wake_up_is_enough_and_none_is_guessed(void **state)
{
	(void)state;
	pairs.covers = covers;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	report(11, 101 * MS, KY_SWITCH_OUT);
	report(11, 102 * MS, KY_SWITCH_IN); /* not covered */
	report(11, 103 * MS, KY_SWITCH_OUT);
	report_wake(11, 104 * MS, 7); /* reported nevertheless */
	report(11, 105 * MS, KY_SWITCH_IN);
	check_parts(0, 0, MS, KY_WOKEN_UNKNOWN, 0);
	check_parts(1, MS, MS, KY_WOKEN_BY_THREAD, 7);
	ky_switch_pairs_taken(&pairs);
	report(1, 106 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_lost(&pairs);
	report(1, 107 * MS, KY_SWITCH_OUT);
	ky_switch_pairs_begin(&pairs, 108 * MS, true);
	report(1, 109 * MS, KY_SWITCH_IN); /* its wake-up may be what was lost */
	check_parts(0, 0, 2 * MS, KY_WOKEN_UNKNOWN, 0);
	report(1, 110 * MS, KY_SWITCH_OUT);
	report(1, 111 * MS, KY_SWITCH_IN);
	check_parts(1, 0, MS, KY_WOKEN_UNKNOWN, 0);
	/* Covered since a moment inside of the wait. */
	ky_switch_pairs_taken(&pairs);
	ky_switch_pairs_begin(&pairs, 20 * MS, false);
	report(1, 40 * MS, KY_SWITCH_OUT);
	report(1, 60 * MS, KY_SWITCH_IN);
	check_parts(0, 0, 20 * MS, KY_WOKEN_UNKNOWN, 0);
}

static void pairs__sums_include_short_waits(void **state)
{
	struct ky_switch_sums sums;
	uint64_t series;

	(void)state;
	ky_switch_pairs_begin(&pairs, 100 * MS, false);
	assert_false(ky_switch_pairs_sums(&pairs, 1, &sums));
	series = sums.series;
	report(1, 103 * MS, KY_SWITCH_IN); /* it waited since before the window */
	report(1, 104 * MS, KY_SWITCH_PREEMPTED);
	report(1, 106 * MS, KY_SWITCH_IN);
	report(1, 107 * MS, KY_SWITCH_OUT);
	report(1, 107 * MS + 100, KY_SWITCH_IN);
	report(1, 108 * MS, KY_SWITCH_OUT); /* not over */
	assert_true(ky_switch_pairs_sums(&pairs, 1, &sums));
	assert_int_equal(sums.in_count, 3);
	assert_int_equal(sums.waited_ns, 3 * MS + 100);
	assert_int_equal(sums.preempted_ns, 2 * MS);
	assert_int_equal(sums.series, series);
	/* Preempted: ready all the time. Else it is not known yet; or it is known to wait still. */
	assert_int_equal(pairs.out[0].interval.runnable_min_ns, 0);
	assert_int_equal(pairs.out[0].interval.runnable_max_ns, 3 * MS);
	assert_int_equal(pairs.out[1].interval.runnable_min_ns, 2 * MS);
	ky_switch_pairs_put_whole(&pairs, PID, 3, 120 * MS, KY_OFF_CPU_SYSCALL);
	assert_int_equal(pairs.out[2].interval.runnable_max_ns, 0);
	ky_switch_pairs_lost(&pairs);
	assert_false(ky_switch_pairs_sums(&pairs, 1, &sums));
	assert_int_not_equal(sums.series, series);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_pairs, close_pairs)
		CASE(pairs__out_and_in_are_an_interval),
		CASE(pairs__window_cuts_waits_at_its_edges),
		CASE(pairs__continued_window_cuts_nothing),
		CASE(pairs__fault_is_the_reason_of_the_wait_before_it),
		CASE(pairs__stack_of_a_fault_is_that_of_its_wait),
		CASE(pairs__fault_is_recognised_after_a_preemption),
		CASE(pairs__loss_ends_all_guesses),
		CASE(pairs__more_than_fits_is_counted),
		CASE(pairs__intervals_survive_their_packing),
		CASE(pairs__wakers_survive_their_packing),
		CASE(pairs__wake_up_splits_blocked_from_ready),
		CASE(pairs__wake_up_on_the_way_out_leaves_nothing_blocked),
		CASE(pairs__wake_up_across_the_edges_of_a_window),
		CASE(pairs__wake_up_long_before_a_wait_did_not_end_it),
		CASE(pairs__wake_up_is_known_where_its_record_comes_first),
		CASE(pairs__wait_without_a_wake_up_record_is_not_split),
		CASE(pairs__recorded_wake_up_is_enough_and_none_is_guessed),
		CASE(pairs__sums_include_short_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
