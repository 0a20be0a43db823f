/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Blocking calls as they are recorded: which, with what weight, and into which ring. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/off_cpu.h>
#include <linux/seccomp.h>
#include <record/emit/emit_engine.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wire/call_facts.h>

#define MS UINT64_C(1000000)

static struct test_recorder test;
static struct ky_sample_ring cells;
static uint64_t hz;
static void (*while_making)(void);

void ky_testpoint(const char *name)
{
	void (*fn)(void) = while_making;

	if (!fn || strcmp(name, "off_cpu.making") != 0)
		return;
	while_making = NULL;
	fn();
}

static int setup(void **state)
{
	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	kymo_poll_begin(7, 0, 0); /* this thread has a state */
	hz = ky_engine.ring->clock.is_os ? UINT64_C(1000000000) :
					   ky_engine.ring->clock.ticks_per_second;
	assert_true(ky_ring_samples(ky_engine.ring, KY_SAMPLES_OFF_CPU, &cells));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_recorder_close(&test);
	return 0;
}

static uint32_t reported(void)
{
	return (uint32_t)(atomic_load(&cells.head->claim_index) >> KY_SAMPLE_CLAIM_BITS);
}

/* Sample `number`, which has one cell: there are no unwind tables. */
static const struct ky_sample_cell *cell_of(uint32_t number)
{
	return (const struct ky_sample_cell *)(const void *)(cells.cells +
							     (size_t)(number % cells.cell_count) *
								     KY_SAMPLE_CELL_BYTES);
}

static struct kymo_off_cpu interval(uint64_t begin_ns, uint64_t ns)
{
	struct kymo_off_cpu wait = {.begin_ticks = begin_ns * (hz / 1000) / 1000000,
				    .reason = KYMO_OFF_CPU_FUTEX,
				    .syscall = SYS_futex,
				    .descriptor = -1,
				    .flags = KYMO_OFF_CPU_BY_MODE,
				    .bytes = -1};

	wait.end_ticks = wait.begin_ticks + ns * (hz / 1000) / 1000000;
	KYMO_STACK_HERE(&wait.from);
	return wait;
}

static void off_cpu__sample_has_duration_and_reason(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, 5 * MS);
	const struct ky_sample_cell *cell;

	(void)state;
	assert_true(kymo_off_cpu_ticks_min() >= hz / 10000 - 1);
	assert_true(kymo_off_cpu_ticks_min() <= hz / 10000 + 1);
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
	cell = cell_of(0);
	assert_int_equal(cell->kind, KY_SAMPLE_OFF_CPU);
	assert_int_equal(cell->tid, syscall(SYS_gettid));
	assert_in_range(cell->value, 4990000, 5010000);
	assert_true(cell->stamp == wait.end_ticks);
	assert_int_equal(cell->more & 0xff, KY_OFF_CPU_FUTEX);
	assert_int_equal(cell->syscall, SYS_futex);
	assert_true(cell->weight == UINT64_C(1) << 32);
	assert_true(cell->flags & KY_SAMPLE_TRUNCATED);
	assert_int_equal(atomic_load(&cells.head->source), 1u << KY_SOURCE_CALLS);
}

static void report_one(void)
{
	struct kymo_off_cpu wait = interval(1000 * MS, 5 * MS);

	assert_true(kymo_off_cpu_emit(&wait));
}

/* As when the first calls of two threads end at once, or a handler interrupts the first. */
static void off_cpu__call_that_ends_while_cells_are_made_has_its_sample(void **state)
{
	(void)state;
	while_making = report_one;
	report_one();
	assert_null(while_making);
	assert_int_equal(reported(), 2);
	assert_int_equal(cell_of(0)->syscall, SYS_futex);
	assert_int_equal(cell_of(1)->syscall, SYS_futex);
}

static void *tell_many(void *ctx)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS), sure = interval(1000 * MS, 12 * MS);
	uint64_t stands_for = 0;
	uint32_t kept;

	(void)ctx;
	kymo_poll_begin(8, 0, 0);
	for (uint32_t i = 0; i < KYMO_OFF_CPU_BUDGET_MAX; i++)
		assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), KYMO_OFF_CPU_BUDGET_MAX);
	/* All at one moment, so nothing comes back to the budget. */
	for (uint32_t i = 0; i < 10000; i++)
		assert_true(kymo_off_cpu_emit(&wait));
	kept = reported() - KYMO_OFF_CPU_BUDGET_MAX;
	/* One in ten; five standard deviations of 30. */
	assert_in_range(kept, 850, 1150);
	for (uint32_t i = KYMO_OFF_CPU_BUDGET_MAX; i < reported(); i++)
		stands_for += cell_of(i)->weight >> 20;
	assert_in_range(stands_for >> 12, 8500, 11500);
	/* What is long enough is always recorded, with weight 1. */
	for (uint32_t i = 0; i < 100; i++)
		assert_true(kymo_off_cpu_emit(&sure));
	assert_int_equal(reported(), KYMO_OFF_CPU_BUDGET_MAX + kept + 100);
	assert_true(cell_of(reported() - 1)->weight == UINT64_C(1) << 32);
	/* A second later there is budget for a hundred. */
	wait = interval(2001 * MS, MS);
	kept = reported();
	for (uint32_t i = 0; i < 99; i++) {
		assert_true(kymo_off_cpu_emit(&wait));
		assert_int_equal(reported(), kept + i + 1);
		assert_true(cell_of(kept + i)->weight == UINT64_C(1) << 32);
	}
	kymo_poll_end(0);
	return NULL;
}

