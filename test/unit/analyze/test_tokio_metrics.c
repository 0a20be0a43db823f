/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Values by hand, from the documentation of tokio-metrics and its instrument_poll(). A real program
 * that counts itself: test/tokio/metrics.py. */
#include "metrics_case.h"

#define TASKS (&m.tasks)
#define RUNTIMES (&m.runtimes)
#define US UINT64_C(1000)

/* Task 7: polled 1 us after its spawn for 1 us; woken 1 us later and polled 1 us after that for 60
 * us, in which it wakes itself after 10 us; polled again 5 us after that poll, for 1 us. */
static void three_polls(struct read_case *c)
{
	case_spawn(c, 1000, 7);
	case_poll(c, 2000, 3000, 0, 7);
	case_wake(c, 4000, 0, 7, 0);
	case_start(c, 5000, 0, 7, "svc::task");
	case_wake(c, 15000, 7, 7, 0);
	case_end(c, 65000, 0);
	case_start(c, 70000, 0, 7, "svc::task");
	case_over(c, 71000, 7, false);
	case_end(c, 71000, 0);
}

static void tokio_metrics__of_a_task_follow_its_states(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	three_polls(&c);
	metrics_make(&m, &c);
	assert_int_equal(m.tasks.count, 29);
	is_exactly(TASKS, "instrumented_count", 1);
	is_exactly(TASKS, "dropped_count", 1);
	is_exactly(TASKS, "first_poll_count", 1);
	is_exactly(TASKS, "total_first_poll_delay", 1 * US);
	is_exactly(TASKS, "mean_first_poll_delay", 1 * US);
	is_exactly(TASKS, "total_idled_count",
		   1); /* not before the third: woken inside the second */
	is_exactly(TASKS, "total_idle_duration", 1 * US);
	is_exactly(TASKS, "max_idle_duration", 1 * US);
	is_exactly(TASKS, "mean_idle_duration", 1 * US);
	is_exactly(TASKS, "total_scheduled_count", 2); /* the first poll follows no wake */
	is_exactly(TASKS, "total_scheduled_duration", 1 * US + 55 * US);
	is_exactly(TASKS, "mean_scheduled_duration", 28 * US);
	is_exactly(TASKS, "total_short_delay_count", 1);
	is_exactly(TASKS, "total_short_delay_duration", 1 * US);
	is_exactly(TASKS, "mean_short_delay_duration", 1 * US);
	is_exactly(TASKS, "total_long_delay_count", 1);
	is_exactly(TASKS, "total_long_delay_duration", 55 * US);
	is_exactly(TASKS, "mean_long_delay_duration", 55 * US);
	is_exactly(TASKS, "long_delay_ratio", 500000);
	is_exactly(TASKS, "total_poll_count", 3);
	is_exactly(TASKS, "total_poll_duration", 62 * US);
	is_exactly(TASKS, "mean_poll_duration", 20666);
	is_exactly(TASKS, "total_fast_poll_count", 2);
	is_exactly(TASKS, "total_fast_poll_duration", 2 * US);
	is_exactly(TASKS, "mean_fast_poll_duration", 1 * US);
	is_exactly(TASKS, "total_slow_poll_count", 1);
	is_exactly(TASKS, "total_slow_poll_duration", 60 * US);
	is_exactly(TASKS, "mean_slow_poll_duration", 60 * US);
	is_exactly(TASKS, "slow_poll_ratio", 333333);
	metrics_release(&m, &c);
}

static void tokio_metrics__slow_and_long_begin_at_50_us(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_spawn(&c, 1000, 7);
	case_poll(&c, 2000, 2000 + 50 * US, 0, 7);
	case_wake(&c, 60000, 0, 7, 0);
	case_poll(&c, 60000 + 50 * US, 60000 + 100 * US - 1, 0, 7);
	case_wake(&c, 200000, 0, 7, 0);
	case_wake(&c, 200500, 0, 7, 0); /* the first one counts */
	case_poll(&c, 200000 + 50 * US - 1, 300000, 0, 7);
	metrics_make(&m, &c);
	is_exactly(TASKS, "total_slow_poll_count", 2);
	is_exactly(TASKS, "total_fast_poll_count", 1);
	is_exactly(TASKS, "total_long_delay_count", 1);
	is_exactly(TASKS, "total_short_delay_duration", 50 * US - 1);
	metrics_release(&m, &c);
}

static void tokio_metrics__of_nothing_are_those_of_the_crate(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_spawn(&c, 1000, 7); /* and not polled */
	case_over(&c, 2000, 7, true);
	metrics_make(&m, &c);
	is_exactly(TASKS, "total_poll_count", 0);
	is_exactly(TASKS, "mean_poll_duration", 0);
	is_exactly(TASKS, "slow_poll_ratio", UINT64_MAX); /* NaN: no value */
	is_exactly(TASKS, "long_delay_ratio", UINT64_MAX);
	assert_non_null(metric_of(TASKS, "slow_poll_ratio")->note);
	metrics_release(&m, &c);
}

