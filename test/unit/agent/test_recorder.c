/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The linked library: what a program emits is, after close, a trace that the public reader
 * reads. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64];
static char segments[16][600];
static size_t segment_count;

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

static int note_segment(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t length = strlen(path);

	(void)st;
	(void)ftw;
	if (type == FTW_F && length > 4 && strcmp(path + length - 4, ".trc") == 0 &&
	    segment_count < 16)
		snprintf(segments[segment_count++], sizeof(segments[0]), "%s", path);
	return 0;
}

static struct kymo_recorder *open_recorder(struct kymo_recorder_options *options)
{
	struct kymo_recorder *recorder;
	char errbuf[200] = "";

	options->flags |= KYMO_RECORDER_STREAM;
	options->service = "linked";
	options->trace_directory = directory;
	options->compression = KYMO_COMPRESSION_NONE;
	options->errbuf = errbuf;
	options->errbuf_bytes = sizeof(errbuf);
	assert_int_equal(kymo_recorder_open(&recorder, options), 0);
	return recorder;
}

struct tally {
	uint64_t polls, ends, wakes, lost, other_task;
	bool has_name;
};

static bool is_type(const struct kymo_event *event, const char *name)
{
	return event->type_bytes == strlen(name) &&
	       memcmp(event->type, name, event->type_bytes) == 0;
}

static void count_event(const struct kymo_event *event, struct tally *tally)
{
	const struct kymo_field *field;

	tally->ends += is_type(event, "PollEndEvent");
	tally->wakes += is_type(event, "WakeEventEvent");
	if (is_type(event, "LossEvent"))
		tally->lost += kymo_event_field(event, "record_count")->as_uint;
	if (!is_type(event, "PollStartEvent"))
		return;
	tally->polls++;
	field = kymo_event_field(event, "spawn_loc");
	tally->has_name |= field && field->byte_count == 10 &&
			   memcmp(field->bytes, "test::task", 10) == 0;
	tally->other_task += kymo_event_field(event, "task_id")->as_uint == 666;
}

static void read_segment(const char *path, struct tally *tally)
{
	const struct kymo_event *event;
	struct kymo_reader *reader;
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	struct stat st;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	bytes = malloc((size_t)st.st_size + 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, file), st.st_size);
	fclose(file);
	assert_int_equal(kymo_reader_open_memory(&reader, bytes, (size_t)st.st_size, NULL), 0);
	while (kymo_reader_next(reader, &event) == 1)
		count_event(event, tally);
	assert_null(kymo_reader_notice(reader, 0));
	kymo_reader_close(reader);
	free(bytes);
}

static struct tally read_all(void)
{
	struct tally tally = {0};

	segment_count = 0;
	nftw(directory, note_segment, 8, FTW_PHYS);
	for (size_t i = 0; i < segment_count; i++)
		read_segment(segments[i], &tally);
	return tally;
}

static void emit_polls(uint64_t task, uint32_t name, int count)
{
	for (int i = 0; i < count; i++) {
		kymo_poll_begin(task, name, 1);
		kymo_wake(task + 1, 0, 0);
		kymo_poll_end(0);
	}
}

