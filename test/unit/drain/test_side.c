/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Marks, counters, crashes and what a watchdog saw, in streams and in cuts; settings. */
#include "../../lib/cut_case.h"

#include <ring/ring_view.h>
#include <stdio.h>

#define SECOND (1000 * MS)

static void put_mark(struct test_ring *ring, uint64_t ns, const char *text, size_t bytes)
{
	uint64_t number = atomic_fetch_add(&ring->side->mark_claim_index, 1);
	struct ky_ring_mark *mark = &ring->side->marks[number % KY_MARKS];

	atomic_store(&mark->serial, 0);
	mark->monotonic_ns = ns;
	mark->text_bytes = (uint32_t)bytes;
	for (size_t i = 0; i < bytes && i < KY_MARK_TEXT_BYTES && text[i]; i++)
		mark->text[i] = text[i];
	atomic_store(&mark->serial, number + 1);
}

static void put_counter(struct test_ring *ring, uint32_t index, const char *name, int64_t value)
{
	struct ky_ring_counter *counter = &ring->side->counters[index];

	memcpy(counter->name, name, strlen(name));
	atomic_store(&counter->value, (uint64_t)value);
	if (atomic_load(&ring->side->counter_count) <= index)
		atomic_store(&ring->side->counter_count, index + 1);
}

static void put_crash(struct test_ring *ring, uint64_t ns)
{
	struct ky_ring_crash *crash = &ring->side->crash;

	crash->signal = 11;
	crash->code = -6;
	crash->tid = 501;
	crash->address = 0xdead;
	crash->monotonic_ns = ns;
	crash->ticks = test_ticks(ns);
	crash->pc = 0x1111;
	crash->sp = 0x2222;
	crash->fp = 0x3333;
	crash->register_count = UINT32_MAX; /* hostile: as many as there is room for */
	crash->stack_bytes = UINT32_MAX;
	crash->registers[1] = 42;
	crash->stack[5] = 7;
	atomic_store(&crash->state, 2);
}

static void side__marks_reach_a_stream_once_each_and_in_their_place(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	put_mark(&c.ring, T0 + 2 * MS, "deploy 7", 8);
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_step(&c, T0 + 10 * MS);
	case_step(&c, T0 + 20 * MS);
	put_mark(&c.ring, T0 + 22 * MS, "caf\xc3\xa9 \xff\n", 8);
	put_mark(&c.ring, T0 + 23 * MS, "long", UINT32_MAX);
	case_step(&c, T0 + 30 * MS);
	case_finish(&c, T0 + 40 * MS);
	assert_int_equal(COUNT(&c, ANNOTATION), 3);
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 0), ANNOTATION, label), "deploy 7");
	assert_int_equal(NUMBER(EVENT(&c, ANNOTATION, 0), ANNOTATION, tid), 0);
	assert_in_range(EVENT(&c, ANNOTATION, 0)->ns, T0 + 2 * MS, T0 + 2 * MS + 20);
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 1), ANNOTATION, label), "caf\xc3\xa9 ?\n");
	assert_int_equal(EVENT(&c, ANNOTATION, 2)->text_bytes[KY_F_ANNOTATION_label],
			 KY_MARK_TEXT_BYTES);
	/* Between the poll's start and its end. */
	assert_true(EVENT(&c, POLL_START, 0) < EVENT(&c, ANNOTATION, 0));
	assert_true(EVENT(&c, ANNOTATION, 0) < EVENT(&c, POLL_END, 0));
	assert_int_equal(COUNT(&c, THREAD), 1);
	case_close(&c);
}

static void side__marks_overwritten_before_a_step_are_a_loss(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;
	char text[16];

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "mark %d", i);
		put_mark(&c.ring, T0 + MS, text, strlen(text));
	}
	case_step(&c, T0 + 10 * MS);
	case_finish(&c, T0 + 40 * MS);
	assert_int_equal(COUNT(&c, ANNOTATION), 64);
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 0), ANNOTATION, label), "mark 36");
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), 36);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_lost, 36);
	case_close(&c);
}

