/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/drain_case.h"

#define SECOND (1000 * MS)

struct kernel {
	uint32_t readings, tid;
	bool is_gone;
};

static bool count_thread(void *ctx, uint32_t tid, struct ky_thread_cpu *out)
{
	struct kernel *kernel = ctx;

	kernel->readings++;
	kernel->tid = tid;
	*out = (struct ky_thread_cpu){.tid = tid,
				      .cpu_ns = kernel->readings * 1000,
				      .run_delay_ns = kernel->readings * 10,
				      .has_switches = kernel->readings != 2,
				      .voluntary = 5,
				      .involuntary = 7};
	return !kernel->is_gone;
}

static void begin(struct drain_case *c, struct test_writer *w, struct kernel *kernel)
{
	memset(kernel, 0, sizeof(*kernel));
	case_open(c, 8);
	c->options.count_thread = count_thread;
	c->options.count_ctx = kernel;
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
	test_worker(w, T0, 10, 0x7000, 0x100);
	test_poll(w, T0 + MS, 7, 0);
	test_poll_end(w, T0 + 2 * MS, 0);
}

static void thread_count__worker_is_read_once_a_second(void **state)
{
	static struct drain_case c;
	struct test_writer w, other;
	struct kernel kernel;
	const struct test_event *event;

	(void)state;
	begin(&c, &w, &kernel);
	/* No worker: it is not read. */
	test_writer_open(&other, &c.ring, 502, T0);
	test_emit(&other, T0 + MS, KYMO_RECORD_MARK, 0, 1, 1, 0, 0);
	for (uint64_t ms = 100; ms <= 2500; ms += 100)
		case_step(&c, T0 + ms * MS);
	assert_in_range(kernel.readings, 3, 4);
	assert_int_equal(kernel.tid, 501);
	case_finish(&c, T0 + 3 * SECOND);
	event = EVENT(&c, THREAD_CPU, 0);
	assert_int_equal(NUMBER(event, THREAD_CPU, tid), 501);
	assert_int_equal(NUMBER(event, THREAD_CPU, worker_id), 0);
	assert_int_equal(NUMBER(event, THREAD_CPU, cpu_time_ns), 1000);
	assert_int_equal(NUMBER(event, THREAD_CPU, run_delay_ns), 10);
	assert_int_equal(NUMBER(event, THREAD_CPU, voluntary_switches), 5);
	assert_int_equal(NUMBER(event, THREAD_CPU, involuntary_switches), 7);
	event = EVENT(&c, THREAD_CPU, 1);
	assert_false(event->is_present[KY_F_THREAD_CPU_voluntary_switches]);
	assert_true(event->ns >= T0 + SECOND);
	case_close(&c);
}

static void thread_count__late_wake_causes_an_earlier_reading(void **state)
{
	static struct drain_case c;
	struct test_writer w;
	struct kernel kernel;
	uint32_t readings;

	(void)state;
	begin(&c, &w, &kernel);
	for (uint64_t ms = 100; ms <= 200; ms += 50)
		case_step(&c, T0 + ms * MS);
	readings = kernel.readings;
	test_emit(&w, T0 + 210 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(7, 0), 0, 0);
	test_poll(&w, T0 + 230 * MS, 7, 0);
	test_poll_end(&w, T0 + 231 * MS, 0);
	for (uint64_t ms = 250; ms <= 600; ms += 50)
		case_step(&c, T0 + ms * MS);
	/* Once: what comes after it is the usual pace. */
	assert_int_equal(kernel.readings, readings + 1);
	case_finish(&c, T0 + 700 * MS);
	case_close(&c);
}

/* The thread that blocks in place has no worker then; a reading of it is not the worker's. */
static void thread_count__names_the_worker_of_the_thread_that_has_it(void **state)
{
	static struct drain_case c;
	struct test_writer w, other;
	struct kernel kernel;
	uint32_t seen[2] = {0};

	(void)state;
	begin(&c, &w, &kernel);
	test_poll(&w, T0 + 3 * MS, 8, 0);
	test_writer_open(&other, &c.ring, 502, T0 + 4 * MS);
	test_worker(&other, T0 + 4 * MS, 11, 0x7000, 0x100);
	test_poll(&other, T0 + 5 * MS, 9, 0);
	test_poll_end(&other, T0 + 6 * MS, 0);
	for (uint64_t ms = 100; ms <= 2500; ms += 100)
		case_step(&c, T0 + ms * MS);
	case_finish(&c, T0 + 3 * SECOND);
	for (size_t i = 0; i < COUNT(&c, THREAD_CPU); i++) {
		const struct test_event *event = EVENT(&c, THREAD_CPU, i);
		bool is_blocked = NUMBER(event, THREAD_CPU, tid) == 501;

		seen[is_blocked]++;
		assert_int_equal(NUMBER(event, THREAD_CPU, worker_id), is_blocked ? 255 : 0);
	}
	assert_true(seen[0] > 1 && seen[1] > 1);
	case_close(&c);
}

static void thread_count__unreadable_thread_is_not_written(void **state)
{
	static struct drain_case c;
	struct test_writer w;
	struct kernel kernel;

	(void)state;
	begin(&c, &w, &kernel);
	kernel.is_gone = true;
	for (uint64_t ms = 100; ms <= 1500; ms += 100)
		case_step(&c, T0 + ms * MS);
	assert_true(kernel.readings >= 2);
	case_finish(&c, T0 + 2 * SECOND);
	for (size_t i = 0; i < c.sink.event_count; i++)
		assert_int_not_equal(c.sink.events[i].event, KY_EV_THREAD_CPU);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_count__worker_is_read_once_a_second),
		cmocka_unit_test(thread_count__late_wake_causes_an_earlier_reading),
		cmocka_unit_test(thread_count__names_the_worker_of_the_thread_that_has_it),
		cmocka_unit_test(thread_count__unreadable_thread_is_not_written),
	};

	return cmocka_run_group_tests_name("thread_count", tests, NULL, NULL);
}
