/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that stay open, what is noted about them, runtimes that stand still. Time is the test's. */
#include "../../lib/prng.h"
#include "../../lib/watch_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- polls ---- */

/* Whenever a poll begins between two checks, whatever the threshold: fired at most 100 ms late. */
static void poll__fires_within_100_ms_of_its_threshold(void **state)
{
	static const uint64_t thresholds[] = {1, 10, 60, 100, 250, 1000, 7000, 60000};
	struct test_prng prng = {1};
	char rule[64];

	for (size_t i = 0; i < sizeof(thresholds) / sizeof(*thresholds); i++) {
		for (int round = 0; round < 6; round++) {
			uint64_t begin = START + 3000 * MS + test_below(&prng, 2000) * MS + 7;
			uint64_t threshold = thresholds[i] * MS, late;

			watch_teardown(state);
			watch_setup_worker(state);
			snprintf(rule, sizeof(rule), "poll>%llums",
				 (unsigned long long)thresholds[i]);
			watch_case_arm(&watch, rule);
			watch_case_until(&watch, begin);
			test_poll(&writer, begin, TASK, 0);
			watch_case_until(&watch, begin + threshold);
			assert_int_equal(watch.fired_count, 0);
			watch_case_until(&watch, begin + threshold + 100 * MS);
			assert_int_equal(watch.fired_count, 1);
			late = fired(0)->monotonic_ns - begin - threshold;
			assert_in_range(late, 1, 100 * MS);
			assert_in_range(fired(0)->value, threshold + 1, threshold + 100 * MS);
			assert_int_equal(fired(0)->tid, TID);
			assert_int_equal(fired(0)->task, TASK);
			assert_int_equal(fired(0)->runtime, 0x1000);
			assert_int_equal(fired(0)->rule_index, 0);
			assert_int_equal(fired(0)->rule->threshold, threshold);
			/* And once only, however long it lasts. */
			watch_case_until(&watch, begin + threshold + 20000 * MS);
			assert_int_equal(watch.fired_count, 1);
		}
	}
}

static void poll__that_ends_in_time_is_silent(void **state)
{
	uint64_t now = START;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	for (int i = 0; i < 200; i++) {
		test_poll(&writer, now, TASK, 0);
		watch_case_until(&watch, now += 99 * MS);
		test_poll_end(&writer, now, 0);
		now += (uint64_t)i % 3;
	}
	assert_int_equal(watch.fired_count, 0);
	test_poll(&writer, now, TASK, 0);
	watch_case_until(&watch, now + 200 * MS);
	assert_int_equal(watch.fired_count, 1);
}