static void side__unfinished_mark_is_waited_for_but_not_for_ever(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	atomic_store(&c.ring.side->mark_claim_index, 1);
	put_mark(&c.ring, T0 + 2 * MS, "second", 6);
	case_step(&c, T0 + 10 * MS);
	case_step(&c, T0 + 500 * MS);
	c.ring.side->marks[0].monotonic_ns = T0 + MS;
	c.ring.side->marks[0].text_bytes = 5;
	memcpy(c.ring.side->marks[0].text, "first", 5);
	atomic_store(&c.ring.side->marks[0].serial, 1);
	case_step(&c, T0 + 600 * MS);
	/* And one whose writer died. */
	atomic_fetch_add(&c.ring.side->mark_claim_index, 1);
	put_mark(&c.ring, T0 + 700 * MS, "fourth", 6);
	case_step(&c, T0 + 800 * MS);
	case_step(&c, T0 + 1900 * MS);
	case_step(&c, T0 + 2000 * MS);
	case_finish(&c, T0 + 3000 * MS);
	assert_int_equal(COUNT(&c, ANNOTATION), 3);
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 0), ANNOTATION, label), "first");
	assert_string_equal(TEXT(EVENT(&c, ANNOTATION, 2), ANNOTATION, label), "fourth");
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), 1);
	case_close(&c);
}

static void side__marks_with_impossible_times_stay_within_the_trace(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	put_mark(&c.ring, UINT64_MAX, "future", 6);
	put_mark(&c.ring, 0, "past", 4);
	case_step(&c, T0 + 10 * MS);
	test_poll_end(&w, T0 + 11 * MS, 0);
	case_finish(&c, T0 + 40 * MS);
	assert_int_equal(COUNT(&c, ANNOTATION), 2);
	for (size_t i = 0; i < 2; i++)
		assert_in_range(EVENT(&c, ANNOTATION, i)->ns, SECOND, T0 + 10 * MS + 20);
	case_close(&c);
}

static void side__changed_counters_are_written_once_a_second_and_in_each_segment(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	put_counter(&c.ring, 0, "queue", -3);
	put_counter(&c.ring, 1, "0123456789012345678901234567890123456789 48 bytes", 8);
	for (uint64_t ms = 0; ms < 3000; ms += 100) {
		test_emit(&w, T0 + ms * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(1, 0), 0, 0);
		if (ms == 1500) /* in the trace with the reading at 2 s */
			put_counter(&c.ring, 0, "queue", 5);
		case_step(&c, T0 + ms * MS + 10 * MS);
	}
	assert_int_equal(ky_drain_seal(c.drain), 0);
	for (uint64_t ms = 3000; ms < 5000; ms += 100) {
		test_emit(&w, T0 + ms * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(1, 0), 0, 0);
		case_step(&c, T0 + ms * MS + 10 * MS);
	}
	case_finish(&c, T0 + 5000 * MS);
	assert_int_equal(COUNT(&c, COUNTER), 5);
	assert_string_equal(TEXT(EVENT(&c, COUNTER, 0), COUNTER, name), "queue");
	assert_int_equal((int64_t)NUMBER(EVENT(&c, COUNTER, 0), COUNTER, value), -3);
	assert_int_equal(EVENT(&c, COUNTER, 1)->text_bytes[KY_F_COUNTER_name],
			 KY_COUNTER_NAME_BYTES);
	assert_int_equal((int64_t)NUMBER(EVENT(&c, COUNTER, 2), COUNTER, value), 5);
	assert_in_range(EVENT(&c, COUNTER, 2)->ns, T0 + 2000 * MS, T0 + 2020 * MS);
	assert_int_equal((int64_t)NUMBER(EVENT(&c, COUNTER, 3), COUNTER, value), 5);
	assert_true(EVENT(&c, COUNTER, 3)->ns > T0 + 3000 * MS);
	case_close(&c);
}

