/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The linked library watches when its own process's threads lose their CPU. What each case
 * records it reads back with the public reader, beside what the kernel counted. */
#include "../../lib/cmocka_all.h"
#include "../../lib/library_step.h"
#include "../../lib/temp_tree.h"
#include "../../lib/under_valgrind.h"

#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <agent/own_samplers.h>
#include <probe/perf_source.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/switch_sample.h>

#define MS UINT64_C(1000000)
#define PREEMPTED 4
#define FAULT 3
#define NAPS 20u
#define FAULTS 32u
#define FAULT_BYTES (1u << 16)
#define POLLS 1000000u /* more than a sub-buffer holds */

static char directory[64];
static uint8_t trace[8u << 20]; /* what was streamed or dumped */
static size_t trace_bytes;

static int set_up(void **state)
{
	(void)state;
	trace_bytes = 0;
	return temp_tree_make(directory, sizeof(directory));
}

static int tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

static bool has_switches(void)
{
	struct ky_perf_options options = {
		.is_switches = true, .is_of_threads = true, .has_kernel = true};
	uint64_t cost_ns;
	int err;

	if (test_is_under_valgrind()) {
		print_message("# Valgrind lets one thread run at a time\n");
		return false;
	}
	err = ky_perf_test_switches(&options, &cost_ns);
	if (err)
		print_message("# perf_event reports no switches here: %s\n", strerror(-err));
	return !err;
}

static int keep(void *ctx, const uint8_t *bytes, size_t count)
{
	(void)ctx;
	if (count > sizeof(trace) - trace_bytes)
		return -ENOSPC;
	memcpy(trace + trace_bytes, bytes, count);
	trace_bytes += count;
	return 0;
}

static struct kymo_recorder *open_recorder(uint32_t flags, uint32_t switches, uint32_t sample_hz)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.flags = flags;
	options.service = "switches";
	options.ring_directory = directory;
	options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.write = flags & KYMO_RECORDER_STREAM ? keep : NULL;
	options.sample_hz = sample_hz;
	options.resource_interval_ms = UINT32_MAX;
	options.switches = switches;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	kymo_poll_begin(1, 0, 1); /* there is a ring from now on */
	kymo_poll_end(0);
	return recorder;
}

static void dump(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;

	options.write = keep;
	options.flags = KYMO_DUMP_WAIT;
	assert_int_equal(kymo_recorder_dump(&options, NULL), 0);
}

static void burn(uint64_t ns)
{
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + ns;

	while (ky_now_ns(CLOCK_MONOTONIC) < end_ns)
		;
}

/* Descriptors of perf_event, and of schedstat files, in this process. Without the heap, for forked
 * children. */
static uint32_t descriptors(void)
{
	char path[40], link[64];
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		bytes = readlink(path, link, sizeof(link) - 1);
		link[bytes > 0 ? bytes : 0] = '\0';
		count += strstr(link, "perf_event") != NULL || strstr(link, "schedstat") != NULL;
	}
	return count;
}

static const struct ky_sample_class_head *head(void)
{
	struct ky_sample_head *heads = (void *)(ky_engine.ring->base + ky_engine.ring->slots_end);

	return &heads->classes[KY_SAMPLES_OFF_CPU];
}

/* The library's thread has its events. Its own test of the machine may fail where ours did not, a
 * moment before. */
static void wait_for_windows(struct kymo_recorder *recorder)
{
	uint32_t refusal;

	assert_true(test_wait_for_step());
	assert_true(atomic_load(&ky_engine.ring->header->sample_classes) &
		    1u << KY_SAMPLES_OFF_CPU);
	refusal = atomic_load(&head()->refusals[KY_SOURCE_SWITCHES]);
	if (refusal == ENODATA) {
		assert_int_equal(kymo_recorder_close(recorder), 0);
		print_message("# perf_event reports no switches this time\n");
		skip();
	}
	assert_int_equal(refusal, 0);
	assert_true(atomic_load(&head()->source) & 1u << KY_SOURCE_SWITCHES);
}

/* Of those that stand in its first part. */
static bool has_reason(const struct ky_sample_cell *cell, uint8_t reason)
{
	struct ky_switch_interval interval;

	for (uint32_t i = 0; i + KY_SWITCH_FRAMES <= cell->frame_count &&
			     i + KY_SWITCH_FRAMES <= KY_SAMPLE_FRAMES_FIRST;
	     i += KY_SWITCH_FRAMES) {
		uint64_t frames[KY_SWITCH_FRAMES] = {0};

		for (uint32_t k = 0; k < KY_SWITCH_FRAMES; k++)
			memcpy(&frames[k], cell->frames + (size_t)(i + k) * KY_SAMPLE_FRAME_BYTES,
			       KY_SAMPLE_FRAME_BYTES);
		ky_switch_dec(&interval, cell->stamp, frames);
		if (interval.reason == reason)
			return true;
	}
	return false;
}