static void tokio_metrics__leave_out_what_polls_no_future(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_runtime(&c, 0, 1);
	case_worker(&c, 0, 0);
	case_spawn(&c, 1000, 7);
	case_poll(&c, 2000, 3000, 0, 7);
	case_start(&c, 5000, 0, 7, "svc::task"); /* drops the future */
	case_over(&c, 6000, 7, true);
	case_end(&c, 6000, 0);
	case_spawn(&c, 7000, 8);
	case_start(&c, 8000, 0, 8, "svc::task"); /* does not end here */
	case_wake(&c, 9000, 8, 8, 0);
	metrics_make(&m, &c);
	is_exactly(TASKS, "total_poll_count", 1);
	is_exactly(TASKS, "total_scheduled_count", 0);
	is_exactly(TASKS, "first_poll_count", 2);
	is_exactly(TASKS, "dropped_count", 1);
	is_exactly(RUNTIMES, "total_polls_count", 3); /* a worker counts each */
	is_exactly(RUNTIMES, "live_tasks_count", 1);
	metrics_release(&m, &c);
}

static void tokio_metrics__of_tasks_that_may_be_older_are_bounded(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_poll(&c, 2000, 3000, 0, 7); /* its first one? */
	case_wake(&c, 4000, 0, 7, 0);
	case_poll(&c, 5000, 6000, 0, 7);
	metrics_make(&m, &c);
	is_between(TASKS, "instrumented_count", 0, 1);
	is_between(TASKS, "first_poll_count", 0, 1);
	is_missing(TASKS, "total_first_poll_delay");
	is_between(TASKS, "total_scheduled_count", 1, 2);
	is_between(TASKS, "total_scheduled_duration", 1 * US, UINT64_MAX);
	is_between(TASKS, "total_short_delay_duration", 1 * US, 51 * US);
	is_between(TASKS, "long_delay_ratio", 0, 1000000);
	is_between(TASKS, "max_idle_duration", 1 * US, UINT64_MAX);
	is_exactly(TASKS, "total_poll_count", 2);
	metrics_release(&m, &c);
}

static void tokio_metrics__without_wakes_say_what_would_record_them(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_spawn(&c, 1000, 7);
	case_poll(&c, 2000, 3000, 0, 7);
	case_poll(&c, 5000, 6000, 0, 7);
	metrics_make(&m, &c);
	is_missing(TASKS, "total_scheduled_count");
	is_missing(TASKS, "mean_long_delay_duration");
	is_missing(TASKS, "total_idle_duration");
	is_exactly(TASKS, "total_poll_duration", 2 * US);
	metrics_release(&m, &c);
}

static void tokio_metrics__are_lower_bounds_where_records_are_missing(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	three_polls(&c);
	case_loss(&c, 0, 200000, 300000);
	case_poll(&c, 400000, 401000, 0, 9);
	metrics_make(&m, &c);
	is_between(TASKS, "total_poll_count", 4, UINT64_MAX);
	is_between(TASKS, "dropped_count", 1, UINT64_MAX);
	is_between(TASKS, "mean_poll_duration", 0, UINT64_MAX); /* a mean is no lower bound */
	is_exactly(RUNTIMES, "elapsed", 399000);
	metrics_release(&m, &c);
}

/* Worker 0 of runtime 5 parks at 10, 20 and 30 us, with a poll of 2 us between the first two. */
static void three_parks(struct read_case *c)
{
	case_runtime(c, 5, 1);
	case_worker(c, 0, 5);
	case_worker(c, 1, 5);
	case_spawn(c, 1000, 7);
	case_poll(c, 2000, 3000, 0, 7);
	case_park(c, 10000, 0, 100);
	case_unpark(c, 15000, 0, 100);
	case_wake_by(c, 16000, 7, 0, 3);
	case_poll(c, 17000, 19000, 0, 7);
	case_park(c, 20000, 0, 100);
	case_unpark(c, 25000, 0, 100);
	case_park(c, 30000, 0, 100);
	case_wake_by(c, 31000, 7, 255, 4);
	case_unpark(c, 32000, 0, 100);
	case_poll(c, 34000, 35000, 1, 7);
	case_park(c, 40000, 1, 101);
	case_unpark(c, 42000, 1, 101);
}

