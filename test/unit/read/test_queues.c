/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Samples of the queues of runtimes and of workers. */
#include "read_case.h"

#include <read/queues.h>

static struct read_case c;

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static void put_poll(uint64_t ns, uint32_t worker, uint8_t depth)
{
	ky_trc_enc_poll_start(&c.enc, ns, worker, depth, 7, case_text(&c, "svc::task"));
	case_end(&c, ns + 10, worker);
}

static void put_metrics(uint64_t ns, const char *runtime, uint32_t depth, uint32_t alive)
{
	uint32_t name = case_text(&c, runtime);

	ky_trc_enc_event(&c.enc, KY_EV_RUNTIME_METRICS, ns);
	ky_trc_enc_u32(&c.enc, name);
	ky_trc_enc_u32(&c.enc, depth);
	ky_trc_enc_u32(&c.enc, alive);
	for (uint32_t i = KY_F_RUNTIME_METRICS_workers; i < KY_F_RUNTIME_METRICS_COUNT; i++)
		ky_trc_enc_opt_varint(&c.enc, false, 0);
}

static void open_all(void)
{
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
}

static void check_sample(const struct ky_trace_queue *queue, uint64_t row, uint64_t ns,
			 uint32_t depth)
{
	struct ky_queue_sample sample;

	ky_queue_sample(queue, row, &sample);
	assert_int_equal(sample.time_ns, ns);
	assert_int_equal(sample.depth, depth);
}

static void a_workers_queue__has_a_row_where_it_changed_and_counts_all(void **state)
{
	const struct ky_trace_queue *queue;

	(void)state;
	put_poll(1000, 0, 0);
	put_poll(2000, 0, 3);
	put_poll(3000, 0, 3);
	put_poll(4000, 0, 0);
	put_poll(5000, 0, 0);
	put_poll(1500, 1, 0);
	open_all();
	queue = ky_trace_worker_queue(c.trace, 0);
	assert_non_null(queue);
	assert_int_equal(queue->sample_count, 5);
	assert_int_equal(queue->depths[0], 3);
	assert_int_equal(queue->depths[3], 2);
	assert_int_equal(queue->rows.row_count, 2);
	check_sample(queue, 0, 2000, 3);
	check_sample(queue, 1, 4000, 0);
	/* The other one was always empty, which its samples say. */
	queue = ky_trace_worker_queue(c.trace, 1);
	assert_non_null(queue);
	assert_int_equal(queue->depths[0], 1);
	assert_int_equal(queue->rows.row_count, 0);
}

static void samples_out_of_order__stand_by_time(void **state)
{
	const struct ky_trace_queue *queue;
	uint32_t depth;

	(void)state;
	put_poll(5000, 0, 2);
	put_poll(3000, 0, 2);
	put_poll(4000, 0, 0);
	open_all();
	queue = ky_trace_worker_queue(c.trace, 0);
	assert_int_equal(queue->rows.row_count, 3);
	check_sample(queue, 0, 3000, 2);
	check_sample(queue, 1, 4000, 0);
	check_sample(queue, 2, 5000, 2);
	assert_true(ky_queue_depth_max(queue, 4100, 4200, &depth));
	assert_int_equal(depth, 0);
	assert_true(ky_queue_depth_max(queue, 3500, 3600, &depth));
	assert_int_equal(depth, 2);
	assert_true(ky_queue_depth_max(queue, 4100, 5000, &depth));
	assert_int_equal(depth, 2);
}

static void queues_that_no_event_measured__do_not_exist(void **state)
{
	(void)state;
	put_poll(1000, 0, 0); /* as kymo writes it */
	open_all();
	assert_int_equal(c.trace->queue_count, 0);
	assert_null(ky_trace_worker_queue(c.trace, 0));
	assert_null(ky_trace_runtime_queue(c.trace, 0));
}

static void runtimes__come_first_and_have_every_sample(void **state)
{
	uint32_t depth;

	(void)state;
	put_poll(1000, 0, 9);
	put_metrics(2000, "io", 4, 80);
	put_metrics(3000, "", 5, 81);
	put_metrics(12000, "io", 4, 82);
	open_all();
	assert_int_equal(c.trace->queue_count, 3);
	assert_null(c.trace->queues[0].depths);
	assert_null(c.trace->queues[1].depths);
	assert_string_equal(ky_trace_name(c.trace, c.trace->queues[0].runtime), "io");
	assert_int_equal(c.trace->queues[0].rows.row_count, 2);
	check_sample(&c.trace->queues[0], 1, 12000, 4);
	assert_int_equal(c.trace->queues[1].runtime, KY_NONE);
	/* A worker that names no runtime has the queue of the one without a name. */
	assert_ptr_equal(ky_trace_runtime_queue(c.trace, 0), &c.trace->queues[1]);
	/* Of a second and more ago nothing is said. */
	assert_true(ky_queue_depth_max(&c.trace->queues[0], 900000000, 900000001, &depth));
	assert_int_equal(depth, 4);
	assert_false(ky_queue_depth_max(&c.trace->queues[0], 2000000000, 2000000001, &depth));
	assert_false(ky_queue_depth_max(&c.trace->queues[0], 10, 20, &depth));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_workers_queue__has_a_row_where_it_changed_and_counts_all),
		CASE(samples_out_of_order__stand_by_time),
		CASE(queues_that_no_event_measured__do_not_exist),
		CASE(runtimes__come_first_and_have_every_sample),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
