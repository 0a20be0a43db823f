/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The library's thread over a perf_event and clocks of the test's own: when it opens windows of its
 * process, where their times go, and what is recorded where it may not. The machine's own:
 * test_own_kernel.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_perf.h"
#include "../../lib/now_fake.h"
#include "../../lib/recorder_case.h"

#include <agent/own_samplers.h>
#include <errno.h>
#include <probe/still_threads.h>
#include <probe/switch_duty.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of each thread but the caller: one, and the thread sanitizer's own. */
#if defined(__SANITIZE_THREAD__)
#define EVENTS (2 * FAKE_PERF_CPUS)
#else
#define EVENTS FAKE_PERF_CPUS
#endif
#define T0 UINT64_C(1000000000000)
#define MS UINT64_C(1000000)
#define WINDOW KY_DUTY_WINDOW_NS_MIN
#define OUT PERF_RECORD_MISC_SWITCH_OUT

static struct test_recorder test;
static struct ky_own_samplers own;
static struct ky_sample_ring cells;
static struct rlimit limit;

/* A thread beside the library's, which waits in a read. */
static struct {
	pthread_t thread;
	_Atomic uint32_t tid;
	int pipe[2];
} other;

/* A quarter of what the process may have. */
static void leave_fds(uint32_t count)
{
	struct rlimit few = limit;

	few.rlim_cur = (rlim_t)count * 4;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void *wait_for_end(void *ctx)
{
	char byte;

	(void)ctx;
	atomic_store(&other.tid, (uint32_t)syscall(SYS_gettid));
	(void)!read(other.pipe[0], &byte, 1);
	return NULL;
}

static int setup(void **state)
{
	(void)state;
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = T0;
	fake_perf_reset();
	memset(&own, 0, sizeof(own));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	atomic_store(&other.tid, 0);
	assert_int_equal(pipe(other.pipe), 0);
	assert_int_equal(pthread_create(&other.thread, NULL, wait_for_end, NULL), 0);
	while (!atomic_load(&other.tid))
		;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	ky_engine.options.switches = KYMO_SWITCHES_ON;
	kymo_recorder_gates(KYMO_GATE_OFF_CPU, 0);
	assert_true(ky_ring_samples(ky_engine.ring, KY_SAMPLES_OFF_CPU, &cells));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_own_samplers_close(&own);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	test_recorder_close(&test);
	close(other.pipe[1]);
	pthread_join(other.thread, NULL);
	close(other.pipe[0]);
	assert_int_equal(fake_perf_open_count(), 0);
	return 0;
}

static uint64_t step_at(uint64_t ns)
{
	test_now.ns = ns;
	return ky_own_samplers_step(&own, ky_engine.ring, true);
}

/* The first step opens all, and a window: a little after T0, for its tests of the machine sleep. */
static void begin(void)
{
	(void)step_at(T0);
	assert_non_null(own.switches.windows);
	fake_perf.is_silent = true;
}

static uint32_t reported(void)
{
	return (uint32_t)(atomic_load(&cells.head->claim_index) >> KY_SAMPLE_CLAIM_BITS);
}

static void wait_once(uint64_t from_ns, uint64_t to_ns)
{
	uint32_t pid = (uint32_t)getpid(), tid = atomic_load(&other.tid);

	assert_true(fake_perf_switch(0, pid, tid, from_ns, OUT));
	assert_true(fake_perf_switch(1, pid, tid, to_ns, 0));
}

static uint32_t thread_events(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++)
		count += fake_perf.events[i].is_open &&
			 fake_perf.events[i].tid == (pid_t)atomic_load(&other.tid);
	return count;
}

static void step__watches_every_thread_but_its_own(void **state)
{
	const struct ky_sample_cell *cell;

	(void)state;
	cell = (const void *)cells.cells;
	begin();
	assert_int_equal(thread_events(), FAKE_PERF_CPUS);
	assert_int_equal(fake_perf_open_count(), EVENTS);
	assert_int_equal(ky_own_samplers_fds(), EVENTS + KY_STILL_MAX);
	assert_true(atomic_load(&cells.head->source) & 1u << KY_SOURCE_SWITCHES);
	/* 128 KiB a CPU at most, of threads and not of children. */
	assert_int_equal(
		fake_perf_find(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 0, 0)->ring_bytes,
		1u << 17);
	wait_once(test_now.ns + MS, test_now.ns + 4 * MS);
	(void)step_at(test_now.ns + 2 * WINDOW);
	assert_int_equal(reported(), 2); /* the wait, and the window */
	assert_int_equal(cell->kind, KY_SAMPLE_SWITCHES);
	assert_int_equal(cell->tid, atomic_load(&other.tid));
}

