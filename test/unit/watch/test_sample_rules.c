/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rules about numbers: CPU, throttling, memory, waits for a CPU, counters, sums over events.
 * Each is shown to fire, and not to fire for what only resembles it. */
#include "../../lib/watch_case.h"

#include <stdio.h>

#define SECOND (1000 * MS)

/* ---- CPU and throttling ---- */

static uint64_t cpu_ms;

/* Uses so many percent of a CPU up to ns, reported every 100 ms. */
static void use_cpu(uint64_t ns, uint64_t percent)
{
	while (watch.ring.now_ns < ns) {
		cpu_ms += percent;
		fake_proc_stat(&watch.proc, 'R', cpu_ms);
		watch_case_until(&watch, watch.ring.now_ns + 100 * MS);
	}
}

static void cpu__must_last_for_its_duration(void **state)
{
	(void)state;
	cpu_ms = 0;
	watch_case_arm(&watch, "cpu>90% for 3s");
	use_cpu(START + 2 * SECOND, 40);
	use_cpu(START + 4 * SECOND, 250);
	use_cpu(START + 6 * SECOND, 20);
	assert_int_equal(watch.fired_count, 0);
	use_cpu(START + 8900 * MS, 250);
	assert_int_equal(watch.fired_count, 0);
	use_cpu(START + 10 * SECOND, 250);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 200, 260);
	assert_int_equal(fired(0)->note_count, 0);
	/* One firing as long as it lasts. */
	use_cpu(START + 200 * SECOND, 250);
	assert_int_equal(watch.fired_count, 1);
	use_cpu(START + 202 * SECOND, 10);
	use_cpu(START + 210 * SECOND, 95);
	assert_int_equal(watch.fired_count, 2);
}

static void cpu__across_a_late_check_does_not_count(void **state)
{
	(void)state;
	cpu_ms = 0;
	watch_case_arm(&watch, "cpu>90% for 3s");
	use_cpu(START + 2 * SECOND, 250);
	watch_case_sleep(&watch, START + 60 * SECOND);
	use_cpu(START + 62 * SECOND, 250);
	assert_int_equal(watch.fired_count, 0);
	use_cpu(START + 65 * SECOND, 250);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->late_count, 1);
}

static void throttle(uint64_t until_ns, uint64_t *total_us, uint64_t percent)
{
	while (watch.ring.now_ns < until_ns) {
		*total_us += percent * 1000; /* of 100 ms */
		fake_proc_write(&watch.proc, "/pods/one/cpu.stat",
				"usage_usec 9\nnr_throttled 1\nthrottled_usec %llu\n",
				(unsigned long long)*total_us);
		watch_case_until(&watch, watch.ring.now_ns + 100 * MS);
	}
}

static void throttled__by_any_cgroup_above(void **state)
{
	uint64_t total_us = 100;

	(void)state;
	fake_proc_write(&watch.proc, "cgroup", "0::/pods/one/box\n");
	fake_proc_write(&watch.proc, "/pods/one/box/cpu.stat", "usage_usec 9\nthrottled_usec 0\n");
	fake_proc_write(&watch.proc, "/pods/one/cpu.stat", "throttled_usec 0\n");
	fake_proc_write(&watch.proc, "/pods/cpu.stat", "usage_usec 9\n");
	watch_case_arm(&watch, "throttled>20%");
	throttle(START + 3 * SECOND, &total_us, 15);
	assert_int_equal(watch.fired_count, 0);
	throttle(START + 5 * SECOND, &total_us, 30);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 21, 30);
}

static void throttled__by_a_cgroup_of_version_1(void **state)
{
	uint64_t total_us = 100;

	(void)state;
	fake_proc_write(&watch.proc, "cgroup",
			"5:cpuset:/\n4:cpu,cpuacct:/one\n1:name=systemd:/x\n0::/none\n");
	fake_proc_write(&watch.proc, "/cpu,cpuacct/one/cpu.stat", "throttled_time 0\n");
	watch_case_arm(&watch, "throttled>20%");
	for (uint64_t ns = START; ns < START + 2 * SECOND; ns += 100 * MS) {
		total_us += 50000;
		fake_proc_write(&watch.proc, "/cpu,cpuacct/one/cpu.stat",
				"nr_periods 5\nnr_throttled 1\nthrottled_time %llu000\n",
				(unsigned long long)total_us);
		watch_case_until(&watch, ns + 100 * MS);
	}
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 40, 50);
}

/* ---- memory ---- */