static void tokio_metrics__of_a_runtime_add_its_workers_up(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	three_parks(&c);
	metrics_make(&m, &c);
	is_between(RUNTIMES, "workers_count", 2, UINT64_MAX);
	is_exactly(RUNTIMES, "live_tasks_count", 1);
	is_exactly(RUNTIMES, "total_polls_count", 3);
	is_exactly(RUNTIMES, "max_polls_count", 2);
	is_exactly(RUNTIMES, "min_polls_count", 1);
	is_between(RUNTIMES, "total_park_count", 4, UINT64_MAX);
	is_between(RUNTIMES, "max_park_count", 3, UINT64_MAX);
	is_between(RUNTIMES, "total_noop_count", 1, UINT64_MAX); /* the third follows no poll */
	is_exactly(RUNTIMES, "elapsed", 40000);
	/* Worker 0: 2 to 32 us, 12 of them parked; worker 1: 34 to 42, 2 of them parked. */
	is_between(RUNTIMES, "total_busy_duration", 4 * US, 24 * US);
	is_between(RUNTIMES, "max_busy_duration", 3 * US, 18 * US);
	is_between(RUNTIMES, "min_busy_duration", 1 * US, 6 * US);
	is_between(RUNTIMES, "busy_ratio", 100000, 600000);
	is_between(RUNTIMES, "mean_polls_per_park", 0, 1000000); /* three of the four */
	/* Three events each, of which one may be a notification and one a signal. */
	is_between(RUNTIMES, "io_driver_ready_count", 4, 12);
	is_between(RUNTIMES, "total_local_schedule_count", 1, UINT64_MAX);
	is_between(RUNTIMES, "num_remote_schedules", 1, UINT64_MAX);
	is_exactly(RUNTIMES, "poll_time_histogram", 3);
	is_missing(RUNTIMES, "total_steal_count");
	is_missing(RUNTIMES, "global_queue_depth");
	is_missing(RUNTIMES, "budget_forced_yield_count");
	assert_int_equal(c.trace->runtimes[metric_of(RUNTIMES, "elapsed")->subject].id, 5);
	metrics_release(&m, &c);
}

static void tokio_metrics__histogram_has_the_buckets_of_tokio(void **state)
{
	const uint64_t lengths_us[] = {99, 100, 199, 850, 900, 5000};
	const uint64_t counts[] = {1, 2, 0, 0, 0, 0, 0, 0, 1, 2};
	uint64_t at = 2000, seen = 0;
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_runtime(&c, 0, 1);
	case_worker(&c, 0, 0);
	for (uint32_t i = 0; i < 6; i++, at += 10000 * US)
		case_poll(&c, at, at + lengths_us[i] * US, 0, 7);
	metrics_make(&m, &c);
	for (uint32_t i = 0; i < m.runtimes.count; i++) {
		const struct ky_metric_row *row = &m.runtimes.rows[i];

		if (strcmp(row->name, "poll_time_histogram") != 0)
			continue;
		assert_int_equal(row->bucket_ns, seen * 100 * US);
		assert_int_equal(row->value, counts[seen++]);
	}
	assert_int_equal(seen, 10);
	metrics_release(&m, &c);
}

static void tokio_metrics__of_one_thread_steal_nothing(void **state)
{
	struct read_case c;
	struct metrics m;

	(void)state;
	case_begin(&c);
	case_runtime(&c, 0, 2);
	case_worker(&c, 0, 0);
	case_poll(&c, 2000, 3000, 0, 7);
	case_loss(&c, 0, 4000, 5000);
	case_poll(&c, 6000, 7000, 0, 7);
	metrics_make(&m, &c);
	is_exactly(RUNTIMES, "total_steal_count", 0);
	is_exactly(RUNTIMES, "min_overflow_count", 0);
	metrics_release(&m, &c);
}

static void tokio_metrics__survive_each_failing_allocation(void **state)
{
	struct read_case c;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	case_begin(&c);
	three_parks(&c);
	case_open(&c);
	for (n = 0; result != 0; n++) {
		struct ky_metric_rows rows[3] = {0};
		struct ky_tokio_sums sums;

		test_alloc_fail_at(n);
		result = ky_tokio_sums_make(&sums, c.trace);
		if (!result)
			result = ky_task_metrics(&rows[0], c.trace, &sums);
		if (!result)
			result = ky_runtime_metrics(&rows[1], c.trace, &sums);
		if (!result)
			result = ky_console_lints(&rows[2], &sums);
		test_alloc_normal();
		assert_true(result == 0 || result == -ENOMEM);
		for (uint32_t i = 0; i < 3; i++)
			ky_metric_rows_release(&rows[i]);
		ky_tokio_sums_release(&sums);
	}
	assert_true(n > 8);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokio_metrics__of_a_task_follow_its_states),
		cmocka_unit_test(tokio_metrics__slow_and_long_begin_at_50_us),
		cmocka_unit_test(tokio_metrics__of_nothing_are_those_of_the_crate),
		cmocka_unit_test(tokio_metrics__leave_out_what_polls_no_future),
		cmocka_unit_test(tokio_metrics__of_tasks_that_may_be_older_are_bounded),
		cmocka_unit_test(tokio_metrics__without_wakes_say_what_would_record_them),
		cmocka_unit_test(tokio_metrics__are_lower_bounds_where_records_are_missing),
		cmocka_unit_test(tokio_metrics__of_a_runtime_add_its_workers_up),
		cmocka_unit_test(tokio_metrics__histogram_has_the_buckets_of_tokio),
		cmocka_unit_test(tokio_metrics__of_one_thread_steal_nothing),
		cmocka_unit_test(tokio_metrics__survive_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("tokio_metrics", tests, NULL, NULL);
}
