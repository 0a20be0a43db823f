/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that were seen open and ended before the next check. Time is the test's. */
#include "../../lib/watch_case.h"

/* A poll that the next check sees at this age; the one after it comes 50 ms later. */
static uint64_t begin_poll(uint64_t age_ns)
{
	uint64_t begin;

	watch_case_until(&watch, START + 440 * MS);
	begin = watch.due_ns - age_ns;
	assert_true(begin > watch.ring.now_ns);
	watch_case_until(&watch, begin);
	test_poll(&writer, begin, TASK, 0);
	watch_case_until(&watch, begin + age_ns);
	assert_int_equal(watch.due_ns, begin + age_ns + 50 * MS);
	return begin;
}

static void end_poll(uint64_t ns)
{
	watch_case_until(&watch, ns);
	test_poll_end(&writer, ns, 0);
}

static void ended_poll__fires_with_its_length(void **state)
{
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	begin = begin_poll(80 * MS);
	end_poll(begin + 120 * MS);
	assert_int_equal(watch.fired_count, 0);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 120 * MS - 10, 120 * MS + 10);
	assert_int_equal(fired(0)->monotonic_ns, begin + 130 * MS);
	assert_int_equal(fired(0)->tid, TID);
	assert_int_equal(fired(0)->task, TASK);
	assert_int_equal(fired(0)->runtime, 0x1000);
	assert_int_equal(fired(0)->note_count, 1);
}

static void ended_poll__of_less_than_the_threshold_is_silent(void **state)
{
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms; poll>200ms");
	begin = begin_poll(80 * MS);
	end_poll(begin + 99 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

static void ended_poll__that_fired_while_it_was_open_is_silent(void **state)
{
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms cooldown=0s; poll>160ms cooldown=0s");
	begin = begin_poll(80 * MS);
	watch_case_until(&watch, begin + 150 * MS);
	assert_int_equal(watch.fired_count, 1);
	end_poll(begin + 170 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 2);
	assert_int_equal(fired(1)->rule_index, 1);
	assert_int_equal(fired(1)->suppressed_count, 0);
}

/* The thread went on: the end is among the records of the sub-buffer that it took meanwhile. */
static void ended_poll__is_found_in_the_next_sub_buffer(void **state)
{
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	begin = begin_poll(80 * MS);
	test_writer_claim(&writer, begin + 95 * MS);
	end_poll(begin + 110 * MS);
	for (uint64_t now = begin + 111 * MS; now < begin + 130 * MS; now += MS) {
		test_poll(&writer, now, TASK + 1, 0);
		test_poll_end(&writer, now + 10, 0);
	}
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 110 * MS - 10, 110 * MS + 10);
	assert_int_equal(fired(0)->task, TASK);
}

static void ended_poll__nested_ends_are_not_its_own(void **state)
{
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	begin = begin_poll(80 * MS);
	test_poll(&writer, begin + 91 * MS, TASK + 1, 0);
	test_poll_end(&writer, begin + 92 * MS, 0);
	end_poll(begin + 115 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_in_range(fired(0)->value, 115 * MS - 10, 115 * MS + 10);
}

/* Between checks as far apart as that, the process may have been stopped. */
static void ended_poll__across_a_hole_is_counted_alone(void **state)
{
	struct ky_watchdog_stats stats;
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	begin = begin_poll(80 * MS);
	test_poll_end(&writer, begin + 120 * MS, 0);
	watch_case_sleep(&watch, begin + 300 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 1);
	assert_int_equal(stats.late_max_ns, 170 * MS);
}

static void ended_poll__whose_worker_moved_is_excused(void **state)
{
	struct test_writer next;
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms");
	begin = begin_poll(80 * MS);
	test_writer_open(&next, &watch.ring, 99, begin + 95 * MS);
	test_worker(&next, begin + 95 * MS, 4, 0x1000, 0x2000);
	end_poll(begin + 120 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 0);
}

static void ended_poll__counts_once_where_a_cooldown_holds_it_back(void **state)
{
	struct ky_watchdog_stats stats;
	uint64_t begin;

	(void)state;
	watch_case_arm(&watch, "poll>100ms cooldown=1h");
	begin = begin_poll(80 * MS);
	end_poll(begin + 120 * MS);
	watch_case_until(&watch, begin + 135 * MS);
	begin = watch.due_ns - 80 * MS;
	watch_case_until(&watch, begin);
	test_poll(&writer, begin, TASK, 0);
	end_poll(begin + 120 * MS);
	watch_case_until(&watch, begin + 1000 * MS);
	assert_int_equal(watch.fired_count, 1);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.suppressed, 1);
}

#define BUSY_POLLS 10u

/* So many polls of 120 ms within five seconds, and each check so much later than it was asked for:
 * what a busy machine makes of a watchdog. Returns how many fired. */
static uint32_t with_late_checks(uint64_t late_ns, struct ky_watchdog_stats *stats)
{
	uint64_t begin = START + 500 * MS, at = begin, check = START;
	bool is_open = false;

	watch_case_arm(&watch, "poll>100ms cooldown=0s");
	while (check < START + 5500 * MS) {
		for (; at <= check; is_open = !is_open) {
			watch.ring.now_ns = at;
			if (is_open) {
				test_poll_end(&writer, at, 0);
				begin += 507 * MS;
				at = begin;
			} else {
				test_poll(&writer, at, TASK, 0);
				at = begin + 120 * MS;
			}
		}
		watch_case_sleep(&watch, check);
		check = watch.due_ns + late_ns;
	}
	ky_watchdog_stats(watch.watchdog, stats);
	return watch.fired_count;
}

static void ended_poll__fires_where_checks_are_a_little_late(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	assert_int_equal(with_late_checks(12 * MS, &stats), BUSY_POLLS);
	assert_int_equal(stats.late_count, 0);
	assert_int_equal(stats.unwatched_ns, 0);
}

/* Whatever the lateness: a poll that no check saw lies in an interval that is counted. */
static void ended_poll__is_seen_or_its_time_is_counted(void **state)
{
	struct ky_watchdog_stats stats;
	uint32_t unseen, most = 0;

	for (uint64_t late = 0; late <= 60 * MS; late += MS) {
		watch_teardown(state);
		watch_setup_worker(state);
		unseen = BUSY_POLLS - with_late_checks(late, &stats);
		most = unseen > most ? unseen : most;
		assert_true(stats.late_count >= unseen);
		assert_true(stats.unwatched_ns >= unseen * 120 * MS);
	}
	assert_int_equal(most, BUSY_POLLS);
}

/* What is counted is the time between the two checks; what they saw stays. */
static void ended_poll__that_no_check_saw_leaves_a_hole(void **state)
{
	struct ky_watchdog_stats stats;
	uint64_t asked, from;

	(void)state;
	watch_case_arm(&watch, "poll>100ms; poll>10s");
	watch_case_until(&watch, START + 500 * MS);
	asked = watch.due_ns;
	watch_case_until(&watch, asked);
	from = asked;
	asked = watch.due_ns;
	test_poll(&writer, from + MS, TASK, 0);
	watch.ring.now_ns = from + 105 * MS;
	test_poll_end(&writer, from + 105 * MS, 0);
	watch_case_sleep(&watch, from + 110 * MS);
	watch_case_until(&watch, from + 1000 * MS);
	assert_int_equal(watch.fired_count, 0);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 1);
	assert_int_equal(stats.late_max_ns, from + 110 * MS - asked);
	assert_int_equal(stats.unwatched_ns, 110 * MS);
	/* The next firing has the number. */
	test_poll(&writer, from + 1000 * MS, TASK, 0);
	watch_case_until(&watch, from + 1300 * MS);
	assert_int_equal(watch.fired_count, 1);
	assert_int_equal(fired(0)->late_count, 1);
}

