/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events and rings of a perf_event of the test's own: what is asked of it, what comes out of it,
 * and what is made of a refusal. The machine's own: test_perf_kernel.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"

#include <errno.h>
#include <probe/perf_record.h>
#include <probe/perf_source.h>
#include <setjmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PID 4100000001u
#define TID 4100000002u
#define NS UINT64_C(5000000000)
#define SOFTWARE PERF_TYPE_SOFTWARE
#define CLOCK PERF_COUNT_SW_TASK_CLOCK
#define MAJOR PERF_COUNT_SW_PAGE_FAULTS_MAJ

static const struct ky_perf_options samples = {
	.rate_hz = 100, .stack_bytes = 4096, .has_kernel = true};
static const struct ky_perf_options switches = {.is_switches = true, .has_kernel = true};
static struct ky_perf *perf;
static struct ky_perf_about about;

static int setup(void **state)
{
	(void)state;
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = NS;
	fake_perf_reset();
	perf = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_perf_close(perf);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

static void open_perf(const struct ky_perf_options *options)
{
	assert_int_equal(ky_perf_open(&perf, options, (pid_t)PID), 0);
	ky_perf_about(perf, &about);
}

static void open__has_one_ring_a_cpu_as_large_as_may_be_locked(void **state)
{
	static const struct {
		size_t most, ring_bytes;
	} cases[] = {{0, 1u << 20},
		     {1u << 20, 1u << 20},
		     {(1u << 20) - 1, 1u << 19},
		     {1u << 16, 1u << 16}};

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_perf.ring_bytes_most = cases[i].most;
		open_perf(&samples);
		assert_int_equal(about.ring_bytes, cases[i].ring_bytes);
		assert_int_equal(about.cpu_count, FAKE_PERF_CPUS);
		assert_int_equal(fake_perf_open_count(), FAKE_PERF_CPUS);
		ky_perf_close(perf);
	}
	/* Smaller ones would have no room for the stacks. */
	fake_perf.ring_bytes_most = (1u << 16) - 1;
	assert_int_equal(ky_perf_open(&perf, &samples, (pid_t)PID), -EPERM);
	assert_int_equal(fake_perf_open_count(), 0);
	/* Switches need less, and take no more than asked for. */
	open_perf(&switches);
	assert_int_equal(about.ring_bytes, 1u << 15);
	assert_int_equal(about.record_bytes, KY_PERF_SWITCH_BYTES);
}

static void open__leaves_out_cpus_that_are_off(void **state)
{
	(void)state;
	fake_perf.off_cpu = 1;
	open_perf(&samples);
	assert_int_equal(about.cpu_count, 1);
	assert_int_equal(fake_perf_find(SOFTWARE, CLOCK, -1, 0)->cpu, 1);
	/* One more thread has no event there either. */
	assert_int_equal(ky_perf_add(perf, (pid_t)TID), 0);
	assert_int_equal(fake_perf_open_count(), 2);
	ky_perf_close(perf);
	fake_perf.cpus = 1;
	assert_int_equal(ky_perf_open(&perf, &samples, (pid_t)PID), -ENODEV);
	assert_null(perf);
}

static void event__of_samples_asks_for_what_the_records_have(void **state)
{
	struct ky_perf_options options = samples;
	const struct fake_perf_event *event;

	(void)state;
	open_perf(&options);
	event = fake_perf_find(SOFTWARE, CLOCK, 0, 0);
	assert_int_equal(event->tid, (pid_t)PID);
	assert_true(event->is_enabled);
	assert_int_equal(event->attr.sample_period, 10000000);
	assert_false(event->attr.freq);
	assert_int_equal(event->attr.sample_type, KY_PERF_SAMPLE_TYPE);
	assert_int_equal(event->attr.sample_stack_user, 4096);
	assert_int_equal(event->attr.sample_regs_user, ky_perf_record_registers());
	assert_true(event->attr.inherit);
	assert_true(event->attr.use_clockid);
	assert_int_equal(event->attr.clockid, CLOCK_MONOTONIC);
	assert_false(event->attr.exclude_kernel);
	assert_true(event->attr.exclude_callchain_user);
	assert_false(event->attr.exclude_callchain_kernel);
	ky_perf_close(perf);
	/* Of a process that waits for its exec: that lets it count. */
	options.is_at_exec = true;
	options.has_kernel = false;
	open_perf(&options);
	event = fake_perf_find(SOFTWARE, CLOCK, 0, 0);
	assert_false(event->is_enabled);
	assert_true(event->attr.enable_on_exec);
	assert_true(event->attr.exclude_kernel);
	assert_true(event->attr.exclude_callchain_kernel);
}

