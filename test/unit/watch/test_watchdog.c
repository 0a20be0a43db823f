/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The watchdog's pace, its own lateness, cooldown and budget, what it refuses. Time is the test's.
 */
#include "../../lib/alloc_fail.h"
#include "../../lib/prng.h"
#include "../../lib/watch_case.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <watch/budget.h>
#include <stdio.h>
#include <sys/stat.h>

static void late__poll_across_a_late_check_is_not_trusted(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "poll>200ms");
	watch_case_until(&watch, START + 500 * MS);
	test_poll(&writer, START + 500 * MS, TASK, 0);
	watch_case_sleep(&watch, START + 5000 * MS);
	watch_case_until(&watch, START + 5190 * MS);
	assert_int_equal(watch.fired_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 1);
	/* Stuck indeed: fires 200 ms after the late check, and counts it. */
	watch_case_until(&watch, START + 5300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 200 * MS, 300 * MS);
	assert_int_equal(fired(0)->late_count, 1);
	assert_in_range(fired(0)->late_max_ns, 4000 * MS, 4600 * MS);
	assert_int_equal(fired(0)->notes[0].begin_ns, START + 500 * MS);
}

static void late__by_a_little_is_not_counted(void **state)
{
	(void)state;
	watch_case_arm(&watch, "poll>200ms");
	test_poll(&writer, START, TASK, 0);
	for (int i = 0; i < 5; i++)
		watch_case_sleep(&watch, watch.due_ns + 49 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->late_count, 0);
}

/* A suspended machine: the counter continued, CLOCK_MONOTONIC did not; or the other way round. */
static void late__clocks_that_disagree_count_as_late(void **state)
{
	(void)state;
	watch_case_arm(&watch, "poll>10s");
	test_poll(&writer, START, TASK, 0);
	watch_case_until(&watch, START + 2000 * MS);
	watch.ring.drift_ppm = 40000000; /* x 16: two minutes ahead within the next check */
	watch_case_until(&watch, START + 3100 * MS);
	watch.ring.drift_ppm = 0;
	watch_case_until(&watch, START + 9000 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, START + 25000 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->late_count, 1, 4);
}

/* ---- firing ---- */

static void one_poll(uint64_t begin, uint64_t end)
{
	watch_case_until(&watch, begin);
	test_poll(&writer, begin, TASK, 0);
	watch_case_until(&watch, end);
	test_poll_end(&writer, end, 0);
}

static void cooldown__suppressed_firings_are_counted_by_the_next(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "poll>1h; poll>100ms cooldown=10s");
	one_poll(START, START + 300 * MS);
	one_poll(START + 1000 * MS, START + 1300 * MS);
	one_poll(START + 2000 * MS, START + 2300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->suppressed_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.waiting, 2);
	assert_int_equal(stats.over_budget, 0);
	one_poll(START + 20000 * MS, START + 20300 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->suppressed_count, 2);
	assert_int_equal(fired(1)->suppressed_rules, 2);
	assert_int_equal(fired(1)->rule_index, 1);
	one_poll(START + 40000 * MS, START + 40300 * MS);
	assert_int_equal(fired(2)->suppressed_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.fired, 3);
	assert_int_equal(stats.suppressed, 2);
}

/* What still lasts when the cooldown is over fires then. */
static void cooldown__lasting_poll_fires_afterwards(void **state)
{
	(void)state;
	watch_case_arm(&watch, "poll>100ms cooldown=10s");
	one_poll(START, START + 300 * MS);
	test_poll(&writer, START + 1000 * MS, TASK + 1, 0);
	watch_case_until(&watch, START + 9000 * MS);
	assert_int_equal(watch.fired_count, 1);
	watch_case_until(&watch, START + 12000 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->task, TASK + 1);
	assert_int_equal(fired(1)->suppressed_count, 1);
	assert_true(fired(1)->value > 9000 * MS);
}