static void close__leaves_a_sealed_trace_of_everything(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct kymo_recorder *recorder = open_recorder(&options);
	struct tally tally;

	(void)state;
	emit_polls(5, kymo_name_intern("test::task", 10, 0, 0, 0), 20000);
	assert_int_equal(kymo_recorder_status(&status), 0);
	assert_int_equal(access(status.ring_path, F_OK), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_not_equal(access(status.ring_path, F_OK), 0);
	tally = read_all();
	assert_int_equal(tally.polls, 20000);
	assert_int_equal(tally.ends, 20000);
	assert_int_equal(tally.wakes, 20000);
	assert_int_equal(tally.lost, 0);
	assert_true(tally.has_name);
}

static void close__without_an_event_leaves_nothing(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	(void)state;
	assert_int_equal(kymo_recorder_close(open_recorder(&options)), 0);
	assert_int_equal(rmdir(directory), 0); /* still empty */
	assert_int_equal(mkdir(directory, 0700), 0);
}

/* The one that records keeps what stops its own sampler. */
static void open__that_is_refused_changes_nothing_of_the_one_that_records(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT, second = options;
	struct kymo_recorder *recorder = open_recorder(&options), *other;
	const struct ky_sampler_hooks *before = ky_engine_sampler();

	(void)state;
	second.flags = KYMO_RECORDER_NO_DRAIN;
	assert_int_equal(kymo_recorder_open(&other, &second), KYMO_E_ACTIVE);
	assert_null(other);
	assert_ptr_equal(ky_engine_sampler(), before);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

/* The address sanitizer of LLVM 14 does not release its allocator's locks in a forked child: one
 * that the drain thread held at the fork stays locked. The C library's allocator does. */
static void skip_where_a_forked_child_cannot_allocate(void)
{
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
	print_message("# the address sanitizer's allocator may stay locked in a forked child\n");
	skip();
#endif
#endif
}

static void skip_where_a_child_cannot_start_threads(void)
{
#if defined(__SANITIZE_THREAD__)
	print_message("# the thread sanitizer does not support threads in a forked child\n");
	skip();
#endif
}

/* ---- a program that becomes a daemon ---- */

#define FILES 40

static int mine[FILES];

static uint32_t spoiled_files(void)
{
	uint32_t count = 0;
	struct stat about;

	for (int i = 0; i < FILES; i++)
		count += fstat(mine[i], &about) != 0 || about.st_size != 4;
	return count;
}

static int note_active(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return strstr(path, ".active") != NULL;
}

static bool is_asleep(const char *task)
{
	char path[300], text[512] = "", *end;
	ssize_t count;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
	fd = open(path, O_RDONLY);
	count = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	end = strrchr(text, ')');
	return count > 0 && strstr(text, "(kymo-drain)") && end && end[1] && end[2] == 'S';
}

/* What it has open for a moment is its own to close: the test is about what it keeps. */
static void wait_until_the_drain_sleeps(void)
{
	for (uint32_t in_a_row = 0; in_a_row < 10; usleep(2000)) {
		DIR *tasks = opendir("/proc/self/task");
		struct dirent *task;
		bool is_one = false;

		while (tasks && (task = readdir(tasks)))
			is_one |= is_asleep(task->d_name);
		closedir(tasks);
		in_a_row = is_one ? in_a_row + 1 : 0;
	}
}

/* The descriptors that the recorder keeps are closed, and 40 files opened by their numbers.
 * Returns what went wrong. */
static int become_daemon(void)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char path[100];
	pid_t child;
	int status = -1, bad = 0;

	options.sample_hz = 99;
	options.switches = KYMO_SWITCHES_ON;
	options.triggers = "rss>1T";
	recorder = open_recorder(&options);
	while (nftw(directory, note_active, 8, FTW_PHYS) != 1) {
		emit_polls(5, 0, 1000);
		usleep(10000);
	}
	wait_until_the_drain_sleeps();
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "%s/mine%d", directory, i);
		mine[i] = open(path, O_RDWR | O_CREAT, 0600);
		bad |= write(mine[i], "mine", 4) != 4;
	}
	child = fork();
	if (child == 0)
		_exit(spoiled_files() != 0);
	bad |= waitpid(child, &status, 0) != child || status != 0 ? 2 : 0;
	emit_polls(5, 0, 1000);
	(void)kymo_recorder_close(recorder); /* says that a segment was not sealed */
	bad |= spoiled_files() ? 4 : 0;
	return bad;
}