/* A second between two checks hides no poll over ten. */
static void ended_poll__over_a_long_threshold_has_no_hole_in_a_late_check(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "poll>10s");
	for (int i = 0; i < 20; i++)
		watch_case_sleep(&watch, watch.due_ns + 4000 * MS);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 0);
}

/* Checks cannot be closer than 50 ms: that promises nothing about the polls in between. */
static void ended_poll__of_less_than_a_check_apart_is_no_hole(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	watch_case_arm(&watch, "poll>5ms");
	for (int i = 0; i < 20; i++)
		watch_case_sleep(&watch, watch.due_ns + 6 * MS);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 0);
	watch_case_sleep(&watch, watch.due_ns + 7 * MS);
	ky_watchdog_stats(watch.watchdog, &stats);
	assert_int_equal(stats.late_count, 1);
}

/* As long as a whole check: none of them fires, and each of these checks is counted. */
static void ended_poll__never_fires_where_all_checks_are_too_late(void **state)
{
	struct ky_watchdog_stats stats;

	(void)state;
	assert_int_equal(with_late_checks(60 * MS, &stats), 0);
	assert_int_equal(stats.late_count, stats.steps - 1);
	assert_int_equal(stats.late_max_ns, 60 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORKER_CASE(ended_poll__fires_with_its_length),
		WORKER_CASE(ended_poll__of_less_than_the_threshold_is_silent),
		WORKER_CASE(ended_poll__that_fired_while_it_was_open_is_silent),
		WORKER_CASE(ended_poll__is_found_in_the_next_sub_buffer),
		WORKER_CASE(ended_poll__nested_ends_are_not_its_own),
		WORKER_CASE(ended_poll__across_a_hole_is_counted_alone),
		WORKER_CASE(ended_poll__fires_where_checks_are_a_little_late),
		WORKER_CASE(ended_poll__is_seen_or_its_time_is_counted),
		WORKER_CASE(ended_poll__that_no_check_saw_leaves_a_hole),
		WORKER_CASE(ended_poll__over_a_long_threshold_has_no_hole_in_a_late_check),
		WORKER_CASE(ended_poll__of_less_than_a_check_apart_is_no_hole),
		WORKER_CASE(ended_poll__never_fires_where_all_checks_are_too_late),
		WORKER_CASE(ended_poll__whose_worker_moved_is_excused),
		WORKER_CASE(ended_poll__counts_once_where_a_cooldown_holds_it_back),
	};

	return cmocka_run_group_tests_name("ended_polls", tests, NULL, NULL);
}