/* Both are opened paused. */
static void event__of_switches_and_faults_counts_each(void **state)
{
	struct ky_perf_options options = switches;
	const struct fake_perf_event *event;

	(void)state;
	open_perf(&options);
	event = fake_perf_find(SOFTWARE, MAJOR, 0, 0);
	assert_false(event->is_enabled);
	assert_int_equal(event->attr.sample_period, 1);
	assert_int_equal(event->attr.sample_type, KY_PERF_SWITCH_TYPE);
	assert_true(event->attr.sample_id_all);
	assert_true(event->attr.context_switch);
	assert_false(event->attr.task);
	ky_perf_close(perf);
	options = (struct ky_perf_options){.is_faults = true, .stack_bytes = 12288};
	open_perf(&options);
	event = fake_perf_find(SOFTWARE, MAJOR, 0, 0);
	assert_false(event->is_enabled);
	assert_int_equal(event->attr.sample_period, 1);
	assert_true(event->attr.exclude_callchain_kernel);
}

static uint64_t header(uint32_t type, uint32_t bytes)
{
	return type | (uint64_t)bytes << 48;
}

/* A sample of 16 words whose period is `period`. */
static bool put_sample(int cpu, uint64_t period)
{
	struct fake_perf_event *event = fake_perf_find(SOFTWARE, CLOCK, cpu, 0);
	const uint64_t words[16] = {header(PERF_RECORD_SAMPLE, 128),
				    PID | (uint64_t)TID << 32,
				    NS,
				    (uint64_t)cpu,
				    period,
				    0,
				    PERF_SAMPLE_REGS_ABI_64,
				    1,
				    2,
				    3,
				    4,
				    16,
				    5,
				    6,
				    16};

	return fake_perf_put(event, words);
}

struct tally {
	uint32_t count;
	uint64_t period_ns, cpus;
};

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct tally *tally = ctx;

	assert_int_equal(sample->tid, TID);
	assert_int_equal(sample->stack_bytes, 16);
	tally->count++;
	tally->period_ns += sample->period_ns;
	tally->cpus |= 1u << sample->cpu;
}

static void read__returns_records_of_all_cpus(void **state)
{
	struct tally tally = {0};

	(void)state;
	open_perf(&samples);
	assert_true(put_sample(0, 1));
	assert_true(put_sample(1, 10));
	assert_true(put_sample(0, 100));
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 3);
	assert_int_equal(tally.period_ns, 111);
	assert_int_equal(tally.cpus, 3);
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 0);
	ky_perf_about(perf, &about);
	assert_int_equal(about.sample_count, 3);
	assert_int_equal(about.lost_count, 0);
}

static jmp_buf away;

static void leave_by_jump(void *ctx, const struct ky_perf_sample *sample)
{
	on_sample(ctx, sample);
	longjmp(away, 1);
}

static void read__left_by_a_jump_loses_that_sample_alone(void **state)
{
	static struct tally tally;

	(void)state;
	open_perf(&samples);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(put_sample(0, 1));
	memset(&tally, 0, sizeof(tally));
	if (!setjmp(away))
		(void)ky_perf_read(perf, leave_by_jump, &tally);
	assert_int_equal(tally.count, 1);
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 3);
	ky_perf_about(perf, &about);
	assert_int_equal(about.lost_count, 1);
	assert_int_equal(about.sample_count, 4);
}

/* A ring of 64 KiB has room for 512 of them. */
static void lost__is_counted_as_the_ring_reports_it(void **state)
{
	struct tally tally = {0};

	(void)state;
	fake_perf.ring_bytes_most = 1u << 16;
	open_perf(&samples);
	for (uint32_t i = 0; i < 512; i++)
		assert_true(put_sample(0, 1));
	for (uint32_t i = 0; i < 7; i++)
		assert_false(put_sample(0, 1));
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 512);
	/* With the next one that has room. */
	ky_perf_about(perf, &about);
	assert_int_equal(about.lost_count, 0);
	assert_true(put_sample(0, 1));
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 1);
	ky_perf_about(perf, &about);
	assert_int_equal(about.lost_count, 7);
}