static void step__does_nothing_when_off(void **state)
{
	(void)state;
	ky_engine.options.switches = KYMO_SWITCHES_OFF;
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_null(own.switches.windows);
	ky_engine.options.switches = KYMO_SWITCHES_ON;
	kymo_recorder_gates(0, KYMO_GATE_OFF_CPU);
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_null(own.switches.windows);
	assert_int_equal(fake_perf_open_count(), 0);
}

/* What was seen up to then is put; what comes while it is shut is not watched. */
static void gate__closed_closes_the_window(void **state)
{
	uint64_t ns;

	(void)state;
	begin();
	ns = test_now.ns;
	wait_once(ns + MS, ns + 2 * MS);
	kymo_recorder_gates(0, KYMO_GATE_OFF_CPU);
	(void)step_at(ns + 5 * MS);
	assert_false(
		fake_perf_switch(0, (uint32_t)getpid(), atomic_load(&other.tid), ns + 6 * MS, OUT));
	assert_int_equal(reported(), 0); /* switched off by then */
	kymo_recorder_gates(KYMO_GATE_OFF_CPU, 0);
	(void)step_at(ns + 100 * MS);
	wait_once(ns + 101 * MS, ns + 102 * MS);
	(void)step_at(ns + 100 * MS + 2 * WINDOW);
	assert_true(reported() >= 2);
}

/* Recorded in the ring, once: another recording may have another fate. */
static void refusal__is_recorded_and_not_tried_again(void **state)
{
	(void)state;
	fake_perf.open_error = -EACCES;
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_null(own.switches.windows);
	assert_int_equal(atomic_load(&cells.head->refusals[KY_SOURCE_SWITCHES]), EACCES);
	fake_perf.open_error = 0;
	assert_int_equal(step_at(T0 + MS), UINT64_MAX);
	assert_null(own.switches.windows);
	own.ring = NULL; /* as if it had been of another ring */
	(void)step_at(T0 + 2 * MS);
	assert_non_null(own.switches.windows);
}

static void refusal__is_of_too_few_descriptors(void **state)
{
	(void)state;
	leave_fds(KY_STILL_MAX); /* as many as it keeps open of /proc */
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_int_equal(atomic_load(&cells.head->refusals[KY_SOURCE_SWITCHES]), EMFILE);
	own.ring = NULL;
	leave_fds(KY_STILL_MAX + 1); /* one thread takes two */
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_null(own.switches.windows);
	assert_int_equal(fake_perf_open_count(), 0);
}

/* A dump takes long: what the rings hold is fetched in between, every 20 ms. */
static void fetch__comes_when_it_is_due(void **state)
{
	uint64_t ns;

	(void)state;
	begin();
	ns = test_now.ns;
	ky_own_samplers_fetch(&own);
	assert_int_equal(reported(), 0);
	wait_once(ns + MS, ns + 2 * MS);
	test_now.ns = ns + 20 * MS - 1;
	ky_own_samplers_between(&own);
	assert_int_equal(reported(), 0);
	test_now.ns = ns + 20 * MS;
	ky_own_samplers_between(&own);
	assert_int_equal(reported(), 1);
}

static void end__puts_the_last_window(void **state)
{
	(void)state;
	begin();
	wait_once(test_now.ns + MS, test_now.ns + 2 * MS);
	test_now.ns += 5 * MS;
	kymo_recorder_gates(0, KYMO_GATE_OFF_CPU); /* as closing does */
	ky_own_samplers_end(&own);
	assert_int_equal(reported(), 2);
	ky_own_samplers_close(&own);
	assert_int_equal(ky_own_samplers_fds(), 0);
}

/* The library's thread comes late to the last window, which would have ended long before. */
static void end__leaves_no_time_out(void **state)
{
	const struct ky_sample_cell *cell = (const void *)cells.cells;
	uint64_t begin_ns, stretch_ns = 0;

	(void)state;
	begin();
	begin_ns = test_now.ns;
	test_now.ns += 10 * WINDOW;
	ky_own_samplers_end(&own);
	for (uint32_t i = 0; i < reported(); i++)
		stretch_ns += cell[i].tid ? 0 : cell[i].more;
	assert_int_equal(stretch_ns, test_now.ns - begin_ns);
}