static void budget__of_dumps_is_global(void **state)
{
	struct ky_watchdog_stats stats;
	uint64_t now = START;

	(void)state;
	watch.options.dumps_per_hour_max = 3;
	watch_case_arm(&watch, "poll>100ms cooldown=0s; poll>200ms cooldown=0s");
	for (int i = 0; i < 10; i++, now += 60000 * MS)
		one_poll(now, now + 350 * MS);
	assert_int_equal(watch.fired_count, 3);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.waiting, 17);
	assert_int_equal(stats.over_budget, 17);
	one_poll(START + 3700000 * MS, START + 3700150 * MS);
	assert_int_equal(watch.fired_count, 4);
	assert_int_equal(fired(3)->suppressed_count, 17);
	assert_int_equal(fired(3)->suppressed_rules, 3);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.waiting + stats.over_budget, 0);
}

static void budget__of_bytes_is_spent_by_the_caller(void **state)
{
	(void)state;
	watch.options.dump_bytes_max = 1000;
	watch_case_arm(&watch, "poll>100ms cooldown=0s");
	one_poll(START, START + 300 * MS);
	ky_watchdog_spent(watch.watchdog, 999);
	one_poll(START + 1000 * MS, START + 1300 * MS);
	assert_int_equal(watch.fired_count, 2);
	ky_watchdog_spent(watch.watchdog, 1);
	one_poll(START + 2000 * MS, START + 2300 * MS);
	assert_int_equal(watch.fired_count, 2);
}

/* A full disk for an hour must not cost the hour after it its dumps. */
static void budget__is_not_spent_by_dumps_that_fail(void **state)
{
	uint64_t now = START;

	(void)state;
	watch.options.dumps_per_hour_max = 2;
	watch_case_arm(&watch, "poll>100ms cooldown=0s");
	for (uint32_t i = 0; i < 10; i++, now += 30000 * MS) {
		one_poll(now, now + 300 * MS);
		assert_int_equal(watch.fired_count, i + 1);
		ky_watchdog_failed(watch.watchdog, fired(i)->monotonic_ns);
	}
	for (uint32_t i = 0; i < 5; i++, now += 30000 * MS)
		one_poll(now, now + 300 * MS);
	assert_int_equal(watch.fired_count, 12);
}

/* Nor are they tried again and again, where no cooldown keeps them apart. */
static void budget__waits_where_dumps_fail_one_after_the_other(void **state)
{
	struct ky_watchdog_stats stats;
	uint64_t now = START;

	(void)state;
	watch_case_arm(&watch, "poll>100ms cooldown=0s");
	for (int i = 0; i < 30; i++, now += 1000 * MS) {
		uint32_t before = watch.fired_count;

		one_poll(now, now + 300 * MS);
		if (watch.fired_count > before)
			ky_watchdog_failed(watch.watchdog, fired(before)->monotonic_ns);
	}
	assert_int_equal(watch.fired_count, KY_BUDGET_FAILURES);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_true(stats.is_failing);
	assert_int_equal(stats.over_budget, 27);
	one_poll(START + 62000 * MS, START + 62300 * MS);
	assert_int_equal(watch.fired_count, KY_BUDGET_FAILURES + 1);
	assert_int_equal(fired(KY_BUDGET_FAILURES)->suppressed_count, 27);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_false(stats.is_failing);
}

/* A rule was added: what the others have spent stays spent. */
static void budget__and_cooldowns_outlast_a_further_rule(void **state)
{
	struct ky_watchdog *before;
	struct ky_watchdog_stats stats;

	(void)state;
	watch.options.dumps_per_hour_max = 2;
	watch_case_arm(&watch, "poll>100ms cooldown=10s");
	one_poll(START, START + 300 * MS);
	one_poll(START + 1000 * MS, START + 1300 * MS);
	before = watch.watchdog;
	watch_case_arm(&watch, "poll>100ms cooldown=10s; poll>1s cooldown=0s");
	ky_watchdog_follow(watch.watchdog, before);
	ky_watchdog_close(before);
	one_poll(START + 2000 * MS, START + 2300 * MS);
	assert_int_equal(watch.fired_count, 1);
	one_poll(START + 20000 * MS, START + 20300 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->suppressed_count, 2);
	one_poll(START + 40000 * MS, START + 42000 * MS); /* both rules */
	assert_int_equal(watch.fired_count, 2);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.fired, 2);
	assert_int_equal(stats.over_budget, 2);
}

/* ---- opening ---- */

