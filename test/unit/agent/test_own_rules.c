/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rules in a program that links the library: where they come from, and that a firing makes a dump
 * that says which rule it was. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"
#include "../../lib/trace_tally.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <kymo/kymo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char directory[64], errbuf[300];
static struct kymo_recorder *recorder;

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	unsetenv("KYMO_TRIGGERS");
	return temp_tree_remove(directory);
}

static int open_with(const char *triggers, uint32_t flags)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.service = "watching";
	options.dump_directory = options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.ring_bytes = 128u << 10;
	options.triggers = triggers;
	options.flags = flags;
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	return kymo_recorder_open(&recorder, &options);
}

static struct kymo_recorder_status status_now(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	assert_int_equal(kymo_recorder_status(&status), 0);
	return status;
}

static char found[300];
static int found_count;

static int find_one(const char *path, const struct stat *about, int type, struct FTW *ftw)
{
	(void)about;
	(void)ftw;
	if (type == FTW_F && strstr(path, "/dump-")) {
		snprintf(found, sizeof(found), "%s", path);
		found_count++;
	}
	return 0;
}

/* The trace in `found`, once `count` dumps have been made. */
static void wait_for_dumps(uint64_t count)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	while (status_now().dumps_made < count)
		nanosleep(&pause, NULL);
	found_count = 0;
	nftw(directory, find_one, 8, FTW_PHYS);
	assert_int_equal(found_count, count);
}

static void rule__on_a_counter_makes_one_dump(void **state)
{
	uint32_t jobs = kymo_counter_register("jobs waiting", 0);
	struct trace_tally tally = {0};

	(void)state;
	kymo_counter_set(jobs, 0);
	assert_int_equal(open_with("counter:\"jobs waiting\">500 name=\"too many jobs\"", 0), 0);
	kymo_poll_begin(5, 0, 0);
	kymo_poll_end(0);
	kymo_counter_set(jobs, 501);
	wait_for_dumps(1);
	assert_non_null(strstr(found, "-trigger-too_many_jobs.trc"));
	trace_tally_file(&tally, found);
	assert_int_equal(tally.polls, 1);
	assert_int_equal(tally.triggers, 1);
	assert_true(trace_file_has(found, "kymo.trigger.value"));
	assert_int_equal(status_now().triggers_fired, 1);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	found_count = 0;
	nftw(directory, find_one, 8, FTW_PHYS);
	assert_int_equal(found_count, 1); /* cooldown */
}

/* Until the watchdog has checked twice. */
static void set_and_wait(uint32_t counter, int64_t value)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t from = status_now().wakeups;

	kymo_counter_set(counter, value);
	while (status_now().wakeups < from + 2)
		nanosleep(&pause, NULL);
}

