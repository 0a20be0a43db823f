/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Dumps from inside: what is in them, where they go, and that asking for one never hurts. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"
#include "../../lib/trace_tally.h"

#include <base/now.h>
#include <errno.h>
#include <ftw.h>
#include <kymo/kymo.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITING_MAX 32
#define HOUR_NS (UINT64_C(3600) * 1000000000u)

static char directory[64];
static struct kymo_recorder *recorder;

/* ---- fixture ---- */

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

static int file_count, active_count;

static int count_one(const char *path, const struct stat *about, int type, struct FTW *ftw)
{
	(void)about;
	(void)ftw;
	file_count += type == FTW_F;
	active_count += type == FTW_F && strstr(path, ".active") != NULL;
	return 0;
}

static int count_files(void)
{
	file_count = active_count = 0;
	nftw(directory, count_one, 8, FTW_PHYS);
	return file_count;
}

static void open_with(uint32_t flags, uint64_t ring_bytes)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.service = "dumping";
	options.dump_directory = options.trace_directory = directory;
	options.resource_interval_ms = UINT32_MAX; /* a reading wakes the thread up */
	options.compression = KYMO_COMPRESSION_NONE;
	options.ring_bytes = ring_bytes;
	options.flags = flags;
	options.age_min_ns = HOUR_NS;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
}

static void emit_polls(uint64_t task, int count)
{
	for (int i = 0; i < count; i++) {
		kymo_poll_begin(task, 0, 1);
		kymo_poll_end(0);
	}
}

static int dump(struct kymo_dump_options *options, struct kymo_dump_result *result)
{
	memset(result, 0, sizeof(*result));
	result->size = sizeof(*result);
	options->flags |= KYMO_DUMP_WAIT;
	return kymo_recorder_dump(options, result);
}

static struct kymo_recorder_status status_now(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	assert_int_equal(kymo_recorder_status(&status), 0);
	return status;
}

/* ---- what is in it ---- */

static uint64_t polls_in(const char *path)
{
	struct trace_tally tally = {0};

	trace_tally_file(&tally, path);
	return tally.polls;
}

