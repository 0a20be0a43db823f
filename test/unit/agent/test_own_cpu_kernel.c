/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The linked library samples its own process, by perf_event and without it. What each case records
 * it reads back with the public reader. */
#include "../../lib/burn.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/library_step.h"
#include "../../lib/temp_tree.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <ftw.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <kymo/stack.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <probe/perf_source.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/sample_area.h>

#define MS UINT64_C(1000000)
#define RATE 100u /* a ring of perf_event holds 150 ms */
#define PERIOD_NS (1000 * MS / RATE)
#define IDLE_THREADS 16u
#define NO_FILTER 77
#define NO_STEP 78

static char directory[64], segment[600];
static pid_t stranger;
static uint64_t tables_ns;      /* when has_tables() was over */
static _Atomic uint64_t pauses; /* of what was burnt; of each there is one sample at most */

struct seen {
	uint64_t count, weight_ns, by_perf, by_timer;
	uint64_t of_stranger_ns;
	uint64_t late, late_whole; /* since the tables for walking stacks were made */
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
	int err = prctl(PR_GET_SECCOMP) ? -EPERM : ky_perf_test(&options);

	if (err)
		print_message("# perf_event yields nothing here: %s\n", strerror(-err));
	return !err;
}

static struct kymo_recorder *open_in_mode(uint32_t rate_hz, uint32_t flags)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.flags = flags;
	options.service = "own";
	options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.sample_hz = rate_hz;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	kymo_poll_begin(7, 0, 1); /* there is a ring from now on */
	return recorder;
}

static struct kymo_recorder *open_recorder(uint32_t rate_hz)
{
	return open_in_mode(rate_hz, KYMO_RECORDER_STREAM);
}

static void burn(uint64_t ns)
{
	atomic_fetch_add(&pauses, test_burn(ns));
}

static void *burn_in_thread(void *ctx)
{
	burn(*(const uint64_t *)ctx);
	return NULL;
}

/* Descriptors of perf_event in this process. Without the heap: in a forked child a sanitizer's may
 * be locked for good, by the library's thread that is not there. */
static uint32_t events(void)
{
	char path[40], link[64];
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		bytes = readlink(path, link, sizeof(link) - 1);
		link[bytes > 0 ? bytes : 0] = '\0';
		count += strstr(link, "perf_event") != NULL;
	}
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
	if (kymo_event_field(event, "tid")->as_uint == (uint64_t)stranger)
		seen->of_stranger_ns += kymo_event_field(event, "weight_ns")->as_uint;
	seen->late += event->time_ns > tables_ns;
	seen->late_whole += event->time_ns > tables_ns &&
			    !kymo_event_field(event, "truncated")->as_uint;
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

static const struct ky_sample_class_head *head(void)
{
	const struct ky_sample_head *heads = (const void *)(ky_engine.ring->base +
							    ky_engine.ring->slots_end);

	return &heads->classes[KY_SAMPLES_CPU];
}

/* The library's thread has opened its events, or has found that it cannot. Its own test may fail
 * where ours did not, a moment before. */
static void wait_for_start(struct kymo_recorder *recorder)
{
	uint32_t refusal;

	assert_true(test_wait_for_step());
	refusal = atomic_load(&head()->refusals[KY_SOURCE_PERF]);
	if (refusal == ENODATA) {
		close_recorder(recorder);
		print_message("# perf_event yields nothing this time\n");
		skip();
	}
	assert_int_equal(refusal, 0);
	assert_true(atomic_load(&head()->source) & 1u << KY_SOURCE_PERF);
}

/* The step that began to sample made the tables of all that is mapped, too. Valgrind's own code has
 * none. */
static bool has_tables(void)
{
	uint64_t frames[64];
	struct kymo_stack stack = {.frames = frames, .frames_max = 64};
	struct kymo_stack_start here;

	KYMO_STACK_HERE(&here);
	kymo_stack_capture(&stack, &here);
	tables_ns = ky_now_ns(CLOCK_MONOTONIC);
	return test_is_under_valgrind() || stack.end == KYMO_STACK_FIRST;
}

/* Of what was burnt until now, where the library's thread did not come to the rings in time. */
static uint64_t lost_so_far(void)
{
	assert_true(test_wait_for_step());
	return atomic_load(&head()->lost_count);
}