static void assert_crash(const struct test_event *event)
{
	assert_int_equal(NUMBER(event, CRASH, signal_number), 11);
	assert_int_equal((int64_t)NUMBER(event, CRASH, code), -6);
	assert_int_equal(NUMBER(event, CRASH, address), 0xdead);
	assert_int_equal(NUMBER(event, CRASH, tid), 501);
	assert_int_equal(NUMBER(event, CRASH, worker_id), 0);
	assert_int_equal(NUMBER(event, CRASH, pc), 0x1111);
	assert_int_equal(event->text_bytes[KY_F_CRASH_stack], KY_CRASH_STACK_BYTES);
	assert_int_equal(TEXT(event, CRASH, stack)[5], 7);
}

static void side__crash_is_written_once_when_it_is_whole(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_begin(&c, &w, 8);
	test_poll(&w, T0, 1, 0);
	put_crash(&c.ring, T0 + 2 * MS);
	atomic_store(&c.ring.side->crash.state, 1);
	case_step(&c, T0 + 10 * MS);
	atomic_store(&c.ring.side->crash.state, 2);
	case_step(&c, T0 + 20 * MS);
	case_finish(&c, T0 + 40 * MS);
	assert_int_equal(COUNT(&c, CRASH), 1);
	assert_crash(EVENT(&c, CRASH, 0));
	case_close(&c);
}

static void side__observing_drain_writes_nothing_and_sums_up(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_event_sums sums;

	(void)state;
	case_open(&c, 64);
	c.options.chunk = NULL;
	case_start(&c);
	ky_drain_watch(c.drain, &sums);
	assert_false(sums.is_known);
	put_mark(&c.ring, T0, "this is not read", 10);
	test_writer_open(&w, &c.ring, 501, T0);
	for (uint64_t task = 1; task <= 5; task++)
		test_emit(&w, T0 + task * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(task, 0), 0,
			  0);
	test_poll(&w, T0 + 10 * MS, 4, 0);
	test_poll(&w, T0 + 11 * MS, 2, 0);
	test_poll_end(&w, T0 + 12 * MS, KYMO_POLL_READY);
	test_emit(&w, T0 + 13 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(4, 0), 0, 0);
	test_emit(&w, T0 + 14 * MS, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(3, 0), 0, 0);
	case_step(&c, T0 + 100 * MS);
	ky_drain_watch(c.drain, &sums);
	assert_true(sums.is_known);
	assert_in_range(sums.wake_delay_max_ns, 9 * MS - 10, 9 * MS + 10); /* 11 - 2 */
	assert_int_equal(sums.wake_delay_task, 2);
	assert_int_equal(sums.alive_count, 3); /* 1, 4, 5 */
	assert_int_equal(sums.ready_count, 3);
	test_poll_end(&w, T0 + 101 * MS, 0);
	test_poll(&w, T0 + 102 * MS, 1, 0);
	case_step(&c, T0 + 200 * MS);
	ky_drain_watch(c.drain, &sums);
	assert_in_range(sums.wake_delay_max_ns, 101 * MS - 10, 101 * MS + 10);
	assert_int_equal(sums.ready_count, 2);
	ky_drain_watch(c.drain, &sums);
	assert_int_equal(sums.wake_delay_max_ns, 0);
	case_finish(&c, T0 + 300 * MS);
	assert_int_equal(c.sink.bytes.used, 0);
	case_close(&c);
}

static const uint32_t order[] = {KY_EV_ANNOTATION, KY_EV_STUCK_THREAD, KY_EV_STUCK_THREAD,
				 KY_EV_TRIGGER,    KY_EV_CRASH,        KY_EV_COUNTER};
static const struct ky_stuck_note stuck[] = {{.monotonic_ns = T0 + 30 * MS,
					      .task = 7,
					      .begin_ns = T0,
					      .tid = 501,
					      .state = 'R',
					      .syscall = -1},
					     {.monotonic_ns = T0 + 20 * MS,
					      .task = 7,
					      .begin_ns = T0,
					      .tid = 501,
					      .state = 'S',
					      .syscall = 202,
					      .pc = 0xabc,
					      .sp = 0xdef,
					      .wchan = "futex_wait",
					      .has_counts = true,
					      .cpu_ns = 5000,
					      .run_delay_ns = 0}};