static void rule__held_back_is_counted_in_any_dump(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result = {.size = sizeof(result)};
	uint32_t held = kymo_counter_register("held", 0);
	char path[100], count[24];

	(void)state;
	kymo_counter_set(held, 0);
	assert_int_equal(open_with("counter:held>1 cooldown=1h", 0), 0);
	kymo_mark(1);
	kymo_counter_set(held, 2);
	wait_for_dumps(1);
	assert_true(trace_file_has_pair(found, "rules.fired", "1"));
	assert_true(trace_file_has_pair(found, "rules.untold", "0"));
	while (status_now().triggers_suppressed == 0) {
		set_and_wait(held, 0);
		set_and_wait(held, 2);
	}
	set_and_wait(held, 0);
	snprintf(path, sizeof(path), "%s/byhand.trc", directory);
	options.path = path;
	options.flags = KYMO_DUMP_WAIT;
	assert_int_equal(kymo_recorder_dump(&options, &result), 0);
	snprintf(count, sizeof(count), "%" PRIu64, status_now().triggers_suppressed);
	assert_true(trace_file_has_pair(path, "rules.held_back", count));
	assert_true(trace_file_has_pair(path, "rules.untold", count));
	assert_true(trace_file_has_pair(path, "rules.untold_over_budget", "0"));
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void rule__on_an_open_poll_records_what_its_thread_does(void **state)
{
	struct trace_tally tally = {0};

	(void)state;
	assert_int_equal(open_with("poll>60ms", 0), 0);
	kymo_worker_begin(100, 0, 7, 1);
	kymo_poll_begin(5, 0, 0);
	wait_for_dumps(1); /* the poll is still open */
	kymo_poll_end(0);
	trace_tally_file(&tally, found);
	assert_int_equal(tally.triggers, 1);
	assert_true(tally.stuck >= 1);
	kymo_worker_end();
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void rule__on_a_span_fires_while_it_is_open(void **state)
{
	struct kymo_span span;

	(void)state;
	assert_int_equal(open_with("span>60ms cooldown=1ms", 0), 0);
	kymo_span_begin(&span, kymo_name_intern("checkout", 8, 0, 0, 0), 0);
	wait_for_dumps(1); /* the span is still open */
	assert_true(trace_file_has(found, "span>60ms"));
	assert_true(trace_file_has(found, "checkout"));
	assert_true(trace_file_has(found, "OpenSpanEvent"));
	kymo_span_end(&span);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void rule__that_needs_events_is_fed_in_flight_mode(void **state)
{
	(void)state;
	assert_int_equal(open_with("tasks>20", 0), 0);
	kymo_worker_begin(100, 0, 7, 1);
	for (uint64_t task = 1; task <= 50; task++) {
		kymo_spawn(task, 0);
		kymo_poll_begin(task, 0, 0);
		kymo_poll_end(0);
	}
	wait_for_dumps(1);
	assert_true(trace_file_has(found, "tasks>20"));
	kymo_worker_end();
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void rule__fires_while_streaming_into_the_stream_as_well(void **state)
{
	uint32_t jobs = kymo_counter_register("streamed", 0);

	(void)state;
	kymo_counter_set(jobs, 0);
	assert_int_equal(open_with("counter:streamed>5; tasks>100000", KYMO_RECORDER_STREAM), 0);
	kymo_poll_begin(5, 0, 0);
	kymo_poll_end(0);
	kymo_counter_set(jobs, 6);
	wait_for_dumps(1);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_true(trace_file_has(found, "counter:streamed>5"));
}

static void rules__come_from_options_environment_and_calls(void **state)
{
	uint32_t a = kymo_counter_register("a", 0), b = kymo_counter_register("b", 0);
	uint32_t c = kymo_counter_register("c", 0);

	(void)state;
	kymo_counter_set(a, 0);
	kymo_counter_set(b, 0);
	kymo_counter_set(c, 0);
	setenv("KYMO_TRIGGERS", "counter:b>1", 1);
	assert_int_equal(open_with("counter:a>1", 0), 0);
	kymo_mark(1);
	kymo_counter_set(a, 2);
	wait_for_dumps(1);
	kymo_counter_set(b, 2);
	wait_for_dumps(2);
	assert_int_equal(kymo_trigger_add("nothing>1", errbuf, sizeof(errbuf)), -EINVAL);
	assert_non_null(strstr(errbuf, "nothing"));
	assert_int_equal(kymo_trigger_add("nothing>1", NULL, 0), -EINVAL);
	kymo_counter_set(a, 0);
	kymo_counter_set(b, 0);
	assert_int_equal(kymo_trigger_add("counter:c>1", NULL, 0), 0);
	kymo_counter_set(c, 2);
	wait_for_dumps(3);
	assert_non_null(strstr(found, "dump-"));
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(kymo_trigger_add("counter:c>1", NULL, 0), KYMO_E_CLOSED);
}

static void rules__that_do_not_parse_refuse_to_open(void **state)
{
	(void)state;
	assert_int_equal(open_with("poll>soon", 0), -EINVAL);
	assert_null(recorder);
	assert_memory_equal(errbuf, "triggers: ", 10);
	assert_non_null(strstr(errbuf, "soon"));
	setenv("KYMO_TRIGGERS", "polls", 1);
	assert_int_equal(open_with(NULL, 0), -EINVAL);
	assert_memory_equal(errbuf, "KYMO_TRIGGERS: ", 15);
	assert_int_equal(open_with("poll>1s", KYMO_RECORDER_NO_DRAIN), KYMO_E_UNSUPPORTED);
	unsetenv("KYMO_TRIGGERS");
	assert_int_equal(open_with(NULL, 0), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void rules__are_forgotten_by_close(void **state)
{
	uint32_t kept = kymo_counter_register("kept", 0);

	(void)state;
	kymo_counter_set(kept, 0);
	assert_int_equal(open_with("counter:kept>1", 0), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	kymo_counter_set(kept, 2);
	assert_int_equal(open_with("poll>1h", 0), 0);
	kymo_mark(1);
	for (uint64_t from = status_now().wakeups; status_now().wakeups < from + 3;)
		assert_int_equal(status_now().triggers_fired, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		CASE(rule__on_a_counter_makes_one_dump),
		CASE(rule__held_back_is_counted_in_any_dump),
		CASE(rule__on_an_open_poll_records_what_its_thread_does),
		CASE(rule__on_a_span_fires_while_it_is_open),
		CASE(rule__that_needs_events_is_fed_in_flight_mode),
		CASE(rule__fires_while_streaming_into_the_stream_as_well),
		CASE(rules__come_from_options_environment_and_calls),
		CASE(rules__that_do_not_parse_refuse_to_open),
		CASE(rules__are_forgotten_by_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