static void open__without_a_rule_never_checks(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "");
	assert_true(ky_watchdog_step(watch.watchdog, NULL) == UINT64_MAX);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.steps, 0);
}

static void open__names_the_rule_that_can_never_fire(void **state)
{
	static const struct {
		const char *rule, *sentence;
	} cases[] = {
		{"wake>1s", "trigger rule \"wake>1s\" can never fire: it needs the events, and "
			    "nothing reads them here"},
		{"tasks>1", "trigger rule \"tasks>1\" can never fire: it needs the events, and "
			    "nothing reads them here"},
		{"throttled>1%", "trigger rule \"throttled>1%\" can never fire: it finds no cgroup "
				 "that counts throttling"},
		{"runnable>1s", "trigger rule \"runnable>1s\" can never fire: it cannot read the "
				"schedstat of the process's threads"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(watch_case_try(&watch, cases[i].rule), -ENOTSUP);
		assert_null(watch.watchdog);
		assert_string_equal(watch.errbuf, cases[i].sentence);
	}
	watch.ring.header->side_offset = 0;
	assert_int_equal(watch_case_try(&watch, "poll>1s; errors>1/s"), -ENOTSUP);
	fake_proc_remove(&watch.proc, "stat");
	fake_proc_remove(&watch.proc, "statm");
	assert_int_equal(watch_case_try(&watch, "cpu>1%"), -ENOTSUP);
	assert_int_equal(watch_case_try(&watch, "rss>1"), -ENOTSUP);
}

static void open__leaves_out_unusable_rules(void **state)
{
	uint64_t unusable = 1;

	(void)state;
	watch.options.unusable_rules = &unusable;
	assert_int_equal(watch_case_try(&watch, "wake>1s; poll>100ms; throttled>1%"), 0);
	assert_int_equal(unusable, 5);
	assert_string_equal(watch.errbuf, "trigger rule \"wake>1s\" can never fire: it needs the "
					  "events, and nothing reads them here");
	one_poll(START, START + 300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->rule_index, 1);
}

static uint32_t count_descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void close__leaves_no_file_open(void **state)
{
	uint32_t before = count_descriptors();

	(void)state;
	fake_proc_stat(&watch.proc, 'S', 0);
	watch_case_arm(&watch, "cpu>1000%; rss>64G");
	watch_case_until(&watch, START + 5000 * MS);
	/* The folder, stat and statm. */
	assert_int_equal(count_descriptors(), before + 3);
	ky_watchdog_close(watch.watchdog);
	watch.watchdog = NULL;
	assert_int_equal(count_descriptors(), before);
}

static void open__refuses_what_is_no_ring(void **state)
{
	(void)state;
	watch.ring.header->ticks_per_second = 0;
	assert_int_equal(watch_case_try(&watch, "poll>1s"), KYMO_E_CORRUPT);
	watch.ring.header->version = 99;
	assert_int_equal(watch_case_try(&watch, "poll>1s"), KYMO_E_VERSION);
	watch.options.fire = NULL;
	ky_watchdog_close(NULL);
}

static void open__survives_every_failed_allocation(void **state)
{
	int err = -ENOMEM;

	(void)state;
	fake_proc_write(&watch.proc, "task/4242/schedstat", "1 2 3\n");
	for (uint64_t n = 0; err; n++) {
		test_alloc_fail_at(n);
		err = watch_case_try(&watch, "poll>1s; runnable>1s");
		test_alloc_normal();
		assert_true(err == 0 || err == -ENOMEM);
		assert_in_range(n, 0, 10);
	}
}

static void gone__is_watched_no_more(void **state)
{
	(void)state;
	test_poll(&writer, START, TASK, 0);
	watch_case_arm(&watch, "poll>500ms");
	watch_case_until(&watch, START + 200 * MS);
	/* Killed, and not yet waited for. */
	fake_proc_write(&watch.proc, "stat",
			"4242 (x) Z 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 777 1\n");
	fake_proc_thread(&watch.proc, TID, 'Z', "-1 0x0 0x0", "0");
	watch_case_until(&watch, START + 60000 * MS);
	assert_int_equal(watch.fired_count, 0);
	assert_true(watch.due_ns == UINT64_MAX);
}

static void gone__before_the_watchdog_opens(void **state)
{
	char path[200];

	(void)state;
	test_poll(&writer, START, TASK, 0);
	snprintf(path, sizeof(path), "%s/self", watch.proc.proc);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%u", watch.proc.proc, WATCH_PID);
	snprintf(path + 100, 100, "%s/other", watch.proc.proc);
	assert_int_equal(rename(path, path + 100), 0);
	watch_case_arm(&watch, "poll>500ms");
	watch_case_until(&watch, START + 60000 * MS);
	assert_int_equal(watch.fired_count, 0);
	assert_true(watch.due_ns == UINT64_MAX);
}

static void gone__main_thread_alone_is_not(void **state)
{
	(void)state;
	fake_proc_stat(&watch.proc, 'Z', 0); /* of 9 threads */
	watch_case_arm(&watch, "poll>500ms");
	one_poll(START + 5000 * MS, START + 6000 * MS);
	assert_int_equal(watch.fired_count, 1);
}

static void gone__closed_ring_is_watched_no_more(void **state)
{
	(void)state;
	test_poll(&writer, START, TASK, 0);
	watch_case_arm(&watch, "poll>500ms");
	atomic_store(&watch.ring.header->state, KY_RING_CLOSED);
	watch_case_until(&watch, START + 60000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

/* ---- hostile rings ---- */

/* Bits flip between checks, anywhere: wrong values may come of it, and nothing else. The sanitizers
 * watch. */
static void hostile__any_bits_do_no_harm(void **state)
{
	struct test_prng prng = {7};

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint64_t now = START;

		watch_teardown(state);
		watch_setup_worker(state);
		watch.options.has_sums = true;
		for (int i = 0; i < 20; i++)
			test_poll(&writer, START, TASK, 0);
		for (uint32_t i = 0; i < test_below(&prng, 40); i++)
			watch.ring.image[test_below(&prng, 8192)] ^= 1u << test_below(&prng, 8);
		if (watch_case_try(&watch, "poll>100ms; stall>100ms; counter:x>1; errors>1/s") != 0)
			continue;
		for (int snapshot = 0; snapshot < 20; snapshot++) {
			watch_case_until(&watch, now += 100 * MS);
			for (uint32_t i = 0; i < test_below(&prng, 400); i++) {
				size_t at = test_random(&prng) % watch.ring.image_bytes;

				if (at % 8192 > 256 && at > 16384 && i % 2)
					at = at / 8192 * 8192 + test_below(&prng, 300);
				/* The magic stays: what is no ring is refused. */
				if (at >= 8)
					watch.ring.image[at] ^= 1u << test_below(&prng, 8);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORKER_CASE(late__poll_across_a_late_check_is_not_trusted),
		WORKER_CASE(late__by_a_little_is_not_counted),
		WORKER_CASE(late__clocks_that_disagree_count_as_late),
		WORKER_CASE(cooldown__suppressed_firings_are_counted_by_the_next),
		WORKER_CASE(cooldown__lasting_poll_fires_afterwards),
		WORKER_CASE(budget__of_dumps_is_global),
		WORKER_CASE(budget__of_bytes_is_spent_by_the_caller),
		WORKER_CASE(budget__is_not_spent_by_dumps_that_fail),
		WORKER_CASE(budget__waits_where_dumps_fail_one_after_the_other),
		WORKER_CASE(budget__and_cooldowns_outlast_a_further_rule),
		WORKER_CASE(open__without_a_rule_never_checks),
		WORKER_CASE(open__names_the_rule_that_can_never_fire),
		WORKER_CASE(open__leaves_out_unusable_rules),
		WORKER_CASE(close__leaves_no_file_open),
		WORKER_CASE(open__refuses_what_is_no_ring),
		WORKER_CASE(open__survives_every_failed_allocation),
		WORKER_CASE(gone__is_watched_no_more),
		WORKER_CASE(gone__before_the_watchdog_opens),
		WORKER_CASE(gone__main_thread_alone_is_not),
		WORKER_CASE(gone__closed_ring_is_watched_no_more),
		WORKER_CASE(hostile__any_bits_do_no_harm),
	};

	return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