static void dump__that_stops_keeps_what_the_ring_holds(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;

	(void)state;
	open_with(0, 0);
	emit_polls(5, 1000);
	options.flags = KYMO_DUMP_STOP;
	assert_int_equal(dump(&options, &result), 0);
	emit_polls(5, 1000);
	options.flags = 0;
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(polls_in(result.path), 1000);
	kymo_recorder_gates(KYMO_GATES_DEFAULT, 0);
	emit_polls(5, 10);
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(polls_in(result.path), 1010);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void dump__writes_a_whole_trace_with_its_reason(void **state)
{
	const struct kymo_key_value pair = {"deploy", "release seven"};
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;
	struct trace_tally tally = {0};

	(void)state;
	open_with(0, 0);
	emit_polls(5, 1000);
	options.reason = "too slow/again";
	options.label = "a customer noticed";
	options.metadata = &pair;
	options.metadata_count = 1;
	assert_int_equal(dump(&options, &result), 0);
	assert_non_null(strstr(result.path, "/dumping/dump-2"));
	assert_non_null(strstr(result.path, "-too_slow_again.trc"));
	trace_tally_file(&tally, result.path);
	assert_int_equal(tally.polls, 1000);
	assert_int_equal(tally.ends, 1000);
	assert_true(result.events_written >= 2000);
	assert_int_equal(result.records_lost, 0);
	assert_true(result.oldest_ns && result.oldest_ns <= result.newest_ns);
	assert_true(trace_file_has(result.path, "a customer noticed"));
	assert_true(trace_file_has(result.path, "release seven"));
	assert_true(trace_file_has(result.path, "too_slow_again"));
	assert_int_equal(count_files(), 1);
	emit_polls(5, 10); /* and it continues */
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(count_files(), 2);
	assert_int_equal(active_count, 0);
	assert_int_equal(status_now().dumps_made, 2);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(count_files(), 2); /* flight: nothing else is written */
}

static void dump__range_holds_what_happened_in_it(void **state)
{
	struct kymo_dump_options before = KYMO_DUMP_OPTIONS_INIT, after = KYMO_DUMP_OPTIONS_INIT;
	struct trace_tally early = {0}, late = {0};
	struct kymo_dump_result result;
	uint64_t between_ns;

	(void)state;
	open_with(0, 0);
	emit_polls(5, 100);
	usleep(1000); /* stamps are exact to a microsecond or so */
	between_ns = ky_now_ns(CLOCK_MONOTONIC);
	usleep(1000);
	emit_polls(6, 50);
	before.to_ns = between_ns;
	assert_int_equal(dump(&before, &result), 0);
	trace_tally_file(&early, result.path);
	assert_int_equal(early.polls, 100);
	assert_int_equal(early.last_task, 5);
	after.from_ns = between_ns;
	assert_int_equal(dump(&after, &result), 0);
	trace_tally_file(&late, result.path);
	assert_int_equal(late.polls, 50);
	assert_int_equal(late.last_task, 6);
	after.from_ns = 0;
	after.last_ns = HOUR_NS;
	assert_int_equal(dump(&after, &result), 0);
	trace_tally_file(&late, result.path);
	assert_int_equal(late.polls, 50 + 150);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void dump__close_does_not_wait_for_the_rest_of_the_range(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct trace_tally tally = {0};
	char path[128];

	(void)state;
	open_with(0, 0);
	emit_polls(5, 10);
	snprintf(path, sizeof(path), "%s/late.trc", directory);
	options.path = path;
	options.after_ns = HOUR_NS;
	assert_int_equal(kymo_recorder_dump(&options, NULL), 0);
	emit_polls(5, 20); /* part of it: they come within the hour */
	assert_int_equal(status_now().dumps_waiting, 1);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	trace_tally_file(&tally, path);
	assert_int_equal(tally.polls, 30);
}

static void dump__reports_its_age_and_the_ring_size_needed(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;

	(void)state;
	open_with(0, 128u << 10);
	emit_polls(5, 100);
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(result.ring_bytes_needed, 0); /* all of it is there */
	emit_polls(5, 100000);
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(result.ring_bytes, 128u << 10);
	assert_true(result.age_ns > 0 && result.age_ns < HOUR_NS);
	assert_true(result.ring_bytes_needed > result.ring_bytes);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void dump__a_name_of_another_packing_makes_no_directory(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;
	char path[128];

	(void)state;
	open_with(0, 0);
	emit_polls(5, 10);
	snprintf(path, sizeof(path), "%s/a.trc.xz", directory);
	options.path = path;
	assert_int_equal(dump(&options, &result), -EINVAL);
	assert_int_equal(result.err, -EINVAL);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(dump(&options, &result), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void dump__before_the_first_event_is_an_error(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;

	(void)state;
	open_with(0, 0);
	assert_int_equal(dump(&options, &result), KYMO_E_AGAIN);
	assert_int_equal(result.err, KYMO_E_AGAIN);
	options.flags |= KYMO_DUMP_STOP; /* there is nothing to stop yet */
	assert_int_equal(dump(&options, &result), KYMO_E_AGAIN);
	assert_int_equal(count_files(), 0);
	assert_int_equal(status_now().dumps_failed, 2);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(dump(&options, &result), KYMO_E_CLOSED);
}

/* ---- where it goes ---- */

struct memory {
	uint8_t *bytes;
	size_t count, limit;
};

static int into_memory(void *ctx, const uint8_t *bytes, size_t count)
{
	struct memory *memory = ctx;

	if (memory->count + count > memory->limit)
		return -EPIPE;
	memory->bytes = realloc(memory->bytes, memory->count + count);
	memcpy(memory->bytes + memory->count, bytes, count);
	memory->count += count;
	return 0;
}

static void dump__is_written_to_a_function(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct memory memory = {.limit = SIZE_MAX};
	struct kymo_dump_result result;
	struct trace_tally tally = {0};

	(void)state;
	open_with(0, 0);
	emit_polls(5, 300);
	options.write = into_memory;
	options.write_ctx = &memory;
	assert_int_equal(dump(&options, &result), 0);
	assert_string_equal(result.path, "");
	assert_int_equal(result.bytes_written, memory.count);
	trace_tally_memory(&tally, memory.bytes, memory.count);
	assert_int_equal(tally.polls, 300);
	memory.limit = memory.count + 100;
	assert_int_equal(dump(&options, &result), -EPIPE);
	assert_int_equal(count_files(), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	free(memory.bytes);
}

static void stream__is_written_to_a_function(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct memory memory = {.limit = SIZE_MAX};
	struct trace_tally tally = {0};

	(void)state;
	options.flags = KYMO_RECORDER_STREAM;
	options.compression = KYMO_COMPRESSION_NONE;
	options.write = into_memory;
	options.write_ctx = &memory;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	emit_polls(5, 30000);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	trace_tally_memory(&tally, memory.bytes, memory.count);
	assert_int_equal(tally.polls, 30000);
	assert_int_equal(tally.lost, 0);
	free(memory.bytes);
	options.trace_file = "/tmp/never.trc";
	assert_int_equal(kymo_recorder_open(&recorder, &options), -EINVAL);
}

static void dump__named_file_keeps_the_earlier_file(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct trace_tally old = {0}, now = {0};
	struct kymo_dump_result result;
	char path[128], aside[136];

	(void)state;
	open_with(0, 0);
	snprintf(path, sizeof(path), "%s/made/on/the/way/one.trc", directory);
	snprintf(aside, sizeof(aside), "%s.old", path);
	options.path = path;
	emit_polls(5, 10);
	assert_int_equal(dump(&options, &result), 0);
	assert_string_equal(result.path, path);
	emit_polls(5, 10);
	assert_int_equal(dump(&options, &result), 0);
	trace_tally_file(&old, aside);
	trace_tally_file(&now, path);
	assert_int_equal(old.polls, 10);
	assert_int_equal(now.polls, 20);
	snprintf(path, sizeof(path), "%s/dir.trc", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(dump(&options, &result), -EISDIR);
	snprintf(path, sizeof(path), "%s/elsewhere", directory);
	assert_int_equal(dump(&options, &result), 0);
	assert_memory_equal(result.path, path, strlen(path));
	assert_non_null(strstr(result.path, "/elsewhere/dumping/dump-"));
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

/* ---- what can go wrong ---- */

static void dump__options_that_make_no_sense_are_refused(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_key_value pair = {"kymo.own", "x"};
	struct {
		struct kymo_dump_options known;
		uint64_t later;
	} newer = {KYMO_DUMP_OPTIONS_INIT, 1};
	struct kymo_dump_result result = {.size = sizeof(result)};

	(void)state;
	open_with(KYMO_RECORDER_EAGER, 0);
	newer.known.size = sizeof(newer);
	assert_int_equal(kymo_recorder_dump(&newer.known, NULL), -E2BIG);
	options.last_ns = options.from_ns = 1;
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.last_ns = 0;
	options.from_ns = 5;
	options.to_ns = 4;
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.to_ns = 0;
	options.from_ns = UINT64_MAX / 2; /* of this, nothing is there when it is made */
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.from_ns = 0;
	options.after_ns = HOUR_NS + 1;
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.after_ns = 0;
	options.metadata = &pair;
	options.metadata_count = 1;
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.metadata_count = 0;
	options.path = "";
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.path = NULL;
	options.flags = 1u << 7;
	assert_int_equal(kymo_recorder_dump(&options, NULL), -EINVAL);
	options.flags = 0;
	result.size = 1;
	assert_int_equal(kymo_recorder_dump(&options, &result), -EINVAL);
	assert_int_equal(status_now().dumps_waiting, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

#define NO_MOUNT 77

static void in_child(void (*fn)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNT) {
		print_message("# a small tmpfs needs the right to mount\n");
		skip();
	}
	assert_int_equal(status, 0);
}

#define CHILD_CHECK(what)                                                                          \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "# %d: %s\n", __LINE__, #what);                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void fill_disk(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct rlimit limit = {4096, 4096};
	struct kymo_dump_result result;

	open_with(0, 0);
	emit_polls(5, 20000);
	setrlimit(RLIMIT_FSIZE, &limit);
	CHILD_CHECK(dump(&options, &result) == -EFBIG);
	CHILD_CHECK(result.path[0] == 0);
	CHILD_CHECK(count_files() == 0);
	CHILD_CHECK(dump(&options, &result) == -EFBIG);
	CHILD_CHECK(kymo_recorder_close(recorder) == 0);
}

static void skip_where_a_child_cannot_start_threads(void)
{
#if defined(__SANITIZE_THREAD__)
	print_message("# the thread sanitizer does not support threads in a forked child\n");
	skip();
#endif
}

static void dump__file_size_limit_is_one_error_and_nothing_is_left(void **state)
{
	(void)state;
	skip_where_a_child_cannot_start_threads();
	in_child(fill_disk);
}

static void fill_tmpfs(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=64k,mode=700") != 0)
		_exit(NO_MOUNT);
	open_with(0, 0);
	emit_polls(5, 20000);
	CHILD_CHECK(dump(&options, &result) == -ENOSPC);
	CHILD_CHECK(count_files() == 0);
	CHILD_CHECK(dump(&options, &result) == -ENOSPC);
	CHILD_CHECK(status_now().dumps_failed == 2);
	CHILD_CHECK(kymo_recorder_close(recorder) == 0);
}

static void dump__full_disk_is_one_error_and_nothing_is_left(void **state)
{
	(void)state;
	skip_where_a_child_cannot_start_threads();
	in_child(fill_tmpfs);
}

static void dump__every_failing_allocation_leaves_nothing(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;
	int err = -ENOMEM;
	uint64_t n;

	(void)state;
	open_with(0, 128u << 10);
	emit_polls(5, 2000);
	for (n = 0; n < 2000 && err; n++) {
		test_alloc_fail_at(n);
		err = dump(&options, &result);
		test_alloc_normal();
		if (err)
			assert_int_equal(err, -ENOMEM);
		assert_int_equal(count_files(), err ? 0 : 1);
	}
	assert_int_equal(err, 0);
	assert_true(n > 5);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

/* ---- many at once ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_inside, is_open;
	int done, err_of_wait;
};

static void stand_in_gate(void *ctx, const struct kymo_dump_result *result)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct gate *gate = ctx;

	(void)result;
	options.flags = KYMO_DUMP_WAIT;
	pthread_mutex_lock(&gate->lock);
	gate->err_of_wait = kymo_recorder_dump(&options, NULL);
	gate->is_inside = true;
	pthread_cond_broadcast(&gate->changed);
	while (!gate->is_open)
		pthread_cond_wait(&gate->changed, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

static void count_done(void *ctx, const struct kymo_dump_result *result)
{
	struct gate *gate = ctx;

	pthread_mutex_lock(&gate->lock);
	gate->done += result->err == 0;
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

static void dump__queue_is_bounded_and_the_rest_is_counted(void **state)
{
	struct gate gate = {
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, 0, 0};
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;

	(void)state;
	open_with(0, 128u << 10);
	emit_polls(5, 10);
	options.done = stand_in_gate;
	options.done_ctx = &gate;
	assert_int_equal(kymo_recorder_dump(&options, NULL), 0);
	pthread_mutex_lock(&gate.lock);
	while (!gate.is_inside)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	assert_int_equal(gate.err_of_wait, -EDEADLK);
	options.done = count_done;
	for (int i = 0; i < WAITING_MAX; i++)
		assert_int_equal(kymo_recorder_dump(&options, NULL), 0);
	assert_int_equal(kymo_recorder_dump(&options, NULL), KYMO_E_BUSY);
	assert_int_equal(status_now().dumps_refused, 1);
	assert_int_equal(status_now().dumps_waiting, WAITING_MAX);
	pthread_mutex_lock(&gate.lock);
	gate.is_open = true;
	pthread_cond_broadcast(&gate.changed);
	while (gate.done < WAITING_MAX)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(count_files(), WAITING_MAX + 1);
	assert_int_equal(active_count, 0);
}

static uint64_t made, refused, closed, other;
static int other_error; /* one of those */

static void *dump_once(void *ctx)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;
	int err = dump(&options, &result);
	uint64_t *word = err == 0             ? &made :
			 err == KYMO_E_BUSY   ? &refused :
			 err == KYMO_E_CLOSED ? &closed :
						&other;

	(void)ctx;
	if (word == &other)
		__atomic_store_n(&other_error, err, __ATOMIC_RELAXED);
	__atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void dump__five_hundred_threads_each_get_an_answer(void **state)
{
	static pthread_t threads[500];

	(void)state;
	made = refused = closed = other = 0;
	open_with(0, 128u << 10);
	emit_polls(5, 100);
	for (int i = 0; i < 500; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, dump_once, NULL), 0);
	for (int i = 0; i < 500; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(made + refused, 500);
	assert_true(made > 0);
	assert_int_equal(status_now().dumps_made, made);
	assert_int_equal(status_now().dumps_refused, refused);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(count_files(), made);
}

static void *dump_until_closed(void *ctx)
{
	while (!__atomic_load_n(&closed, __ATOMIC_RELAXED))
		dump_once(ctx);
	return NULL;
}

static void dump__while_closing_is_made_or_refused(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		pthread_t threads[4];

		made = refused = closed = other = 0;
		other_error = 0;
		open_with(0, 128u << 10);
		emit_polls(5, 100);
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, dump_until_closed, NULL),
					 0);
		while (!__atomic_load_n(&made, __ATOMIC_RELAXED))
			sched_yield();
		assert_int_equal(kymo_recorder_close(recorder), 0);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(other_error, 0);
		assert_int_equal(count_files(), made);
		assert_int_equal(active_count, 0);
		remove_directory(NULL);
		assert_int_equal(mkdir(directory, 0700), 0);
	}
}

/* ---- forks ---- */

static void dump_in_child(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct trace_tally tally = {0};
	struct kymo_dump_result result;
	char pid[32];

	CHILD_CHECK(kymo_recorder_dump(&options, NULL) == KYMO_E_CLOSED);
	CHILD_CHECK(kymo_trigger_add("poll>1s", NULL, 0) == KYMO_E_CLOSED);
	CHILD_CHECK(kymo_recorder_reopen() == 0);
	emit_polls(666, 30);
	CHILD_CHECK(dump(&options, &result) == 0);
	snprintf(pid, sizeof(pid), "-%d-request.trc", (int)getpid());
	CHILD_CHECK(strstr(result.path, pid));
	trace_tally_file(&tally, result.path);
	CHILD_CHECK(tally.polls == 30 && tally.last_task == 666);
	CHILD_CHECK(kymo_recorder_close(recorder) == 0);
}

static void fork__child_dumps_for_itself_after_reopen(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct trace_tally tally = {0};
	struct kymo_dump_result result;

	(void)state;
	skip_where_a_child_cannot_start_threads();
	open_with(0, 128u << 10);
	emit_polls(5, 20);
	in_child(dump_in_child);
	assert_int_equal(dump(&options, &result), 0);
	trace_tally_file(&tally, result.path);
	assert_int_equal(tally.polls, 20);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

/* ---- modes ---- */

static struct trace_tally all_files;

static int tally_one(const char *path, const struct stat *about, int type, struct FTW *ftw)
{
	size_t length = strlen(path);

	(void)about;
	(void)ftw;
	if (type == FTW_F && length > 4 && strcmp(path + length - 4, ".trc") == 0)
		trace_tally_file(&all_files, path);
	return 0;
}

static void mode__changes_while_running(void **state)
{
	(void)state;
	memset(&all_files, 0, sizeof(all_files));
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_STREAM), KYMO_E_CLOSED);
	open_with(0, 0);
	assert_int_equal(status_now().mode, KYMO_MODE_FLIGHT);
	assert_int_equal(kymo_recorder_mode(7), -EINVAL);
	emit_polls(5, 100);
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_STREAM), 0);
	assert_int_equal(status_now().mode, KYMO_MODE_STREAM);
	emit_polls(5, 100);
	while (!status_now().bytes_written)
		sched_yield();
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_FLIGHT), 0);
	while (!status_now().segments_sealed)
		sched_yield();
	emit_polls(5, 50); /* no ring is open */
	assert_int_equal(kymo_recorder_close(recorder), 0);
	nftw(directory, tally_one, 8, FTW_PHYS);
	assert_int_equal(all_files.polls, 200);
	assert_int_equal(all_files.lost, 0);
}

static void mode__set_before_the_first_event_counts(void **state)
{
	(void)state;
	memset(&all_files, 0, sizeof(all_files));
	open_with(0, 0);
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_STREAM), 0);
	emit_polls(5, 100);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	nftw(directory, tally_one, 8, FTW_PHYS);
	assert_int_equal(all_files.polls, 100);
}