/* Where none comes any more the events know it, of kernels from 6.0 on. */
static void lost__at_the_end_is_read_from_the_events(void **state)
{
	struct tally tally = {0};

	(void)state;
	for (int is_old = 0; is_old < 2; is_old++) {
		fake_perf.ring_bytes_most = 1u << 16;
		fake_perf.is_old = is_old;
		open_perf(&samples);
		for (uint32_t i = 0; i < 512 + 7; i++)
			(void)put_sample(0, 1);
		(void)ky_perf_read(perf, on_sample, &tally);
		ky_perf_count_lost(perf);
		ky_perf_about(perf, &about);
		assert_int_equal(about.lost_count, is_old ? 0 : 7);
		ky_perf_close(perf);
		perf = NULL;
	}
}

/* A thread's own event, which writes into the ring of its CPU. */
static void add__takes_a_thread_that_runs_into_the_same_rings(void **state)
{
	struct fake_perf_event *event;
	struct tally tally = {0};
	int fds[8];

	(void)state;
	open_perf(&samples);
	assert_int_equal(ky_perf_add(perf, (pid_t)TID), 0);
	assert_int_equal(ky_perf_fds(perf, fds, 8), 2 * FAKE_PERF_CPUS);
	assert_int_equal(ky_perf_fds(perf, fds, 3), 3);
	event = fake_perf_find(SOFTWARE, CLOCK, 1, 1);
	assert_int_equal(event->tid, (pid_t)TID);
	assert_true(event->is_enabled);
	assert_null(event->page);
	assert_int_equal(event->output,
			 fake_perf_find(SOFTWARE, CLOCK, 1, 0) - fake_perf.events + FAKE_PERF_FDS);
	assert_true(put_sample(1, 5));
	assert_int_equal(ky_perf_read(perf, on_sample, &tally), 1);
}

static void pause__is_of_every_event(void **state)
{
	(void)state;
	open_perf(&samples);
	assert_int_equal(ky_perf_add(perf, (pid_t)TID), 0);
	assert_int_equal(ky_perf_pause(perf, true), 0);
	for (uint32_t i = 0; i < 2 * FAKE_PERF_CPUS; i++)
		assert_false(fake_perf_find(SOFTWARE, CLOCK, -1, i)->is_enabled);
	assert_false(put_sample(0, 1));
	assert_int_equal(ky_perf_pause(perf, false), 0);
	for (uint32_t i = 0; i < 2 * FAKE_PERF_CPUS; i++)
		assert_true(fake_perf_find(SOFTWARE, CLOCK, -1, i)->is_enabled);
	fake_perf.pause_error = -EBADF;
	assert_int_equal(ky_perf_pause(perf, true), -EBADF);
}

/* Of this process, which has one thread. */
static void add_all__takes_threads_within_its_descriptors(void **state)
{
	struct ky_perf_options options = samples;

	(void)state;
	fake_perf.is_silent = true;
	options.fds_max = FAKE_PERF_CPUS - 1;
	assert_int_equal(ky_perf_add_all(&perf, &options, getpid()), -EMFILE);
	assert_null(perf);
	options.fds_max = FAKE_PERF_CPUS;
	assert_int_equal(ky_perf_add_all(&perf, &options, getpid()), 0);
	assert_int_equal(fake_perf_open_count(), FAKE_PERF_CPUS);
	assert_int_equal(fake_perf_find(SOFTWARE, CLOCK, 0, 0)->tid, (pid_t)syscall(SYS_gettid));
	ky_perf_close(perf);
	perf = NULL;
	options.without_tid = (uint32_t)syscall(SYS_gettid);
	assert_int_equal(ky_perf_add_all(&perf, &options, getpid()), 0);
	assert_null(perf);
}

/* Threads that end meanwhile are passed over, another refusal is not. */
static void add_all__passes_over_threads_that_have_ended(void **state)
{
	(void)state;
	fake_perf.open_error = -ESRCH;
	assert_int_equal(ky_perf_add_all(&perf, &samples, getpid()), 0);
	assert_null(perf);
	fake_perf.open_error = -EACCES;
	assert_int_equal(ky_perf_add_all(&perf, &samples, getpid()), -EACCES);
}