static void poll__in_the_blocking_pool_does_not_count(void **state)
{
	struct test_writer pool;

	(void)state;
	test_writer_open(&pool, &watch.ring, 88, START);
	test_emit(&pool, START, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	watch_case_arm(&watch, "poll>100ms; stall>100ms");
	watch_case_until(&watch, START + 5000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

static void poll__nested_counts_its_outermost(void **state)
{
	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	test_poll(&writer, START, TASK, 0);
	for (uint64_t now = START; now < START + 90 * MS; now += 10 * MS) {
		test_poll(&writer, now, 50, 0);
		watch_case_until(&watch, now + 10 * MS);
		test_poll_end(&writer, now + 10 * MS, 0);
	}
	test_poll(&writer, START + 90 * MS, 51, 0);
	watch_case_until(&watch, START + 200 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->task, TASK);
	assert_true(fired(0)->value > 100 * MS);
}

/* The poll goes along from sub-buffer to sub-buffer, round the ring more than once. */
static void poll__is_followed_across_sub_buffers(void **state)
{
	uint64_t now = START;

	(void)state;
	watch_case_arm(&watch, "poll>300ms");
	test_poll(&writer, now, TASK, 0);
	for (int i = 0; i < 90; i++) {
		test_writer_claim(&writer, now += 5 * MS);
		test_emit(&writer, now, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(3, 0), 0, 0);
		watch_case_until(&watch, now);
	}
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->task, TASK);
	assert_in_range(fired(0)->value, 300 * MS, 400 * MS);
}

/* A pool thread that took over a sub-buffer polls now: it is the one that hangs. */
static void poll__of_a_thread_that_continues_a_sub_buffer(void **state)
{
	struct test_writer heir;

	(void)state;
	fake_proc_thread(&watch.proc, 99, 'R', "running", "0");
	watch_case_arm(&watch, "poll>100ms");
	watch_case_until(&watch, START + 300 * MS);
	test_writer_exit(&writer, START + 300 * MS, true);
	test_writer_open(&heir, &watch.ring, 99, START + 310 * MS);
	test_writer_continue(&heir, &writer, START + 310 * MS);
	watch_case_until(&watch, START + 400 * MS);
	test_poll(&heir, START + 410 * MS, 31, 0);
	watch_case_until(&watch, START + 700 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->tid, 99);
	assert_int_equal(fired(0)->notes[0].syscall, -1);
}

/* block_in_place: the worker continues elsewhere, so the poll blocks no task. */
static void poll__whose_worker_moved_is_excused(void **state)
{
	struct test_writer next;

	(void)state;
	watch_case_arm(&watch, "poll>100ms; stall>100ms");
	watch_case_until(&watch, START + 300 * MS);
	test_poll(&writer, START + 300 * MS, TASK, 0);
	watch_case_until(&watch, START + 320 * MS);
	test_writer_open(&next, &watch.ring, 99, START + 330 * MS);
	test_worker(&next, START + 330 * MS, 4, 0x1000, 0x2000);
	test_emit(&next, START + 331 * MS, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
	watch_case_until(&watch, START + 3000 * MS);
	assert_int_equal(watch.fired_count, 0);
	/* The next one of the same thread counts again. */
	fake_proc_thread(&watch.proc, 99, 'R', "running", "0");
	test_poll(&next, START + 3000 * MS, 13, 0);
	watch_case_until(&watch, START + 3200 * MS);
	assert_in_range(watch.fired_count, 1, 2);
	assert_int_equal(fired(0)->task, 13);
}

static void poll__open_before_the_watchdog_fires_at_once(void **state)
{
	(void)state;
	test_poll(&writer, START, TASK, 0);
	watch.ring.now_ns = START + 9000 * MS;
	watch_case_arm(&watch, "poll>1s");
	watch_case_until(&watch, START + 9000 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 8999 * MS, 9001 * MS);
}

/* The record that said whose worker it is has been overwritten before we came. */
static void poll__of_a_worker_that_is_old(void **state)
{
	uint64_t now = START;

	(void)state;
	for (int i = 0; i < 90; i++) {
		test_writer_claim(&writer, now += MS);
		test_poll(&writer, now, TASK, 0);
		test_poll_end(&writer, now, 0);
	}
	watch.ring.now_ns = now;
	watch_case_arm(&watch, "poll>100ms; stall>1s");
	watch_case_until(&watch, now + 1000 * MS);
	test_poll(&writer, now + 1000 * MS, TASK, 0);
	watch_case_until(&watch, now + 2200 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(0)->runtime, 0x1000);
	assert_int_equal(fired(1)->runtime, 0x1000);
}

static void poll__many_at_a_time_share_a_firing(void **state)
{
	struct test_writer others[6];

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		fake_proc_thread(&watch.proc, 100 + i, 'S', "202 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2",
				 "futex_wait_queue");
		test_writer_open(&others[i], &watch.ring, 100 + i, START);
		test_worker(&others[i], START, 3, 0x1000, 0x3000 + i);
		test_poll(&others[i], START + (10 - i) * MS, 20 + i, 0);
	}
	watch_case_arm(&watch, "poll>100ms cooldown=1s");
	watch_case_until(&watch, START + 30000 * MS);
	/* The first at 105 ms; some of the others were not over it yet, and fire together
	 * once the cooldown is over. */
	assert_in_range(watch.fired_count, 1, 2);
	assert_int_equal(fired(0)->tid, 105);
	assert_in_range(fired(0)->note_count, 1, KY_STUCK_NOTES);
}

/* ---- notes ---- */

static void notes__say_what_the_thread_does(void **state)
{
	const struct ky_stuck_note *note;

	(void)state;
	watch_case_arm(&watch, "poll>400ms");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 500 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->note_count, 3, 6);
	note = &fired(0)->notes[0];
	/* From half of the threshold on. */
	assert_in_range(note->monotonic_ns, START + 200 * MS, START + 300 * MS);
	assert_int_equal(note->begin_ns, START);
	assert_int_equal(note->task, TASK);
	assert_int_equal(note->tid, TID);
	assert_int_equal(note->state, 'S');
	assert_int_equal(note->syscall, 202);
	assert_int_equal(note->sp, 0x7ffe10);
	assert_int_equal(note->pc, 0x55aa20);
	assert_string_equal(note->wchan, "futex_wait_queue");
}

static void notes__cover_the_whole_time(void **state)
{
	static struct ky_stuck_note after[KY_STUCK_NOTES];
	size_t count;

	(void)state;
	watch_case_arm(&watch, "poll>100ms; poll>1h");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 3603000 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_in_range(fired(1)->note_count, KY_STUCK_NOTES / 2, KY_STUCK_NOTES);
	assert_in_range(fired(1)->notes[0].monotonic_ns, START + 50 * MS, START + 100 * MS);
	assert_true(fired(1)->notes[fired(1)->note_count - 1].monotonic_ns ==
		    fired(1)->monotonic_ns);
	for (size_t i = 1; i < fired(1)->note_count; i++)
		assert_true(fired(1)->notes[i].monotonic_ns - fired(1)->notes[i - 1].monotonic_ns <
			    360000 * MS);
	/* What came after the firing is there for the dump. */
	count = ky_watchdog_notes(watch.watchdog, after, KY_STUCK_NOTES);
	assert_in_range(count, 1, KY_STUCK_NOTES);
	assert_true(after[0].monotonic_ns > fired(1)->monotonic_ns);
}

/* The counter is not quite as fast as its header says: the notes of one poll agree all the same. */
static void notes__of_one_poll_have_one_begin(void **state)
{
	(void)state;
	watch.ring.drift_ppm = 40;
	watch_case_arm(&watch, "poll>900ms");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 1200 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->note_count, 3, KY_STUCK_NOTES);
	for (size_t i = 1; i < fired(0)->note_count; i++)
		assert_int_equal(fired(0)->notes[i].begin_ns, fired(0)->notes[0].begin_ns);
}