#define ANY UINT8_MAX

/* Samples of the area with times of this thread, of this reason. */
static uint32_t told_of(uint32_t tid, uint8_t reason)
{
	uint64_t offset;
	uint32_t count = ky_sample_range(ky_engine.ring->sample_bytes, KY_SAMPLES_OFF_CPU, &offset);
	uint32_t reported = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct ky_sample_cell *cell =
			(const void *)(ky_engine.ring->base + ky_engine.ring->slots_end + offset +
				       (size_t)i * KY_SAMPLE_CELL_BYTES);

		if (atomic_load_explicit(&cell->serial, memory_order_acquire) && !cell->part &&
		    cell->kind == KY_SAMPLE_SWITCHES && cell->tid == tid)
			reported += reason == ANY || has_reason(cell, reason);
	}
	return reported;
}

/* ---- reading back ---- */

struct seen {
	uint64_t windows, observed_ns, stretch_ns, lost;
	uint64_t reported, clipped;
	uint64_t count[5], ns[5]; /* by reason, as they were seen */
	double weight_min;
	uint64_t least_ns, most_ns; /* ready to run: of those that are no preemption */
	uint64_t known;
};

static bool is_type(const struct kymo_event *event, const char *name)
{
	return event->type_bytes == strlen(name) &&
	       memcmp(event->type, name, event->type_bytes) == 0;
}

static uint64_t number(const struct kymo_event *event, const char *name)
{
	return kymo_event_field(event, name)->as_uint;
}

static void note_interval(const struct kymo_event *event, struct seen *seen)
{
	const struct kymo_field *least = kymo_event_field(event, "runnable_min_ns");
	const struct kymo_field *most = kymo_event_field(event, "runnable_max_ns");
	uint64_t ns = number(event, "duration_ns"), reason = number(event, "reason");
	double weight = kymo_event_field(event, "weight")->as_double;

	assert_int_equal(number(event, "source"), 5);
	assert_in_range(reason, 0, PREEMPTED);
	seen->reported++;
	seen->clipped += number(event, "clipped") != 0;
	seen->count[reason]++;
	seen->ns[reason] += ns;
	seen->weight_min = weight < seen->weight_min ? weight : seen->weight_min;
	if (reason == PREEMPTED)
		return;
	if (!most || most->type == KYMO_FIELD_ABSENT) {
		seen->most_ns += ns;
		return;
	}
	seen->known++;
	seen->least_ns += least && least->type != KYMO_FIELD_ABSENT ? least->as_uint : 0;
	seen->most_ns += most->as_uint;
}

/* tid: whose intervals are read. */
static struct seen read_back(uint32_t tid)
{
	const struct kymo_event *event;
	struct kymo_reader *reader;
	struct seen seen = {.weight_min = 1e9};

	assert_int_equal(kymo_reader_open_memory(&reader, trace, trace_bytes, NULL), 0);
	while (kymo_reader_next(reader, &event) == 1) {
		if (is_type(event, "OffCpuEvent") && number(event, "tid") == tid)
			note_interval(event, &seen);
		if (!is_type(event, "OffCpuWindowEvent"))
			continue;
		seen.windows++;
		seen.observed_ns += number(event, "observed_ns");
		seen.stretch_ns += number(event, "stretch_ns");
		seen.lost += number(event, "lost");
	}
	kymo_reader_close(reader);
	print_message(
		"# %lu windows, %lu of %lu ms observed; %lu reported, %lu clipped, %lu known\n",
		seen.windows, seen.observed_ns / MS, seen.stretch_ns / MS, seen.reported,
		seen.clipped, seen.known);
	return seen;
}