static void off_cpu__over_budget_is_drawn_by_length_and_weighted(void **state)
{
	(void)state;
	test_in_thread(tell_many, NULL);
}

static void off_cpu__nonblocking_descriptor_gives_no_sample(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);
	int patient[2], impatient[2];

	(void)state;
	assert_int_equal(pipe(patient), 0);
	assert_int_equal(pipe2(impatient, O_NONBLOCK), 0);
	wait.descriptor = impatient[0];
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 0);
	wait.descriptor = patient[0];
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
	wait.descriptor = 9999; /* closed meanwhile: it may have blocked */
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 2);
	for (int i = 0; i < 2; i++) {
		close(patient[i]);
		close(impatient[i]);
	}
}

static void off_cpu__next_recording_has_its_own_cells(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);

	(void)state;
	assert_true(kymo_off_cpu_emit(&wait));
	test_recorder_close(&test);
	assert_true(kymo_off_cpu_ticks_min() == UINT64_MAX);
	assert_false(kymo_off_cpu_emit(&wait));
	setup(NULL);
	assert_int_equal(reported(), 0);
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
}

/* Most containers start their programs under a filter. */
static void off_cpu__process_under_a_filter_records_its_system_call(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);
	int impatient = eventfd(0, EFD_NONBLOCK);

	(void)state;
	assert_true(impatient >= 0);
	ky_engine.confinement = SECCOMP_MODE_FILTER;
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
	assert_int_equal(cell_of(0)->syscall, SYS_futex);
	wait.descriptor = impatient;
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
	ky_engine.confinement = 0;
	close(impatient);
}

/* The filter that the program gave itself may kill for asking about a descriptor. */
/* A library of the program may put it under a filter unseen. */
static void off_cpu__asks_no_descriptor_that_another_process_forbids(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_true(kymo_off_cpu_is_nonblocking(fds[0]));
	test_recorder_close(&test);
	test_recorder_open(&test, 0, KYMO_RECORDER_PREPARED);
	kymo_mark(1);
	/* It has had no time to look. */
	assert_true(kymo_off_cpu_is_nonblocking(fds[0]));
	__atomic_fetch_add(&test_ticks_offset, 2 * hz, __ATOMIC_RELAXED);
	assert_false(kymo_off_cpu_is_nonblocking(fds[0]));
	__atomic_store_n(&kymo_control.may_call, 1, __ATOMIC_RELAXED);
	assert_true(kymo_off_cpu_is_nonblocking(fds[0]));
	__atomic_store_n(&kymo_control.may_call, 0, __ATOMIC_RELAXED);
	assert_false(kymo_off_cpu_is_nonblocking(fds[0]));
	close(fds[0]);
	close(fds[1]);
}

static void off_cpu__self_confined_process_queries_no_descriptor(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);
	int impatient = eventfd(0, EFD_NONBLOCK);

	(void)state;
	assert_true(impatient >= 0);
	kymo_recorder_confine();
	wait.descriptor = impatient;
	assert_true(kymo_off_cpu_emit(&wait));
	assert_int_equal(reported(), 1);
	close(impatient);
}

static struct ky_call_facts facts_of(const struct kymo_off_cpu *wait)
{
	uint32_t number = reported();
	struct ky_call_facts facts;

	errno = ENOENT;
	assert_true(kymo_off_cpu_emit(wait));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(reported(), number + 1);
	ky_call_facts_dec(&facts, cell_of(number)->more, cell_of(number)->other);
	return facts;
}

static void off_cpu__sample_has_what_the_call_said(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);
	struct ky_call_facts facts;

	(void)state;
	wait.lock = 0x7f0012345678;
	facts = facts_of(&wait);
	assert_true(facts.lock == 0x7f0012345678);
	wait.reason = KYMO_OFF_CPU_SYSCALL;
	wait.error = ECONNREFUSED;
	wait.bytes = 77;
	wait.peer_port = 5432;
	facts = facts_of(&wait);
	assert_int_equal(facts.error, ECONNREFUSED);
	assert_int_equal(facts.bytes, 77);
	assert_int_equal(facts.peer_port, 5432);
	assert_int_equal(facts.fd, -1);
	assert_int_equal(facts.fd_kind, KY_FD_UNKNOWN);
}

/* One that does not block waits for a lock of the file all the same. */
static void off_cpu__call_that_waits_in_any_mode_has_its_sample(void **state)
{
	struct kymo_off_cpu wait = interval(1000 * MS, MS);

	(void)state;
	wait.reason = KYMO_OFF_CPU_SYSCALL;
	wait.flags = 0;
	wait.descriptor = eventfd(0, EFD_NONBLOCK);
	assert_true(wait.descriptor >= 0);
	assert_int_equal(facts_of(&wait).fd_kind, KY_FD_ANONYMOUS);
	close(wait.descriptor);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(off_cpu__sample_has_duration_and_reason),
		CASE(off_cpu__call_that_ends_while_cells_are_made_has_its_sample),
		CASE(off_cpu__over_budget_is_drawn_by_length_and_weighted),
		CASE(off_cpu__nonblocking_descriptor_gives_no_sample),
		CASE(off_cpu__next_recording_has_its_own_cells),
		CASE(off_cpu__process_under_a_filter_records_its_system_call),
		CASE(off_cpu__sample_has_what_the_call_said),
		CASE(off_cpu__call_that_waits_in_any_mode_has_its_sample),
		CASE(off_cpu__asks_no_descriptor_that_another_process_forbids),
		CASE(off_cpu__self_confined_process_queries_no_descriptor),
	};

	return cmocka_run_group_tests_name("off_cpu", tests, NULL, NULL);
}