static void rss_at(uint64_t ns, uint64_t pages)
{
	fake_proc_write(&watch.proc, "statm", "90000 %llu 50 1 0 200 0\n",
			(unsigned long long)pages);
	watch_case_until(&watch, ns);
}

static void rss__growth_within_its_time(void **state)
{
	(void)state;
	watch_case_arm(&watch, "rss>4M for 10s");
	/* 4 MiB in 20 s: half of it within any 10 s. */
	for (uint64_t i = 0; i < 20; i++)
		rss_at(START + i * SECOND, 1000 + i * 51);
	assert_int_equal(watch.fired_count, 0);
	rss_at(START + 21 * SECOND, 1000 + 20 * 51 + 1100);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 4u << 20, 8u << 20);
	/* What went down may come again: a new firing, once the cooldown is over. */
	rss_at(START + 80 * SECOND, 1000);
	rss_at(START + 95 * SECOND, 1000);
	rss_at(START + 97 * SECOND, 2500);
	assert_int_equal(watch.fired_count, 2);
}

/* ---- a CPU ---- */

static void runnable__counts_waits_of_workers_alone(void **state)
{
	struct test_writer worker, pool;

	(void)state;
	test_writer_open(&worker, &watch.ring, 70, START);
	test_worker(&worker, START, 3, 0x1000, 0x2000);
	test_writer_open(&pool, &watch.ring, 71, START);
	test_emit(&pool, START, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	fake_proc_write(&watch.proc, "task/4242/schedstat", "1 2 3\n");
	fake_proc_write(&watch.proc, "task/70/schedstat", "1000 500 3\n");
	fake_proc_write(&watch.proc, "task/71/schedstat", "1000 500 3\n");
	watch_case_arm(&watch, "runnable>50ms");
	watch_case_until(&watch, START + 3 * SECOND);
	/* They are counted only once they run again. */
	test_emit(&worker, START + 3 * SECOND, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	test_emit(&pool, START + 3 * SECOND, KYMO_RECORD_BLOCKING_END, 0, 0, 0, 0, 0);
	fake_proc_write(&watch.proc, "task/71/schedstat", "1000 900000500 3\n");
	fake_proc_write(&watch.proc, "task/70/schedstat", "1000 40000500 3\n");
	watch_case_until(&watch, START + 6 * SECOND);
	assert_int_equal(watch.fired_count, 0);
	test_emit(&worker, START + 6 * SECOND, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	fake_proc_write(&watch.proc, "task/70/schedstat", "1000 110000500 3\n");
	watch_case_until(&watch, START + 6200 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->value, 70 * MS);
	assert_int_equal(fired(0)->tid, 70);
	assert_int_equal(fired(0)->runtime, 0x1000);
	/* Worth a descriptor only while it lives. */
	test_writer_exit(&worker, START + 7 * SECOND, false);
	fake_proc_remove(&watch.proc, "task/70/schedstat");
	watch_case_until(&watch, START + 20 * SECOND);
	assert_int_equal(watch.fired_count, 1);
}

/* More workers than one check reads: each has its turn, and one wait stays one firing. */
static void runnable__many_workers_take_turns(void **state)
{
	static struct test_writer workers[70];
	char path[64];

	(void)state;
	watch_teardown(state);
	watch_case_open(&watch, 128);
	watch.ring.now_ns = START;
	fake_proc_write(&watch.proc, "task/4242/schedstat", "1 2 3\n");
	for (uint32_t i = 0; i < 70; i++) {
		test_writer_open(&workers[i], &watch.ring, 1000 + i, START);
		test_worker(&workers[i], START, 3, 0x1000, 0x2000 + i);
		test_poll(&workers[i], START, 5, 0);
		snprintf(path, sizeof(path), "task/%u/schedstat", 1000 + i);
		fake_proc_write(&watch.proc, path, "1 500 3\n");
	}
	watch_case_arm(&watch, "runnable>50ms for 4s cooldown=0s");
	for (uint32_t i = 0; i < 70; i += 23) {
		uint64_t now = watch.ring.now_ns;
		uint32_t before = watch.fired_count;

		watch_case_until(&watch, now + 9 * SECOND);
		assert_int_equal(watch.fired_count, before);
		snprintf(path, sizeof(path), "task/%u/schedstat", 1000 + i);
		fake_proc_write(&watch.proc, path, "1 60000500 3\n");
		watch_case_until(&watch, now + 9600 * MS);
		assert_int_equal(watch.fired_count, before + 1);
		assert_int_equal(fired(before)->tid, 1000 + i);
	}
}

/* ---- counters ---- */

static void add_counter(uint32_t index, const char *name, bool is_error)
{
	struct ky_ring_side *side = watch_case_side(&watch);

	snprintf(side->counters[index].name, KY_COUNTER_NAME_BYTES, "%s", name);
	atomic_store(&side->counters[index].errors_flag, is_error);
	atomic_store(&side->counter_count, index + 1);
}

static void set_counter(uint32_t index, int64_t value)
{
	atomic_store(&watch_case_side(&watch)->counters[index].value, (uint64_t)value);
}

static void counter__above_a_value(void **state)
{
	(void)state;
	watch_case_arm(&watch, "counter:\"jobs waiting\">500 for 2s");
	watch_case_until(&watch, START + SECOND);
	/* It may come later than the rule. */
	add_counter(0, "jobs", false);
	add_counter(1, "jobs waiting", false);
	set_counter(0, 9000);
	set_counter(1, -5);
	watch_case_until(&watch, START + 5 * SECOND);
	set_counter(1, 501);
	watch_case_until(&watch, START + 6 * SECOND);
	set_counter(1, 500);
	watch_case_until(&watch, START + 7 * SECOND);
	set_counter(1, 700);
	watch_case_until(&watch, START + 8900 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 10 * SECOND);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->value, 700);
}

static void errors__growth_a_second_of_those_marked(void **state)
{
	int64_t failed = 1000000, done = 0;

	(void)state;
	add_counter(0, "failed", true);
	add_counter(1, "done", false);
	set_counter(0, failed);
	watch_case_arm(&watch, "errors>10/s");
	for (int i = 0; i < 80; i++) {
		set_counter(0, failed += i < 50 ? 1 : 3);
		set_counter(1, done += 1000);
		watch_case_until(&watch, START + (uint64_t)i * 100 * MS);
		if (i == 49)
			assert_int_equal(watch.fired_count, 0);
	}
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 11, 30);
	/* Counters that were reset have not grown. */
	set_counter(0, 0);
	watch_case_until(&watch, START + 100 * SECOND);
	assert_int_equal(watch.fired_count, 1);
}

/* ---- what the events say ---- */

static void events__wakes_and_spans_fire_one_by_one(void **state)
{
	(void)state;
	watch.options.has_sums = true;
	watch.sums.is_known = true;
	watch_case_arm(&watch, "wake>50ms cooldown=1s; span>1s");
	watch_case_until(&watch, START + SECOND);
	assert_int_equal(watch.fired_count, 0);
	watch.sums.wake_delay_max_ns = 80 * MS;
	watch.sums.wake_delay_task = 31;
	watch_case_until(&watch, START + 1100 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->task, 31);
	assert_int_equal(fired(0)->value, 80 * MS);
	watch_case_until(&watch, START + 1500 * MS);
	watch.sums.wake_delay_max_ns = 0;
	watch.sums.span_max_ns = 3 * SECOND;
	watch_case_until(&watch, START + 1700 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->rule_index, 1);
	assert_int_equal(fired(1)->value, 3 * SECOND);
	assert_in_range(fired(1)->suppressed_count, 1, 8);
	assert_int_equal(fired(1)->suppressed_rules, 1);
}

static void open_span(uint32_t slot, uint64_t id, uint64_t begin_ns)
{
	struct ky_ring_span *span = &watch_case_side(&watch)->spans[slot];

	atomic_store(&span->begin_ticks, test_ticks(begin_ns));
	atomic_store(&span->word, id << 24);
}

static void span__fires_once_while_it_is_open_and_not_again_at_its_end(void **state)
{
	(void)state;
	watch.options.has_sums = true;
	watch.sums.is_known = true;
	watch_case_arm(&watch, "span>1s cooldown=1ms");
	watch_case_until(&watch, START + 100 * MS);
	open_span(5, 11, START + 100 * MS);
	open_span(6, 12, START + 110 * MS);
	watch_case_until(&watch, START + 1000 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 1400 * MS);
	assert_int_equal(watch.fired_count, 1); /* one firing for both */
	assert_in_range(fired(0)->value, 1000 * MS, 1200 * MS);
	open_span(7, 13, START + 1400 * MS);
	watch_case_until(&watch, START + 2300 * MS);
	assert_int_equal(watch.fired_count, 1);
	watch.sums.span_max_ns = 2200 * MS;
	watch.sums.span_max_word = UINT64_C(12) << 24;
	watch_case_until(&watch, START + 2350 * MS);
	assert_int_equal(watch.fired_count, 1);
	watch.sums.span_max_ns = 0;
	watch_case_until(&watch, START + 2700 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_in_range(fired(1)->value, 1000 * MS, 1200 * MS);
}

static void span__held_back_by_the_cooldown_fires_after_it(void **state)
{
	(void)state;
	watch.options.has_sums = true;
	watch.sums.is_known = true;
	watch_case_arm(&watch, "span>1s cooldown=10s");
	watch_case_until(&watch, START + 100 * MS);
	open_span(5, 11, START + 100 * MS);
	watch_case_until(&watch, START + 1500 * MS);
	assert_int_equal(watch.fired_count, 1);
	open_span(6, 12, START + 1500 * MS);
	watch_case_until(&watch, START + 9000 * MS);
	assert_int_equal(watch.fired_count, 1);
	watch_case_until(&watch, START + 12000 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->suppressed_count, 1);
}

/* A caller that steps more often than it is asked to loses nothing that was reported in between. */
static void events__between_two_checks_are_kept(void **state)
{
	struct ky_event_sums late = {.is_known = true, .wake_delay_max_ns = 90 * MS};
	struct ky_event_sums none = {.is_known = true};

	(void)state;
	watch.options.has_sums = true;
	watch_case_arm(&watch, "wake>50ms");
	watch_case_until(&watch, START);
	watch.ring.now_ns += MS;
	ky_watchdog_step(watch.watchdog, &late);
	watch.ring.now_ns += MS;
	ky_watchdog_step(watch.watchdog, &none);
	assert_int_equal(watch.fired_count, 0);
	watch.sums = none;
	watch_case_until(&watch, START + 200 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->value, 90 * MS);
}

static void events__queue_and_tasks_stand_at_a_value(void **state)
{
	(void)state;
	watch.options.has_sums = true;
	watch.sums.is_known = true;
	watch_case_arm(&watch, "queue>100 for 2s; tasks>1000");
	watch.sums.ready_count = 150;
	watch.sums.alive_count = 1000;
	watch_case_until(&watch, START + 1900 * MS);
	watch.sums.ready_count = 90;
	watch_case_until(&watch, START + 3 * SECOND);
	assert_int_equal(watch.fired_count, 0);
	watch.sums.ready_count = 101;
	watch.sums.alive_count = 1001;
	watch_case_until(&watch, START + 3200 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->rule_index, 1);
	watch_case_until(&watch, START + 6 * SECOND);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->value, 101);
}

/* Everything was late because the process was stopped. */
static void events__of_a_stopped_process_are_excused(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch.options.has_sums = true;
	watch.sums.is_known = true;
	fake_proc_stat(&watch.proc, 'T', 0);
	watch_case_arm(&watch, "wake>50ms");
	watch_case_until(&watch, START + 5 * SECOND);
	fake_proc_stat(&watch.proc, 'S', 0);
	watch.sums.wake_delay_max_ns = 4 * SECOND;
	watch_case_until(&watch, START + 5100 * MS);
	watch.sums.wake_delay_max_ns = 0;
	watch_case_until(&watch, START + 20 * SECOND);
	assert_int_equal(watch.fired_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_true(stats.stopped_count > 0);
	watch.sums.wake_delay_max_ns = 60 * MS;
	watch_case_until(&watch, START + 20100 * MS);
	assert_int_equal(watch.fired_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(cpu__must_last_for_its_duration),
		WATCH_CASE(cpu__across_a_late_check_does_not_count),
		WATCH_CASE(throttled__by_any_cgroup_above),
		WATCH_CASE(throttled__by_a_cgroup_of_version_1),
		WATCH_CASE(rss__growth_within_its_time),
		WATCH_CASE(runnable__counts_waits_of_workers_alone),
		WATCH_CASE(runnable__many_workers_take_turns),
		WATCH_CASE(counter__above_a_value),
		WATCH_CASE(errors__growth_a_second_of_those_marked),
		WATCH_CASE(events__wakes_and_spans_fire_one_by_one),
		WATCH_CASE(span__fires_once_while_it_is_open_and_not_again_at_its_end),
		WATCH_CASE(span__held_back_by_the_cooldown_fires_after_it),
		WATCH_CASE(events__between_two_checks_are_kept),
		WATCH_CASE(events__queue_and_tasks_stand_at_a_value),
		WATCH_CASE(events__of_a_stopped_process_are_excused),
	};

	return cmocka_run_group_tests_name("sample_rules", tests, NULL, NULL);
}
