/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a poll cost: on CPU or not, with which counts, and no descriptor or call too many. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <kymo/poll_cost.h>
#include <pthread.h>
#include <record/sample/rseq_mark.h>
#include <record/sample/sched_file.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES 10000u

static struct test_recorder test;

static int setup(void **state)
{
	(void)state;
	test_recorder_open(&test, 1 << 20, KYMO_RECORDER_EAGER);
	if (kymo_poll_cost_ticks_min != UINT64_MAX)
		kymo_poll_cost_ticks_min = 1; /* every poll is a long one */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_recorder_close(&test);
	return 0;
}

static void block(void)
{
	const struct timespec moment = {.tv_nsec = 2000000};

	nanosleep(&moment, NULL);
}

static void poll(void (*body)(void))
{
	uint64_t begin = kymo_poll_begin(7, 0, 0), counts = kymo_poll_cost_self.counts;

	kymo_poll_cost_begin(begin, 1);
	if (body)
		body();
	kymo_poll_cost_end(begin, kymo_poll_end(0), counts, 1);
}

/* The n-th record of this type; NULL: there are fewer. */
static const struct test_record *record(uint32_t type, size_t n)
{
	test_recorder_read(&test);
	for (size_t i = 0; i < test.ring.count; i++)
		if (test.ring.records[i].type == type && n-- == 0)
			return &test.ring.records[i];
	return NULL;
}

/* Where the reading of the counter beside the clock was disturbed, a recording takes the clock. */
static void skip_without_counter(void)
{
	print_message("# the recording took the system's clock, not the CPU's counter\n");
	skip();
}

static void need_counter(void)
{
	if (kymo_poll_cost_ticks_min == UINT64_MAX)
		skip_without_counter();
}

static void need_mark(void)
{
	need_counter();
	if (ky_rseq_refusal()) {
		print_message("# %s\n", ky_rseq_refusal());
		skip();
	}
}

static void wake_twice(void)
{
	kymo_poll_cost_self.counts += 2 * KYMO_POLL_COST_WAKE + KYMO_POLL_COST_NESTED;
}

static void cost__of_a_poll_that_blocked_is_less_than_its_duration(void **state)
{
	const struct test_record *cost, *counts;

	(void)state;
	need_counter();
	poll(block);
	cost = record(KYMO_RECORD_POLL_COST, 0);
	counts = record(KYMO_RECORD_POLL_COUNTS, 0);
	assert_non_null(cost);
	assert_non_null(counts);
	assert_true(counts->number < cost->number);
	assert_int_equal(cost->arg & KYMO_POLL_COST_ON_CPU, 0);
	assert_true(counts->words[1] & UINT32_MAX); /* voluntary switches */
	assert_int_equal(counts->arg, 0);
}

static void cost__has_wakes_and_nested_polls(void **state)
{
	const struct test_record *counts;

	(void)state;
	need_counter();
	poll(wake_twice);
	counts = record(KYMO_RECORD_POLL_COUNTS, 0);
	assert_non_null(counts);
	assert_int_equal(counts->arg, 1);
	assert_int_equal(counts->words[2] & UINT32_MAX, 2);
}

/* On any machine some poll of some instructions is not switched out. */
static void cost__of_a_poll_on_cpu_is_its_duration(void **state)
{
	const struct test_record *cost = NULL;

	(void)state;
	need_mark();
	for (uint32_t i = 0; i < TRIES; i++) {
		poll(NULL);
		cost = record(KYMO_RECORD_POLL_COST, i);
		if (!cost || cost->arg & KYMO_POLL_COST_ON_CPU)
			break;
	}
	assert_non_null(cost);
	assert_true(cost->arg & KYMO_POLL_COST_ON_CPU);
	assert_true(cost->words[0] > 0);
	assert_int_equal(cost->words[1], 0);
	assert_int_equal(cost->words[2], 0);
}

static void mark__is_cleared_by_a_switch(void **state)
{
	const uint64_t *mark;

	(void)state;
	need_mark();
	poll(NULL);
	mark = ky_rseq_mark();
	assert_non_null(mark);
	block();
	assert_true(*(const volatile uint64_t *)mark != kymo_poll_cost_marked);
	/* One that is not to be trusted is not used again. */
	ky_rseq_refuse("tested");
	assert_null(ky_rseq_mark());
	ky_rseq_refuse(NULL);
}

/* Another thread finds that marks do not hold, while ours stands: the kernel ends a program whose
 * area points to what is no section. */
static void mark__is_not_set_once_another_thread_refused_it(void **state)
{
	const uint64_t *mark;

	(void)state;
	need_mark();
	poll(NULL);
	mark = ky_rseq_mark();
	assert_non_null(mark);
	ky_rseq_refuse("tested");
	__atomic_store_n(&kymo_poll_cost_marked, KY_RSEQ_NO_MARK, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 3; i++) {
		poll(block);
		assert_true(*(const volatile uint64_t *)mark != KY_RSEQ_NO_MARK);
	}
	assert_non_null(record(KYMO_RECORD_POLL_COST, 2));
	ky_rseq_refuse(NULL);
}

static void *poll_while_cancelled(void *ctx)
{
	pthread_cancel(pthread_self());
	poll(NULL); /* opens a file, and reads it */
	*(bool *)ctx = true;
	pthread_testcancel();
	*(bool *)ctx = false;
	return NULL;
}