static void daemon__has_its_files_left_alone(void **state)
{
	pid_t child;
	int status = -1;

	(void)state;
	skip_where_a_forked_child_cannot_allocate();
	skip_where_a_child_cannot_start_threads();
	child = fork();
	if (child == 0)
		_exit(become_daemon());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

struct closing {
	struct kymo_recorder *recorder;
	int result;
	sem_t is_done;
};

static void close_inside(void *ctx, const struct kymo_dump_result *result)
{
	struct closing *closing = ctx;

	(void)result;
	closing->result = kymo_recorder_close(closing->recorder);
	sem_post(&closing->is_done);
}

static void close__from_a_callback_is_refused(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_dump_options dump = KYMO_DUMP_OPTIONS_INIT;
	struct closing closing = {.recorder = open_recorder(&options)};

	(void)state;
	sem_init(&closing.is_done, 0, 0);
	emit_polls(5, 0, 10);
	dump.path = directory;
	dump.done = close_inside;
	dump.done_ctx = &closing;
	assert_int_equal(kymo_recorder_dump(&dump, NULL), 0);
	while (sem_wait(&closing.is_done) != 0)
		;
	assert_int_equal(closing.result, -EDEADLK);
	assert_int_equal(kymo_recorder_close(closing.recorder), 0);
	sem_destroy(&closing.is_done);
}

static void *emit_some(void *ctx)
{
	emit_polls(10 + (uint64_t)(uintptr_t)ctx, 0, 5000);
	return NULL;
}

static void drain__counts_agree_over_threads_and_rotation(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	struct tally tally;
	pthread_t threads[8];

	(void)state;
	options.segment_bytes_max = 512u << 10;
	recorder = open_recorder(&options);
	for (int round = 0; round < 3; round++) {
		for (uintptr_t i = 0; i < 8; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, emit_some, (void *)i),
					 0);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
	}
	assert_int_equal(kymo_recorder_close(recorder), 0);
	tally = read_all();
	assert_int_equal(tally.polls + tally.lost / 3, 8 * 3 * 5000);
	assert_int_equal(tally.lost, 0);
	assert_int_equal(tally.polls, tally.ends);
}