/* Each reading of the thread's CPU clock takes a millisecond of it. */
static bool read_busy_clock(clockid_t clock, uint64_t *ns)
{
	if (clock == CLOCK_THREAD_CPUTIME_ID)
		test_now.thread_cpu_ns += 1000000;
	*ns = clock == CLOCK_THREAD_CPUTIME_ID ? test_now.thread_cpu_ns : test_now.ns;
	return true;
}

static void test__accepts_only_events_that_yield(void **state)
{
	struct ky_perf_options options = samples;

	(void)state;
	test_now.read = read_busy_clock;
	assert_int_equal(ky_perf_test(&options), 0);
	assert_true(options.has_kernel);
	fake_perf.is_kernel_refused = true;
	assert_int_equal(ky_perf_test(&options), 0);
	assert_false(options.has_kernel);
	/* It opens, and yields nothing: three times 10 ms of CPU time. */
	fake_perf.is_silent = true;
	test_now.thread_cpu_ns = 0;
	assert_int_equal(ky_perf_test(&options), -ENODATA);
	assert_in_range(test_now.thread_cpu_ns, 30000000, 40000000);
	fake_perf.open_error = -EPERM;
	assert_int_equal(ky_perf_test(&options), -EPERM);
}

static uint64_t record_ns;
static void (*answer)(uint64_t ns);

/* A sleep takes a microsecond of CPU time, and more where it is recorded. */
static void sleep_at_a_price(uint64_t ns)
{
	const struct fake_perf_event *event = fake_perf_find(SOFTWARE, MAJOR, -1, 0);

	test_now.thread_cpu_ns += 1000 + (event && event->is_enabled ? record_ns : 0);
	answer(ns);
}

static void test_switches__measures_what_a_record_costs(void **state)
{
	struct ky_perf_options options = switches;
	static const uint64_t cases[][2] = {{0, 500}, {1700, 1700}, {90000, 4000}};
	uint64_t cost_ns;

	(void)state;
	answer = test_now.on_sleep;
	test_now.on_sleep = sleep_at_a_price;
	for (uint32_t i = 0; i < 3; i++) {
		record_ns = cases[i][0];
		assert_int_equal(ky_perf_test_switches(&options, &cost_ns), 0);
		assert_int_equal(cost_ns, cases[i][1]);
	}
	fake_perf.is_kernel_refused = true;
	assert_int_equal(ky_perf_test_switches(&options, &cost_ns), 0);
	assert_false(options.has_kernel);
	fake_perf.is_silent = true;
	assert_int_equal(ky_perf_test_switches(&options, &cost_ns), -ENODATA);
}

static void open__refuses_invalid_options(void **state)
{
	struct ky_perf_options options = {.rate_hz = 99, .stack_bytes = 4095};

	(void)state;
	assert_int_equal(ky_perf_open(&perf, &options, getpid()), -EINVAL);
	assert_null(perf);
	options.stack_bytes = 65536;
	assert_int_equal(ky_perf_open(&perf, &options, getpid()), -EINVAL);
	fake_perf.cpus = 0;
	assert_int_equal(ky_perf_open(&perf, &samples, getpid()), -EINVAL);
	ky_perf_close(NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(open__has_one_ring_a_cpu_as_large_as_may_be_locked),
		CASE(open__leaves_out_cpus_that_are_off),
		CASE(event__of_samples_asks_for_what_the_records_have),
		CASE(event__of_switches_and_faults_counts_each),
		CASE(read__returns_records_of_all_cpus),
		CASE(read__left_by_a_jump_loses_that_sample_alone),
		CASE(lost__is_counted_as_the_ring_reports_it),
		CASE(lost__at_the_end_is_read_from_the_events),
		CASE(add__takes_a_thread_that_runs_into_the_same_rings),
		CASE(pause__is_of_every_event),
		CASE(add_all__takes_threads_within_its_descriptors),
		CASE(add_all__passes_over_threads_that_have_ended),
		CASE(test__accepts_only_events_that_yield),
		CASE(test_switches__measures_what_a_record_costs),
		CASE(open__refuses_invalid_options),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