static const struct ky_trigger_note trigger = {.monotonic_ns = T0 + 40 * MS,
					       .value = 40000000,
					       .threshold = 10000000,
					       .task = 7,
					       .tid = 501,
					       .unit = "ns",
					       .rule = "poll>10ms",
					       .suppressed_count = 3,
					       .late_count = 2};

static void side__cut_has_marks_counters_crash_stuck_threads_and_the_firing_in_order(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	const struct test_event *event;
	size_t at = 0;

	(void)state;
	cut_begin(&c, &w, 8);
	test_worker(&w, T0, 10, 0x7000, 0x100);
	test_poll(&w, T0 + MS, 7, 0);
	put_mark(&c.ring, T0 + 10 * MS, "deploy", 6);
	put_counter(&c.ring, 0, "errors", 17);
	put_crash(&c.ring, T0 + 50 * MS);
	c.options.stuck = stuck;
	c.options.stuck_count = 2;
	c.options.triggers = &trigger;
	c.options.trigger_count = 1;
	c.options.is_dead = true;
	cut_take(&c, 1);
	for (size_t i = 0; i < c.sink.event_count && at < 6; i++)
		at += c.sink.events[i].event == order[at];
	assert_int_equal(at, 6);
	event = EVENT(&c, STUCK_THREAD, 0);
	assert_in_range(event->ns, T0 + 20 * MS, T0 + 20 * MS + 20);
	assert_int_equal(NUMBER(event, STUCK_THREAD, syscall_number), 202);
	assert_int_equal(NUMBER(event, STUCK_THREAD, worker_id), 0);
	assert_int_equal(NUMBER(event, STUCK_THREAD, state), 'S');
	assert_string_equal(TEXT(event, STUCK_THREAD, wchan), "futex_wait");
	assert_int_equal(NUMBER(event, STUCK_THREAD, cpu_ns), 5000);
	assert_true(event->is_present[KY_F_STUCK_THREAD_run_delay_ns]);
	assert_int_equal(NUMBER(event, STUCK_THREAD, run_delay_ns), 0);
	event = EVENT(&c, STUCK_THREAD, 1);
	assert_false(event->is_present[KY_F_STUCK_THREAD_syscall_number]);
	assert_false(event->is_present[KY_F_STUCK_THREAD_cpu_ns]);
	assert_false(event->is_present[KY_F_STUCK_THREAD_run_delay_ns]);
	assert_int_equal(NUMBER(event, STUCK_THREAD, is_running), 1);
	event = EVENT(&c, TRIGGER, 0);
	assert_string_equal(TEXT(event, TRIGGER, rule), "poll>10ms");
	assert_int_equal(NUMBER(event, TRIGGER, value), 40000000);
	assert_int_equal(NUMBER(event, TRIGGER, suppressed_count), 3);
	assert_crash(EVENT(&c, CRASH, 0));
	/* The handler was the last to be there. */
	assert_in_range(c.report.newest_ns, T0 + 50 * MS, T0 + 50 * MS + 20);
	assert_string_equal(cut_metadata(&c, "process.end"), "signal 11 (SIGSEGV)");
	/* None of them lies in a range that ends before. */
	c.options.from_ns = T0 + 2 * MS;
	c.options.to_ns = T0 + 9 * MS;
	cut_take(&c, 1);
	for (at = 0; at < 5; at++)
		assert_int_equal(test_sink_count(&c.sink, order[at]), 0);
	cut_close(&c);
}

static void put_sample(struct test_ring *ring, uint32_t number, uint32_t index, uint64_t ns,
		       uint64_t value)
{
	struct ky_ring_counter_sample *sample =
		&ring->side->counter_samples[number % KY_COUNTER_SAMPLES];

	atomic_store(&sample->ticks, test_ticks(ns));
	atomic_store(&sample->value, value);
	atomic_store(&sample->serial, (number + UINT64_C(1)) << KY_COUNTER_INDEX_BITS | index);
}