static void flight__does_not_wake_its_thread(void **state)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result;
	uint64_t wakeups;

	(void)state;
	open_with(0, 128u << 10);
	emit_polls(5, 1);
	assert_int_equal(dump(&options, &result), 0); /* the thread is up */
	wakeups = status_now().wakeups;
	for (int i = 0; i < 50; i++) {
		emit_polls(5, 1000);
		usleep(5000); /* in all, five times the pace of a stream */
	}
	/* It may have been woken again while it worked. */
	assert_true(status_now().wakeups <= wakeups + 1);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		CASE(dump__writes_a_whole_trace_with_its_reason),
		CASE(dump__that_stops_keeps_what_the_ring_holds),
		CASE(dump__range_holds_what_happened_in_it),
		CASE(dump__close_does_not_wait_for_the_rest_of_the_range),
		CASE(dump__reports_its_age_and_the_ring_size_needed),
		CASE(dump__a_name_of_another_packing_makes_no_directory),
		CASE(dump__before_the_first_event_is_an_error),
		CASE(dump__is_written_to_a_function),
		CASE(stream__is_written_to_a_function),
		CASE(dump__named_file_keeps_the_earlier_file),
		CASE(dump__options_that_make_no_sense_are_refused),
		CASE(dump__file_size_limit_is_one_error_and_nothing_is_left),
		CASE(dump__full_disk_is_one_error_and_nothing_is_left),
		CASE(dump__every_failing_allocation_leaves_nothing),
		CASE(dump__queue_is_bounded_and_the_rest_is_counted),
		CASE(dump__five_hundred_threads_each_get_an_answer),
		CASE(dump__while_closing_is_made_or_refused),
		CASE(fork__child_dumps_for_itself_after_reopen),
		CASE(mode__changes_while_running),
		CASE(mode__set_before_the_first_event_counts),
		CASE(flight__does_not_wake_its_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