static void fork__child_leaves_the_parents_trace_alone(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder_status status_now = {.size = sizeof(status_now)};
	struct kymo_recorder *recorder;
	struct tally tally;

	(void)state;
	skip_where_a_forked_child_cannot_allocate();
	recorder = open_recorder(&options);
	emit_polls(5, 0, 100);
	/* One child emits before it closes what it inherited, the other closes at once. */
	for (int is_emitting = 0; is_emitting < 2; is_emitting++) {
		int status = -1;
		pid_t child = fork();

		if (child == 0) {
			if (is_emitting)
				emit_polls(666, 0, 100);
			_exit(kymo_recorder_close(recorder) ? 1 : 0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_true(kymo_control.gates & KYMO_GATE_POLL);
		kymo_recorder_status(&status_now);
		assert_int_equal(access(status_now.ring_path, F_OK), 0);
	}
	emit_polls(5, 0, 100);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	tally = read_all();
	assert_int_equal(tally.polls, 200);
	assert_int_equal(tally.other_task, 0);
}

static void fork__child_that_reopens_writes_its_own_trace(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	struct tally tally;
	int status = -1;
	pid_t child;

	(void)state;
	skip_where_a_child_cannot_start_threads();
	skip_where_a_forked_child_cannot_allocate();
	recorder = open_recorder(&options);
	emit_polls(5, 0, 100);
	child = fork();
	if (child == 0) {
		int bad = kymo_recorder_reopen() ? 1 : 0;

		emit_polls(666, 0, 50);
		bad |= kymo_recorder_close(recorder) ? 2 : 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	tally = read_all();
	assert_int_equal(tally.polls, 150);
	assert_int_equal(tally.other_task, 50);
}

static void signal__stopped_and_continued_loses_nothing(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct tally tally;
	int status = -1;
	pid_t child;

	(void)state;
	skip_where_a_child_cannot_start_threads();
	child = fork();
	if (child == 0) {
		struct kymo_recorder *recorder = open_recorder(&options);

		emit_polls(5, 0, 1000);
		raise(SIGSTOP);
		emit_polls(5, 0, 1000);
		_exit(kymo_recorder_close(recorder) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	kill(child, SIGCONT);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	tally = read_all();
	assert_int_equal(tally.polls, 2000);
	assert_int_equal(tally.lost, 0);
}

static void store__unwritable_directory_is_an_error_of_close_alone(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char file[100];
	FILE *made;

	(void)state;
	snprintf(file, sizeof(file), "%s/file", directory);
	made = fopen(file, "w");
	assert_non_null(made);
	fclose(made);
	options.service = "linked";
	options.trace_directory = file; /* no directory, for any user */
	options.flags = KYMO_RECORDER_STREAM;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	emit_polls(5, 0, 1000);
	assert_true(kymo_recorder_close(recorder) < 0);
}

static void read_file(const char *name, struct tally *tally)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	read_segment(path, tally);
}

static void trace_file__holds_the_whole_and_a_child_has_its_own(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	struct tally tally = {0}, of_child = {0};
	char path[200], name[64];
	int status;
	pid_t child;

	(void)state;
	skip_where_a_child_cannot_start_threads();
	skip_where_a_forked_child_cannot_allocate();
	snprintf(path, sizeof(path), "%s/one.trc", directory);
	options.trace_file = path;
	options.flags = KYMO_RECORDER_STREAM;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	emit_polls(5, 0, 1000);
	child = fork();
	if (child == 0) {
		if (kymo_recorder_reopen() != 0)
			_exit(1);
		emit_polls(5, 0, 700);
		_exit(kymo_recorder_close(recorder) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	emit_polls(5, 0, 1000);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	read_file("one.trc", &tally);
	assert_int_equal(tally.polls, 2000);
	snprintf(name, sizeof(name), "one.%d.trc", (int)child);
	read_file(name, &of_child);
	assert_int_equal(of_child.polls, 700);
}

static void trace_file__at_its_bound_counts_the_loss(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	struct tally tally = {0};
	char path[200];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/one.trc", directory);
	options.trace_file = path;
	options.total_bytes_max = 1 << 20;
	options.flags = KYMO_RECORDER_STREAM;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	emit_polls(5, 0, 100000);
	assert_int_equal(kymo_recorder_close(recorder), KYMO_E_LIMIT);
	read_file("one.trc", &tally);
	assert_true(tally.lost > 0);
	assert_int_equal(tally.polls + tally.ends + tally.wakes + tally.lost, 300000);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size <= 1 << 20);
}

static void open__every_failing_allocation_leaves_nothing(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder = NULL;
	int err = -ENOMEM;
	uint64_t n;

	(void)state;
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	options.ring_directory = directory; /* close leaves it to a later recorder process */
	for (n = 0; n < 50; n++) {
		test_alloc_fail_at(n);
		err = kymo_recorder_open(&recorder, &options);
		test_alloc_normal();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(recorder);
	}
	assert_int_equal(n, 3);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		CASE(close__leaves_a_sealed_trace_of_everything),
		CASE(close__without_an_event_leaves_nothing),
		CASE(open__that_is_refused_changes_nothing_of_the_one_that_records),
		CASE(close__from_a_callback_is_refused),
		CASE(daemon__has_its_files_left_alone),
		CASE(drain__counts_agree_over_threads_and_rotation),
		CASE(fork__child_leaves_the_parents_trace_alone),
		CASE(fork__child_that_reopens_writes_its_own_trace),
		CASE(signal__stopped_and_continued_loses_nothing),
		CASE(store__unwritable_directory_is_an_error_of_close_alone),
		CASE(trace_file__holds_the_whole_and_a_child_has_its_own),
		CASE(trace_file__at_its_bound_counts_the_loss),
		CASE(open__every_failing_allocation_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