static void notes__unreadable_values_are_marked(void **state)
{
	char path[200];

	(void)state;
	snprintf(path, sizeof(path), "task/%u/stat", TID);
	fake_proc_remove(&watch.proc, path);
	snprintf(path, sizeof(path), "%s/%u/task/%u/stat", watch.proc.proc, WATCH_PID, TID);
	assert_int_equal(mkdir(path, 0700), 0); /* opens, but cannot be read */
	fake_proc_remove(&watch.proc, "task/77/syscall");
	fake_proc_remove(&watch.proc, "task/77/wchan");
	watch_case_arm(&watch, "poll>100ms");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->notes[0].state, '?');
	assert_int_equal(fired(0)->notes[0].syscall, -2);
	assert_string_equal(fired(0)->notes[0].wchan, "");
}

/* Its thread ids are others here: nothing of ours may be taken for its threads. */
static void notes__of_another_namespace_are_unreadable(void **state)
{
	char path[200];

	(void)state;
	watch.ring.header->pid_namespace = 4026531999;
	snprintf(path, sizeof(path), "%s/self", watch.proc.proc);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/self/ns", watch.proc.proc);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/self/ns/pid", watch.proc.proc);
	assert_int_equal(symlink("pid:[4026531836]", path), 0);
	watch_case_arm(&watch, "poll>100ms");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->notes[0].state, '?');
}

/* ---- stopped ---- */

static void stopped__process_is_not_stuck(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "poll>200ms");
	test_poll(&writer, START, TASK, 0);
	fake_proc_thread(&watch.proc, TID, 'T', "running", "0");
	watch_case_until(&watch, START + 60000 * MS);
	assert_int_equal(watch.fired_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.stopped_count, 1);
	/* It continues and hangs for as long as the rule says. */
	fake_proc_thread(&watch.proc, TID, 'S', "0 0x3 0x0 0x0 0x0 0x0 0x0 0x1 0x2", "pipe_read");
	watch_case_until(&watch, START + 60100 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 60400 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 200 * MS, 400 * MS);
	assert_int_equal(fired(0)->stopped_count, 1);
}

/* ---- stall ---- */

static struct test_writer second, third;

/* Two workers of one runtime and one of another. */
static void three_workers(void)
{
	test_writer_open(&second, &watch.ring, 78, START);
	test_worker(&second, START, 3, 0x1000, 0x2001);
	test_writer_open(&third, &watch.ring, 79, START);
	test_worker(&third, START, 3, 0x9000, 0x2002);
	fake_proc_thread(&watch.proc, 78, 'S', "202 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2", "futex_wait");
	fake_proc_thread(&watch.proc, 79, 'R', "running", "0");
}

static void park(struct test_writer *of, uint64_t ns)
{
	test_emit(of, ns, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
}

static void stall__all_workers_of_a_runtime_hang(void **state)
{
	uint64_t now = START;

	(void)state;
	three_workers();
	watch_case_arm(&watch, "stall>1s");
	watch_case_until(&watch, START + 1000 * MS);
	test_poll(&writer, START + 1000 * MS, TASK, 0);
	test_poll(&second, START + 1200 * MS, TASK + 1, 0);
	/* The other runtime is busy all the time. */
	for (now = START + 1200 * MS; now < START + 2150 * MS; now += 10 * MS) {
		test_poll(&third, now, 99, 0);
		test_poll_end(&third, now + MS, 0);
		watch_case_until(&watch, now + 10 * MS);
	}
	assert_int_equal(watch.fired_count, 0);
	for (; now < START + 2400 * MS; now += 10 * MS) {
		test_poll(&third, now, 99, 0);
		test_poll_end(&third, now + MS, 0);
		watch_case_until(&watch, now + 10 * MS);
	}
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->monotonic_ns, START + 2200 * MS, START + 2300 * MS);
	assert_in_range(fired(0)->value, 1000 * MS, 1100 * MS);
	assert_int_equal(fired(0)->runtime, 0x1000);
	assert_int_equal(fired(0)->tid, TID);
	assert_int_equal(fired(0)->task, TASK);
	/* Both threads' notes. */
	assert_in_range(fired(0)->note_count, 2, KY_STUCK_NOTES);
	watch_case_until(&watch, now + 100000 * MS);
	/* The other one is silent by now, but in no poll. */
	assert_int_equal(watch.fired_count, 1);
}