static uint32_t tid_here(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* ---- what the kernel counts ---- */

struct counted {
	uint64_t preempted, faults; /* times */
	uint64_t wall_ns;
	uint64_t off_ns;   /* the thread was off CPU */
	uint64_t delay_ns; /* of it in the run queue */
	uint64_t taken_ns; /* of its time on CPU, and not counted as such, at most */
};

/* Of the first CPU of a set: what interrupts took of it, and who is beneath this machine. */
static uint64_t taken_now_ns(const cpu_set_t *set)
{
	uint64_t tick_ns = 1000 * MS / (uint64_t)sysconf(_SC_CLK_TCK), ticks = 0;
	char line[512], name[24], *at;
	size_t cpu = 0, bytes;
	FILE *file = fopen("/proc/stat", "re");

	assert_non_null(file);
	while (!CPU_ISSET(cpu, set))
		cpu++;
	bytes = (size_t)snprintf(name, sizeof(name), "cpu%zu ", cpu);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, bytes) != 0)
			continue;
		at = line + bytes;
		for (uint32_t i = 0; i < 8; i++) {
			uint64_t value = strtoull(at, &at, 10);

			ticks += i >= 5 ? value : 0; /* after those of running and waiting */
		}
	}
	(void)fclose(file);
	return ticks * tick_ns;
}

static struct counted count_now(void)
{
	char text[96] = "";
	struct counted now = {0};
	struct rusage usage;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY);
	char *at = text;

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	(void)strtoull(at, &at, 10);
	now.delay_ns = strtoull(at, &at, 10);
	now.wall_ns = ky_now_ns(CLOCK_MONOTONIC);
	now.off_ns = now.wall_ns - ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	now.preempted = (uint64_t)usage.ru_nivcsw;
	now.faults = (uint64_t)usage.ru_majflt;
	return now;
}

static struct counted count_since(struct counted before)
{
	struct counted now = count_now();

	return (struct counted){.preempted = now.preempted - before.preempted,
				.faults = now.faults - before.faults,
				.wall_ns = now.wall_ns - before.wall_ns,
				.off_ns = now.off_ns - before.off_ns,
				.delay_ns = now.delay_ns - before.delay_ns};
}

static void stay_on(cpu_set_t set)
{
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

static cpu_set_t first_of(const cpu_set_t *all)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, all))
			CPU_SET(cpu, &one);
	return one;
}

static bool is_over; /* atomic */

static void *want_the_same(void *ctx)
{
	stay_on(*(const cpu_set_t *)ctx);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		;
	return NULL;
}

/* A poll beside a thread that wants the same CPU: it loses it, and when it slept it waits for
 * it; for as long as it takes until so many samples of it are written. */
static struct counted poll_beside_rival(uint32_t told_min)
{
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + 30000 * MS;
	uint32_t reported = told_of(tid_here(), ANY);
	struct counted counted;
	uint64_t taken_ns;
	cpu_set_t all, one;
	pthread_t rival;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	one = first_of(&all);
	is_over = false;
	taken_ns = taken_now_ns(&one);
	kymo_poll_begin(7, 0, 1);
	counted = count_now();
	assert_int_equal(pthread_create(&rival, NULL, want_the_same, &one), 0);
	stay_on(one);
	do {
		burn(100 * MS);
		for (uint32_t i = 0; i < NAPS; i++) {
			usleep(2000);
			burn(MS);
		}
	} while (told_of(tid_here(), ANY) - reported < told_min &&
		 ky_now_ns(CLOCK_MONOTONIC) < end_ns);
	counted = count_since(counted);
	kymo_poll_end(0);
	taken_ns = taken_now_ns(&one) - taken_ns;
	/* Ticks are whole ones. */
	counted.taken_ns = taken_ns ? taken_ns + 1000 * MS / (uint64_t)sysconf(_SC_CLK_TCK) : 0;
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	stay_on(all);
	pthread_join(rival, NULL);
	return counted;
}

/* ---- the cases ---- */

/* What is written happened, and what happened and is not written was in no window. */
static void check_bounds(const struct seen *seen, const struct counted *counted)
{
	uint64_t room = counted->off_ns / 20 +
			3 * MS; /* what is shorter than 20 us is not written */
	uint64_t unseen = seen->stretch_ns - seen->observed_ns + room;
	uint64_t least = seen->ns[PREEMPTED] + seen->least_ns;
	uint64_t most = seen->ns[PREEMPTED] + seen->most_ns;
	uint64_t off_ns = 0;

	for (uint32_t reason = 0; reason <= PREEMPTED; reason++)
		off_ns += seen->ns[reason];
	print_message("# off %lu of %lu us; ready %lu to %lu, counted %lu us; unseen %lu us; "
		      "preempted %lu of %lu\n",
		      off_ns / 1000, counted->off_ns / 1000, least / 1000, most / 1000,
		      counted->delay_ns / 1000, (unseen - room) / 1000, seen->count[PREEMPTED],
		      counted->preempted);
	assert_true(off_ns <= counted->off_ns + room);
	assert_true(off_ns + unseen + counted->taken_ns >= counted->off_ns);
	assert_true(least <= counted->delay_ns + room);
	assert_true(most + unseen >= counted->delay_ns);
	assert_true(seen->count[PREEMPTED] <= counted->preempted + 2);
}

