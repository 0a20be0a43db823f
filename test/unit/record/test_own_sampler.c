/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The linked library samples its own process, by perf_event and without it. What each case records
 * it reads back with the public reader. */
#include "../../lib/cmocka_all.h"
#include "../../lib/under_valgrind.h"
#include "../../lib/temp_tree.h"

#include <base/now.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <kymo/emit.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <record/sample/perf_source.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define RATE 100u /* a ring of perf_event holds a third of a second */

static char directory[64], segment[600];

struct seen {
	uint64_t count, weight_ns, whole, by_perf, by_timer;
	bool has_refusal;
};

static int set_up(void **state)
{
	(void)state;
	segment[0] = '\0';
	return temp_tree_make(directory, sizeof(directory));
}

static int tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

static bool has_perf(void)
{
	struct ky_perf_options options = {
		.rate_hz = RATE, .stack_bytes = 16384, .is_of_threads = true, .has_kernel = true};
	int err = ky_perf_test(&options);

	if (err)
		print_message("# perf_event yields nothing here: %s\n", strerror(-err));
	return !err;
}

static struct kymo_recorder *open_recorder(uint32_t rate_hz)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.flags = KYMO_RECORDER_STREAM;
	options.service = "own";
	options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.sample_hz = rate_hz;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	kymo_poll_begin(7, 0, 1); /* there is a ring from now on */
	return recorder;
}

static void burn(uint64_t ns)
{
	uint64_t start = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start < ns)
		for (volatile int i = 0; i < 20000; i++)
			;
}

static void *burn_in_thread(void *ctx)
{
	burn(*(const uint64_t *)ctx);
	return NULL;
}

/* Descriptors of perf_event in this process. */
static uint32_t events(void)
{
	char path[300], link[64];
	uint32_t count = 0;
	struct dirent *entry;
	DIR *fds = opendir("/proc/self/fd");

	while (fds && (entry = readdir(fds)) != NULL) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		bytes = readlink(path, link, sizeof(link) - 1);
		link[bytes > 0 ? bytes : 0] = '\0';
		count += strstr(link, "perf_event") != NULL;
	}
	if (fds)
		closedir(fds);
	return count;
}

static bool has_handler(void)
{
	struct sigaction now;

	return sigaction(SIGPROF, NULL, &now) == 0 && now.sa_handler != SIG_DFL;
}

static int note_segment(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t length = strlen(path);

	(void)st;
	(void)ftw;
	if (type == FTW_F && length > 4 && strcmp(path + length - 4, ".trc") == 0)
		snprintf(segment, sizeof(segment), "%s", path);
	return 0;
}

static bool is_type(const struct kymo_event *event, const char *name)
{
	return event->type_bytes == strlen(name) &&
	       memcmp(event->type, name, event->type_bytes) == 0;
}

static void count_sample(const struct kymo_event *event, struct seen *seen)
{
	uint64_t sampler = kymo_event_field(event, "sampler")->as_uint;

	seen->count++;
	seen->weight_ns += kymo_event_field(event, "weight_ns")->as_uint;
	seen->whole += !kymo_event_field(event, "truncated")->as_uint;
	seen->by_perf += sampler == 1;
	seen->by_timer += sampler == 2;
}

static struct seen read_back(void)
{
	const struct kymo_event *event;
	struct kymo_reader *reader;
	static uint8_t bytes[8u << 20];
	struct seen seen = {0};
	size_t count;
	FILE *file;

	nftw(directory, note_segment, 8, FTW_PHYS);
	file = fopen(segment, "rb");
	assert_non_null(file);
	count = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	seen.has_refusal = memmem(bytes, count, "perf_event: ", 12) != NULL;
	assert_int_equal(kymo_reader_open_memory(&reader, bytes, count, NULL), 0);
	while (kymo_reader_next(reader, &event) == 1)
		if (is_type(event, "CpuSampleEvent"))
			count_sample(event, &seen);
	kymo_reader_close(reader);
	return seen;
}

static void close_recorder(struct kymo_recorder *recorder)
{
	kymo_poll_end(0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

/* Until the library's thread has opened its events, one for each processor and thread, behind
 * those of its test, or has found that it cannot; and a step more. */
static void wait_for_start(void)
{
	while (events() < 2 * (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) && !has_handler())
		burn(MS);
	burn(30 * MS);
}

static void own__perf_event_samples_all_threads_without_a_signal(void **state)
{
	uint64_t ns = 200 * MS;
	struct kymo_recorder *recorder;
	struct seen seen;
	pthread_t thread;

	(void)state;
	if (!has_perf())
		skip();
	recorder = open_recorder(RATE);
	wait_for_start();
	assert_true(events() > 0);
	assert_int_equal(pthread_create(&thread, NULL, burn_in_thread, &ns), 0);
	burn(ns);
	pthread_join(thread, NULL);
	assert_false(has_handler());
	close_recorder(recorder);
	assert_int_equal(events(), 0);
	seen = read_back();
	assert_int_equal(seen.by_perf, seen.count);
	assert_int_equal(seen.weight_ns, seen.count * (1000 * MS / RATE));
	/* 400 ms, and what it took to get there; sanitizers lose more than half of it. */
	assert_in_range(seen.weight_ns, 120 * MS, 700 * MS);
	/* Valgrind's own code has no tables of ours. */
	assert_true(test_is_under_valgrind() || seen.whole > seen.count / 2);
	assert_false(seen.has_refusal);
}

static void own__forked_child_has_no_events(void **state)
{
	struct kymo_recorder *recorder;
	int status;
	pid_t pid;

	(void)state;
	if (!has_perf())
		skip();
	recorder = open_recorder(RATE);
	wait_for_start();
	pid = fork();
	if (!pid) {
		burn(100 * MS);
		_exit(events() ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(events() > 0);
	close_recorder(recorder);
	/* What the child burned is not in it. */
	assert_in_range(read_back().weight_ns, 0, 150 * MS);
}

/* Where it may not open so many, each thread has a timer. In a process of its own, which has a
 * handler for SIGPROF from then on. */
static void own__timers_stand_in(void **state)
{
	const struct rlimit few = {.rlim_cur = 7, .rlim_max = 7};
	struct kymo_recorder *recorder;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		struct seen seen;
		struct rlimit limit;

		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = few.rlim_cur;
		recorder = open_recorder(RATE);
		setrlimit(RLIMIT_NOFILE, &limit);
		while (!has_handler())
			burn(MS);
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		burn(300 * MS);
		close_recorder(recorder);
		seen = read_back();
		_exit(seen.by_perf || seen.weight_ns < 150 * MS || !seen.has_refusal);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void own__nobody_samples_where_nobody_asked(void **state)
{
	struct kymo_recorder *recorder = open_recorder(KYMO_SAMPLE_OFF);

	(void)state;
	burn(100 * MS);
	assert_int_equal(events(), 0);
	assert_false(has_handler());
	close_recorder(recorder);
	assert_int_equal(read_back().count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		CASE(own__nobody_samples_where_nobody_asked),
		CASE(own__perf_event_samples_all_threads_without_a_signal),
		CASE(own__forked_child_has_no_events),
		CASE(own__timers_stand_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