/* Its copies of the descriptors, by their numbers: none is left to close afterwards. */
static void fork__child_closes_the_parents_files(void **state)
{
	(void)state;
	begin();
	assert_int_equal(ky_own_samplers_fds(), EVENTS + KY_STILL_MAX);
	ky_own_samplers_hooks.fork_child();
	assert_int_equal(ky_own_samplers_fds(), 0);
}

/* ---- CPU samples ---- */

static const struct ky_sample_class_head *cpu_head(void)
{
	const struct ky_sample_head *heads = (const void *)(ky_engine.ring->base +
							    ky_engine.ring->slots_end);

	return &heads->classes[KY_SAMPLES_CPU];
}

static uint32_t enabled_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++)
		count += fake_perf.events[i].is_open && fake_perf.events[i].is_enabled;
	return count;
}

static void samples__are_of_every_thread_as_long_as_the_ring_is_live(void **state)
{
	(void)state;
	ky_engine.options.switches = KYMO_SWITCHES_OFF;
	assert_int_equal(step_at(T0), UINT64_MAX); /* not asked for */
	assert_int_equal(fake_perf_open_count(), 0);
	ky_own_samplers_hooks.apply(4000);
	assert_true(step_at(T0) > T0);
	assert_int_equal(thread_events(), FAKE_PERF_CPUS);
	assert_int_equal(ky_own_samplers_fds(), fake_perf_open_count());
	assert_int_equal(enabled_count(), fake_perf_open_count());
	assert_int_equal(atomic_load(&cpu_head()->rate_hz), 1000); /* at most */
	assert_true(atomic_load(&cpu_head()->source) & 1u << KY_SOURCE_PERF);
	/* 256 KiB a CPU at most. */
	assert_int_equal(
		fake_perf_find(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, 0)->ring_bytes,
		1u << 18);
	ky_own_samplers_hooks.stop();
	assert_int_equal(step_at(T0 + MS), UINT64_MAX);
	assert_int_equal(enabled_count(), 0);
	assert_int_equal(atomic_load(&cpu_head()->rate_hz), 0);
}

static void samples__refused_fall_back_to_timers(void **state)
{
	(void)state;
	ky_engine.options.switches = KYMO_SWITCHES_OFF;
	fake_perf.open_error = -EACCES;
	ky_own_samplers_hooks.apply(99);
	assert_int_equal(step_at(T0), UINT64_MAX);
	assert_int_equal(atomic_load(&cpu_head()->refusals[KY_SOURCE_PERF]), EACCES);
	assert_true(ky_own_samplers_hooks.is_on());
	/* For good: another recording may have another fate. */
	fake_perf.open_error = 0;
	assert_int_equal(step_at(T0 + MS), UINT64_MAX);
	assert_int_equal(fake_perf_open_count(), 0);
	ky_own_samplers_hooks.stop();
	ky_own_samplers_close(&own);
	ky_own_samplers_hooks.apply(99);
	assert_true(step_at(T0 + 2 * MS) > T0);
	assert_int_equal(thread_events(), FAKE_PERF_CPUS);
	ky_own_samplers_hooks.stop();
}

/* Both take from the same descriptors; a forked child closes both. */
static void samples__share_the_descriptors_with_the_switches(void **state)
{
	(void)state;
	ky_own_samplers_hooks.apply(99);
	begin();
	assert_int_equal(ky_own_samplers_fds(), fake_perf_open_count() + KY_STILL_MAX);
	ky_own_samplers_hooks.fork_child();
	assert_int_equal(ky_own_samplers_fds(), 0);
	ky_own_samplers_hooks.stop();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(step__watches_every_thread_but_its_own),
		CASE(step__does_nothing_when_off),
		CASE(gate__closed_closes_the_window),
		CASE(refusal__is_recorded_and_not_tried_again),
		CASE(refusal__is_of_too_few_descriptors),
		CASE(fetch__comes_when_it_is_due),
		CASE(end__puts_the_last_window),
		CASE(end__leaves_no_time_out),
		CASE(fork__child_closes_the_parents_files),
		CASE(samples__are_of_every_thread_as_long_as_the_ring_is_live),
		CASE(samples__refused_fall_back_to_timers),
		CASE(samples__share_the_descriptors_with_the_switches),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