/* A thread that another thread has cancelled ends where the program allows it, not in a poll. */
static void cost__ends_no_thread_that_was_cancelled(void **state)
{
	bool is_polled = false;

	(void)state;
	need_counter();
	test_in_thread(poll_while_cancelled, &is_polled);
	assert_true(is_polled);
}

static void cost__is_not_read_once_the_process_is_confined(void **state)
{
	(void)state;
	need_counter();
	kymo_recorder_confine();
	poll(block);
	assert_null(record(KYMO_RECORD_POLL_COST, 0));
	poll(block);
	assert_true(kymo_poll_cost_ticks_min == UINT64_MAX);
}

/* ---- descriptors ---- */

static uint32_t sched_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	uint32_t count = 0;
	char to[64];

	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL) {
		ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, to, sizeof(to) - 1);

		to[bytes > 0 ? bytes : 0] = 0;
		count += strstr(to, "schedstat") != NULL;
	}
	closedir(folder);
	return count;
}

static void *poll_once(void *ctx)
{
	poll(NULL);
	*(uint32_t *)ctx = sched_files();
	return NULL;
}

static void files__end_with_their_threads_and_in_a_child(void **state)
{
	uint32_t before = sched_files(), inside = 0;
	int status = 0;
	pid_t child;

	(void)state;
	need_counter();
	test_in_thread(poll_once, &inside);
	assert_int_equal(inside, before + 1);
	assert_int_equal(sched_files(), before);
	poll(NULL);
	child = fork();
	if (!child)
		_exit(sched_files() ? 1 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void files__end_with_the_recording_and_begin_with_the_next(void **state)
{
	(void)state;
	need_counter();
	poll(NULL);
	assert_int_equal(sched_files(), 1);
	test_recorder_close(&test);
	assert_int_equal(sched_files(), 0);
	test_recorder_open(&test, 1 << 20, KYMO_RECORDER_EAGER);
	poll(NULL);
	assert_int_equal(sched_files(), 1);
}

static void *open_one(void *ctx)
{
	ky_sched_file_open(ctx);
	return NULL;
}

static void files__are_none_where_descriptors_are_few(void **state)
{
	struct ky_sched_file file = {0};
	struct rlimit limit, few;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = KY_SCHED_LIMIT_MIN - 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	test_in_thread(open_one, &file);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(file.place, 0);
}

/* The program closed it and opened a file of its own under its number. */
static void file__of_another_is_neither_read_nor_closed(void **state)
{
	struct ky_sched_file file = {0};
	uint64_t delay_ns;
	int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(other >= 0);
	ky_sched_file_open(&file);
	if (!file.place)
		skip();
	for (int fd = 0; fd < 1024; fd++) {
		char path[64], to[64];
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		bytes = readlink(path, to, sizeof(to) - 1);
		to[bytes > 0 ? bytes : 0] = 0;
		if (strstr(to, "schedstat"))
			assert_int_equal(dup2(other, fd), fd);
	}
	assert_false(ky_sched_file_read(&file, 1, &delay_ns));
	ky_sched_file_close(&file);
	assert_int_equal(fcntl(other, F_GETFD), FD_CLOEXEC);
	close(other);
}

/* `kymo run` says when: a filter of the program may kill for a call that it never makes itself. */
static void cost__of_a_prepared_ring_waits_for_the_permission(void **state)
{
	(void)state;
	test_recorder_open(&test, 1 << 20, KYMO_RECORDER_PREPARED);
	poll(NULL);
	if (kymo_poll_cost_ticks_min == UINT64_MAX) {
		test_recorder_close(&test);
		skip_without_counter();
	}
	kymo_poll_cost_ticks_min = 1;
	poll(block);
	poll(block);
	assert_null(record(KYMO_RECORD_POLL_COST, 0));
	__atomic_store_n(&kymo_control.may_call, 1, __ATOMIC_RELAXED);
	poll(NULL); /* tests the mark */
	poll(block);
	poll(block);
	assert_non_null(record(KYMO_RECORD_POLL_COST, 0));
	__atomic_store_n(&kymo_control.may_call, 0, __ATOMIC_RELAXED);
	poll(block); /* clears the mark; the next one looks */
	poll(NULL);
	assert_int_equal(kymo_poll_cost_ticks_min, UINT64_MAX);
	test_recorder_close(&test);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(cost__of_a_poll_that_blocked_is_less_than_its_duration),
		CASE(cost__has_wakes_and_nested_polls),
		CASE(cost__of_a_poll_on_cpu_is_its_duration),
		CASE(mark__is_cleared_by_a_switch),
		CASE(cost__ends_no_thread_that_was_cancelled),
		CASE(mark__is_not_set_once_another_thread_refused_it),
		CASE(files__end_with_their_threads_and_in_a_child),
		CASE(files__end_with_the_recording_and_begin_with_the_next),
		cmocka_unit_test(files__are_none_where_descriptors_are_few),
		cmocka_unit_test(file__of_another_is_neither_read_nor_closed),
		cmocka_unit_test(cost__of_a_prepared_ring_waits_for_the_permission),
		CASE(cost__is_not_read_once_the_process_is_confined), /* the last: for ever */
	};

	return cmocka_run_group_tests_name("poll_cost", tests, NULL, NULL);
}