static void side__cut_has_earlier_values_of_counters(void **state)
{
	static const uint64_t expected[] = {5, 900, 12, 30};
	static struct cut_case c; /* large */
	struct test_writer w;

	(void)state;
	cut_open(&c, 8);
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0, 1, 0);
	test_poll_end(&w, T0 + 4 * SECOND, 0);
	put_counter(&c.ring, 0, "jobs", 30);
	put_sample(&c.ring, KY_COUNTER_SAMPLES, 0, T0 + SECOND, 5);
	put_sample(&c.ring, KY_COUNTER_SAMPLES + 1, 0, T0 + 2 * SECOND, 900);
	put_sample(&c.ring, 7, 9, T0 + 2 * SECOND, 1); /* hostile: there is no such counter */
	put_sample(&c.ring, KY_COUNTER_SAMPLES + 2, 0, T0 + 3 * SECOND, 12);
	put_sample(&c.ring, KY_COUNTER_SAMPLES + 3, 0, T0 + 3 * SECOND + MS, 12); /* no news */
	cut_take(&c, T0 + 5 * SECOND);
	assert_int_equal(COUNT(&c, COUNTER), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(NUMBER(EVENT(&c, COUNTER, i), COUNTER, value), expected[i]);
	assert_in_range(EVENT(&c, COUNTER, 1)->ns, T0 + 2 * SECOND - 10, T0 + 2 * SECOND + 10);
	/* Of a range, those in it. */
	c.options.from_ns = T0 + 2500 * MS;
	cut_take(&c, T0 + 5 * SECOND);
	assert_int_equal(COUNT(&c, COUNTER), 2);
	cut_close(&c);
}

static void side__settings_are_read_whole_or_not_at_all(void **state)
{
	struct test_ring ring;
	struct ky_ring_settings *settings;
	struct ky_ring_view view;
	struct ky_ring_wish wish = {.generation = 0};

	(void)state;
	test_ring_open(&ring, 8);
	settings = &ring.control->settings;
	assert_int_equal(ky_ring_view_init(&view, ring.image, ring.image_bytes), 0);
	assert_false(ky_ring_view_settings(&view, &wish));
	atomic_store(&settings->generation, 1);
	atomic_store(&settings->mode, KY_RING_MODE_FLIGHT);
	assert_false(ky_ring_view_settings(&view, &wish));
	assert_int_equal(wish.mode, 0);
	atomic_store(&settings->throttle[KY_RETAIN_WAKE], 9);
	atomic_store(&settings->poll_threshold_ns, MS);
	atomic_store(&settings->generation, 2);
	assert_true(ky_ring_view_settings(&view, &wish));
	assert_int_equal(wish.mode, KY_RING_MODE_FLIGHT);
	assert_int_equal(wish.throttle[KY_RETAIN_WAKE], 9);
	assert_int_equal(wish.poll_threshold_ns, MS);
	assert_false(ky_ring_view_settings(&view, &wish)); /* nothing new */
	test_ring_close(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(side__marks_reach_a_stream_once_each_and_in_their_place),
		cmocka_unit_test(side__marks_overwritten_before_a_step_are_a_loss),
		cmocka_unit_test(side__unfinished_mark_is_waited_for_but_not_for_ever),
		cmocka_unit_test(side__marks_with_impossible_times_stay_within_the_trace),
		cmocka_unit_test(
			side__changed_counters_are_written_once_a_second_and_in_each_segment),
		cmocka_unit_test(side__crash_is_written_once_when_it_is_whole),
		cmocka_unit_test(side__observing_drain_writes_nothing_and_sums_up),
		cmocka_unit_test(
			side__cut_has_marks_counters_crash_stuck_threads_and_the_firing_in_order),
		cmocka_unit_test(side__cut_has_earlier_values_of_counters),
		cmocka_unit_test(side__settings_are_read_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