static void own__perf_event_samples_all_threads_without_a_signal(void **state)
{
	uint64_t ns = 200 * MS, before_ns, lost;
	bool is_always;
	struct kymo_recorder *recorder;
	struct seen seen;
	pthread_t thread;

	(void)state;
	if (!has_perf())
		skip();
	recorder = open_recorder(RATE);
	wait_for_start(recorder);
	assert_true(has_tables());
	assert_true(events() > 0);
	atomic_store(&pauses, 0);
	before_ns = ky_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	assert_int_equal(pthread_create(&thread, NULL, burn_in_thread, &ns), 0);
	burn(ns);
	pthread_join(thread, NULL);
	assert_false(has_handler());
	is_always = !atomic_load(&head()->share_ppm);
	lost = lost_so_far();
	close_recorder(recorder);
	assert_int_equal(events(), 0);
	seen = read_back();
	assert_int_equal(seen.by_perf, seen.count);
	assert_true(seen.count > 0 && seen.weight_ns >= seen.count * PERIOD_NS);
	/* More where that many switches would cost too much, and it is sampled in windows: of so
	 * short a time their weights say little. */
	if (is_always && seen.weight_ns == seen.count * PERIOD_NS) {
		/* And what it took to get there. */
		assert_in_range(seen.weight_ns + lost * PERIOD_NS, 2 * ns - 50 * MS,
				2 * ns + before_ns + 300 * MS + atomic_load(&pauses) * PERIOD_NS);
		assert_true(seen.late + lost >= 30);
	} else {
		print_message("# sampled in windows\n");
	}
	assert_true(test_is_under_valgrind() || seen.late_whole > seen.late * 9 / 10);
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
	wait_for_start(recorder);
	pid = fork();
	if (!pid) {
		burn(100 * MS);
		_exit(events() ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(events() > 0);
	close_recorder(recorder);
	stranger = pid;
	assert_int_equal(read_back().of_stranger_ns, 0);
}

static void *wait_for_end(void *ctx)
{
	for (;;)
		pause();
	return ctx;
}

/* Where it may not open so many, each thread has a timer. In a process of its own, which has a
 * handler for SIGPROF from then on. */
static void be_sampled_by_timers(void)
{
	struct kymo_recorder *recorder;
	struct rlimit limit;
	struct seen seen;
	pthread_t thread;

	/* More threads than a quarter of the descriptors, on one CPU already. */
	for (uint32_t i = 0; i < IDLE_THREADS; i++)
		if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0)
			_exit(NO_STEP);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = IDLE_THREADS * 4;
	setrlimit(RLIMIT_NOFILE, &limit);
	recorder = open_recorder(RATE);
	if (!test_wait_for_step() || !atomic_load(&head()->refusals[KY_SOURCE_PERF]) ||
	    !has_handler())
		_exit(NO_STEP);
	burn(300 * MS);
	close_recorder(recorder);
	seen = read_back();
	_exit(seen.by_perf || seen.weight_ns < 150 * MS || !seen.has_refusal);
}

static void own__timers_stand_in(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid)
		be_sampled_by_timers();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* As most containers start their programs. */
static bool be_under_a_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = 1, .filter = &allow};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void own__timers_stand_in_under_a_filter(void **state)
{
	struct kymo_recorder *recorder;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		struct seen seen;

		if (!be_under_a_filter())
			_exit(NO_FILTER);
		recorder = open_recorder(RATE);
		if (!test_wait_for_step() || !has_handler() || !has_tables())
			_exit(NO_STEP);
		burn(300 * MS);
		close_recorder(recorder);
		seen = read_back();
		_exit(seen.by_perf || seen.weight_ns < 150 * MS || !seen.has_refusal ||
		      (!test_is_under_valgrind() && seen.late_whole < seen.late / 2));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER) {
		print_message("# no filter can be had here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* Between a thread that burns when it is asked to, and who asks. */
static sem_t is_wanted, is_burnt;
static uint64_t burnt_ns;
static bool is_enough;

static void *burn_when_asked(void *ctx)
{
	(void)ctx;
	stranger = (pid_t)syscall(SYS_gettid);
	while (sem_wait(&is_wanted) == 0 && !is_enough) {
		burn(3 * PERIOD_NS);
		burnt_ns += 3 * PERIOD_NS;
		assert_int_equal(sem_post(&is_burnt), 0);
	}
	return NULL;
}

/* A disk that takes as long as the thread needs for three samples. It burns at no other time: how
 * long the rest of a dump takes, under a sanitizer on a busy machine, say, is another thing. */
static int write_slowly(void *ctx, const uint8_t *bytes, size_t count)
{
	(void)bytes;
	(void)count;
	++*(uint32_t *)ctx;
	return sem_post(&is_wanted) || sem_wait(&is_burnt) ? -errno : 0;
}

/* A dump takes the library's thread longer than the rings of perf_event last. */
static void own__a_slow_dump_loses_no_samples(void **state)
{
	struct kymo_dump_options slow = KYMO_DUMP_OPTIONS_INIT, fast = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	uint32_t calls = 0;
	pthread_t thread;
	struct seen seen;

	(void)state;
	if (!has_perf())
		skip();
	recorder = open_in_mode(RATE, 0);
	for (uint32_t i = 0; i < 200000; i++) {
		kymo_poll_end(0);
		kymo_poll_begin(7, 0, 1);
	}
	wait_for_start(recorder);
	assert_int_equal(sem_init(&is_wanted, 0, 0), 0);
	assert_int_equal(sem_init(&is_burnt, 0, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, burn_when_asked, NULL), 0);
	slow.write = write_slowly;
	slow.write_ctx = &calls;
	slow.flags = fast.flags = KYMO_DUMP_WAIT;
	assert_int_equal(kymo_recorder_dump(&slow, NULL), 0);
	is_enough = true;
	assert_int_equal(sem_post(&is_wanted), 0);
	pthread_join(thread, NULL);
	fast.path = directory;
	assert_int_equal(kymo_recorder_dump(&fast, NULL), 0);
	/* More than two rings hold. */
	assert_in_range(calls, 20, 100);
	seen = read_back();
	print_message("# %lu of %lu ms in %u calls\n", seen.of_stranger_ns / MS, burnt_ns / MS,
		      calls);
	assert_true(seen.of_stranger_ns > burnt_ns / 5 * 4);
	close_recorder(recorder);
}

static void own__samples_nothing_when_off(void **state)
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
		CASE(own__samples_nothing_when_off),
		CASE(own__perf_event_samples_all_threads_without_a_signal),
		CASE(own__a_slow_dump_loses_no_samples),
		CASE(own__forked_child_has_no_events),
		CASE(own__timers_stand_in),
		CASE(own__timers_stand_in_under_a_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