static void stall__a_parked_worker_is_fine(void **state)
{
	(void)state;
	three_workers();
	park(&third, START);
	park(&second, START);
	test_poll(&writer, START, TASK, 0);
	watch_case_arm(&watch, "stall>1s");
	watch_case_until(&watch, START + 100000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

/* One hangs where the recording was stopped; of the others nothing is seen, busy as they are. */
static void stall__a_recording_that_was_stopped_is_fine(void **state)
{
	struct ky_ring_control *control = watch.ring.control;

	(void)state;
	three_workers();
	test_poll(&writer, START, TASK, 0);
	watch_case_arm(&watch, "stall>1s; poll>2s");
	atomic_store(&control->settings.stopped_ns, START);
	watch_case_until(&watch, START + 10000 * MS);
	assert_int_equal(watch.fired_count, 0);
	atomic_store(&control->settings.stopped_ns, 0);
	watch_case_until(&watch, START + 10900 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 15000 * MS);
	assert_int_equal(watch.fired_count, 2);
}

static void stall__idle_is_fine(void **state)
{
	(void)state;
	three_workers();
	park(&writer, START + MS);
	park(&second, START + MS);
	park(&third, START + MS);
	watch_case_arm(&watch, "stall>100ms");
	watch_case_until(&watch, START + 100000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

static void stall__all_parked_although_tasks_are_ready(void **state)
{
	(void)state;
	three_workers();
	park(&writer, START + MS);
	park(&second, START + MS);
	park(&third, START + MS);
	watch.options.has_sums = true;
	watch.sums = (struct ky_event_sums){.is_known = true};
	watch_case_arm(&watch, "stall>1s");
	watch_case_until(&watch, START + 5000 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch.sums.ready_count = 3;
	watch_case_until(&watch, START + 5900 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 6600 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->runtime, 0);
}

static void stall__stopped_process_is_fine(void **state)
{
	(void)state;
	test_poll(&writer, START, TASK, 0);
	fake_proc_thread(&watch.proc, TID, 'T', "running", "0");
	fake_proc_stat(&watch.proc, 'T', 0);
	watch_case_arm(&watch, "stall>1s");
	watch_case_until(&watch, START + 60000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

/* Without parks in the ring, what is in no poll may be asleep. */
static void stall__needs_parks_to_know(void **state)
{
	(void)state;
	three_workers();
	test_poll(&writer, START, TASK, 0);
	atomic_store(&watch.ring.control->gates, KYMO_GATES_DEFAULT & ~KYMO_GATE_PARK);
	watch_case_arm(&watch, "stall>1s");
	watch_case_until(&watch, START + 20000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORKER_CASE(poll__fires_within_100_ms_of_its_threshold),
		WORKER_CASE(poll__that_ends_in_time_is_silent),
		WORKER_CASE(poll__in_the_blocking_pool_does_not_count),
		WORKER_CASE(poll__nested_counts_its_outermost),
		WORKER_CASE(poll__is_followed_across_sub_buffers),
		WORKER_CASE(poll__of_a_thread_that_continues_a_sub_buffer),
		WORKER_CASE(poll__whose_worker_moved_is_excused),
		WORKER_CASE(poll__open_before_the_watchdog_fires_at_once),
		WORKER_CASE(poll__of_a_worker_that_is_old),
		WORKER_CASE(poll__many_at_a_time_share_a_firing),
		WORKER_CASE(notes__say_what_the_thread_does),
		WORKER_CASE(notes__cover_the_whole_time),
		WORKER_CASE(notes__of_one_poll_have_one_begin),
		WORKER_CASE(notes__unreadable_values_are_marked),
		WORKER_CASE(notes__of_another_namespace_are_unreadable),
		WORKER_CASE(stopped__process_is_not_stuck),
		WORKER_CASE(stall__all_workers_of_a_runtime_hang),
		WORKER_CASE(stall__a_parked_worker_is_fine),
		WORKER_CASE(stall__a_recording_that_was_stopped_is_fine),
		WORKER_CASE(stall__idle_is_fine),
		WORKER_CASE(stall__all_parked_although_tasks_are_ready),
		WORKER_CASE(stall__stopped_process_is_fine),
		WORKER_CASE(stall__needs_parks_to_know),
	};

	return cmocka_run_group_tests_name("poll_rules", tests, NULL, NULL);
}