static void own_switches__what_the_kernel_counted_lies_within_the_bounds(void **state)
{
	struct kymo_recorder *recorder;
	struct counted counted;
	struct seen seen;

	(void)state;
	if (!has_switches())
		skip();
	recorder = open_recorder(KYMO_RECORDER_STREAM, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	wait_for_windows(recorder);
	counted = poll_beside_rival(10);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(descriptors(), 0);
	seen = read_back(tid_here());
	assert_true(seen.reported > 0 && seen.windows > 0 && seen.observed_ns > 0);
	assert_true(seen.observed_ns <= seen.stretch_ns && seen.weight_min >= 1);
	assert_int_equal(seen.lost, 0);
	check_bounds(&seen, &counted);
}

static const volatile uint8_t *map_file(int fd)
{
	static const uint8_t block[FAULT_BYTES];
	void *pages;

	for (uint32_t i = 0; i < FAULTS; i++)
		assert_int_equal(write(fd, block, sizeof(block)), (ssize_t)sizeof(block));
	assert_int_equal(fsync(fd), 0);
	pages = mmap(NULL, (size_t)FAULTS * FAULT_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(pages != MAP_FAILED);
	(void)madvise(pages, (size_t)FAULTS * FAULT_BYTES, MADV_RANDOM);
	return pages;
}

struct faulting {
	uint32_t tid;
	struct counted counted;
};

/* Pages that are in no memory, until some of it is written, or there are no such. */
static void *take_faults(void *ctx)
{
	struct faulting *faulting = ctx;
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + 30000 * MS;
	const volatile uint8_t *pages;
	struct counted before;
	uint32_t reported;
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/pages", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	pages = map_file(fd);
	faulting->tid = tid_here();
	kymo_poll_begin(9, 0, 1);
	before = count_now();
	/* What making the file waited for may still come. */
	reported = told_of(faulting->tid, FAULT);
	do {
		(void)madvise((void *)(uintptr_t)pages, (size_t)FAULTS * FAULT_BYTES,
			      MADV_DONTNEED);
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		for (uint32_t i = 0; i < FAULTS; i++)
			(void)pages[(size_t)i * FAULT_BYTES];
		faulting->counted = count_since(before);
	} while (faulting->counted.faults && told_of(faulting->tid, FAULT) - reported < 3 &&
		 ky_now_ns(CLOCK_MONOTONIC) < end_ns);
	kymo_poll_end(0);
	munmap((void *)(uintptr_t)pages, (size_t)FAULTS * FAULT_BYTES);
	close(fd);
	return NULL;
}

/* In a thread that is made later, by one that is watched. */
static void own_switches__a_dump_has_the_page_faults_of_a_later_thread(void **state)
{
	struct kymo_recorder *recorder;
	struct faulting faulting;
	pthread_t thread;
	struct seen seen;

	(void)state;
	if (!has_switches())
		skip();
	recorder = open_recorder(0, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	wait_for_windows(recorder);
	assert_int_equal(pthread_create(&thread, NULL, take_faults, &faulting), 0);
	pthread_join(thread, NULL);
	dump();
	seen = read_back(faulting.tid);
	print_message("# %lu of %lu faults, %lu of %lu us written\n", seen.count[FAULT],
		      faulting.counted.faults, seen.ns[FAULT] / 1000,
		      faulting.counted.off_ns / 1000);
	/* On a disk that is memory there are none. */
	if (faulting.counted.faults) {
		assert_in_range(seen.count[FAULT], 1, faulting.counted.faults);
		/* Not off_ns: a record of coming back is stamped after what perf_event has to
		 * do there, 10 us on a machine that is busy, and faults are as short. */
		assert_true(seen.ns[FAULT] <= faulting.counted.wall_ns);
	}
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(descriptors(), 0);
}

static void own_switches__a_forked_child_has_no_descriptors(void **state)
{
	struct kymo_recorder *recorder;
	int status;
	pid_t pid;

	(void)state;
	if (!has_switches())
		skip();
	recorder = open_recorder(KYMO_RECORDER_STREAM, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	wait_for_windows(recorder);
	(void)poll_beside_rival(1); /* so that there is a schedstat, too */
	assert_true(descriptors() > 0);
	pid = fork();
	if (!pid)
		_exit(descriptors() ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(descriptors() > 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(descriptors(), 0);
}

/* In flight mode the library's thread sleeps while the program does, until events come again. */
static void own_switches__an_idle_program_is_not_woken(void **state)
{
	struct kymo_recorder *recorder;
	uint32_t tries = 100, polls;
	struct seen seen;
	uint64_t now;

	(void)state;
#if defined(__SANITIZE_THREAD__)
	print_message("# the thread sanitizer has a thread of its own that wakes up all the "
		      "time\n");
	skip();
#endif
	if (!has_switches())
		skip();
	recorder = open_recorder(0, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	wait_for_windows(recorder);
	/* A window in which we sleep ends by a time, and the next one by none. */
	while (!__atomic_load_n(&ky_bell_wish, __ATOMIC_ACQUIRE) && tries--)
		usleep(300000);
	now = test_wakeups();
	usleep(1000000);
	assert_in_range(test_wakeups() - now, 0, 1);
	kymo_poll_begin(11, 0, 1);
	usleep(30000);
	kymo_poll_end(0);
	/* The next sub-buffer rings. */
	for (polls = POLLS; polls && __atomic_load_n(&ky_bell_wish, __ATOMIC_ACQUIRE); polls--) {
		kymo_poll_begin(13, 0, 1);
		kymo_poll_end(0);
	}
	assert_in_range(polls, 1, POLLS);
	dump();
	assert_int_equal(kymo_recorder_close(recorder), 0);
	seen = read_back(tid_here());
	assert_true(seen.reported >= 1);
	assert_true(seen.ns[0] + seen.ns[1] + seen.ns[2] + seen.ns[PREEMPTED] >= 30 * MS);
}

static void own_switches__a_closed_gate_closes_the_windows(void **state)
{
	struct kymo_recorder *recorder;
	struct seen seen;

	(void)state;
	if (!has_switches())
		skip();
	recorder = open_recorder(KYMO_RECORDER_STREAM, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	wait_for_windows(recorder);
	kymo_recorder_gates(0, KYMO_GATE_OFF_CPU);
	assert_true(test_wait_for_step());
	(void)poll_beside_rival(0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	seen = read_back(tid_here());
	assert_int_equal(seen.reported, 0);
	assert_true(seen.stretch_ns < 30000 * MS);
}

static void own_switches__opens_no_event_when_off(void **state)
{
	struct kymo_recorder *recorder = open_recorder(KYMO_RECORDER_STREAM, 0, KYMO_SAMPLE_OFF);

	(void)state;
	assert_true(test_wait_for_step());
	assert_int_equal(descriptors(), 0);
	(void)poll_beside_rival(0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(read_back(tid_here()).windows, 0);
}

/* Beside the sampler's, which come first. */
static void own_switches__too_few_descriptors_are_reported(void **state)
{
	struct kymo_recorder *recorder;
	struct rlimit limit, few;

	(void)state;
	if (!has_switches())
		skip();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 4 * 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	recorder = open_recorder(KYMO_RECORDER_STREAM, KYMO_SWITCHES_ON, KYMO_SAMPLE_OFF);
	assert_true(test_wait_for_step());
	assert_int_equal(atomic_load(&head()->refusals[KY_SOURCE_SWITCHES]), EMFILE);
	assert_int_equal(descriptors(), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_non_null(memmem(trace, trace_bytes, "context switches: ", 18));
}

static void own_switches__an_unknown_setting_is_refused(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char why[100];

	(void)state;
	options.switches = 3;
	options.errbuf = why;
	options.errbuf_bytes = sizeof(why);
	assert_int_equal(kymo_recorder_open(&recorder, &options), -EINVAL);
	assert_non_null(strstr(why, "switches is 3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		CASE(own_switches__an_unknown_setting_is_refused),
		CASE(own_switches__opens_no_event_when_off),
		CASE(own_switches__what_the_kernel_counted_lies_within_the_bounds),
		CASE(own_switches__a_dump_has_the_page_faults_of_a_later_thread),
		CASE(own_switches__a_forked_child_has_no_descriptors),
		CASE(own_switches__an_idle_program_is_not_woken),
		CASE(own_switches__a_closed_gate_closes_the_windows),
		CASE(own_switches__too_few_descriptors_are_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
