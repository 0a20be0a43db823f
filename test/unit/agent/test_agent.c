/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One step of all that is done for a ring, over a made ring: what is done, and when the next step
 * is due with a caller that steps often and with one that sleeps. */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"
#include "../../lib/trace_tally.h"

#include <agent/agent.h>
#include <base/alloc.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define FIRST_NS UINT64_C(1000000000)

static struct test_ring ring;
static struct test_writer writer;
static struct ky_agent_options options;
static struct ky_agent agent;
static struct ky_agent_moment moment;
static bool is_file_taken;
static uint8_t *bytes;
static size_t byte_count;
static struct {
	uint32_t steps, described, closed;
	uint64_t due_ns;
	const struct ky_drain *stream;
} probe;

static int on_bytes(void *ctx, const uint8_t *more, size_t count)
{
	(void)ctx;
	bytes = realloc(bytes, byte_count + count);
	assert_non_null(bytes);
	memcpy(bytes + byte_count, more, count);
	byte_count += count;
	return 0;
}

static uint64_t probe_step(void *self, const struct ky_probe_moment *now)
{
	(void)self;
	probe.steps++;
	probe.stream = now->stream;
	return probe.due_ns;
}

static void probe_describe(void *self, struct ky_drain *drain)
{
	(void)self;
	probe.described++;
	assert_int_equal(ky_drain_metadata(drain, "made.probe", "was here"), 0);
}

static void probe_close(void *self)
{
	(void)self;
	probe.closed++;
}

static int set_up(void **state)
{
	const struct ky_ring_access access = {.fd = -1};

	(void)state;
	test_ticks_base = 0; /* the ring is drained by this machine's counter */
	test_ring_open(&ring, 64);
	test_writer_open(&writer, &ring, 501, FIRST_NS);
	test_poll(&writer, FIRST_NS + MS, 7, 0);
	test_poll_end(&writer, FIRST_NS + 2 * MS, 0);
	memset(&agent, 0, sizeof(agent));
	memset(&probe, 0, sizeof(probe));
	probe.due_ns = UINT64_MAX;
	options = (struct ky_agent_options){
		.output = {.compressor = ky_compressor_none, .write = on_bytes}};
	ky_agent_output_init(&agent.output, &options, ring.header, &access, &is_file_taken);
	agent.drain = (struct ky_drain_mode){.options = &options,
					     .output = &agent.output,
					     .image = ring.image,
					     .image_bytes = ring.image_bytes,
					     .source = "test"};
	agent.probes[KY_AGENT_MODULES] = (struct ky_probe){NULL, probe_step, probe_describe,
							   probe_close};
	assert_int_equal(ky_drain_mode_open(&agent.drain), 0);
	moment = (struct ky_agent_moment){.now_ns = agent.drain.pace.found_ns,
					  .pace = {1000 * MS, 100 * MS, 100 * MS, false}};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ky_agent_close(&agent);
	test_ring_close(&ring);
	free(bytes);
	bytes = NULL;
	byte_count = 0;
	return 0;
}

static uint64_t step(void)
{
	uint64_t again_ns;
	int err;

	again_ns = ky_agent_step(&agent, &moment, &err);
	assert_int_equal(err, 0);
	return again_ns;
}

static void step__stream_is_written_and_described_at_its_end(void **state)
{
	struct trace_tally tally = {0};

	(void)state;
	(void)step();
	assert_ptr_equal(probe.stream, agent.drain.stream);
	assert_int_equal(ky_agent_finish(&agent, true, false), 0);
	ky_agent_output_close(&agent.output);
	assert_int_equal(probe.described, 1);
	trace_tally_memory(&tally, bytes, byte_count);
	assert_int_equal(tally.polls, 1);
	ky_agent_close(&agent);
	assert_int_equal(probe.closed, 1);
}

static void step__resting_flight_asks_for_no_time(void **state)
{
	(void)state;
	moment.is_flight = moment.rests_in_flight = true;
	assert_true(step() == UINT64_MAX);
	assert_null(probe.stream);
	moment.rests_in_flight = false;
	assert_in_range(step(), moment.now_ns, moment.now_ns + 100 * MS);
	assert_int_equal(byte_count, 0);
	assert_int_equal(ky_agent_finish(&agent, true, false), 0);
	assert_int_equal(probe.described, 0); /* there is no trace to write it to */
}

static void step__probe_wakes_a_host_that_sleeps_alone(void **state)
{
	(void)state;
	moment.is_flight = moment.rests_in_flight = true;
	probe.due_ns = moment.now_ns + 5 * MS;
	assert_int_equal(step(), probe.due_ns);
	moment.pace.has_slack = true;
	assert_true(step() == UINT64_MAX);
	assert_int_equal(probe.steps, 2);
}

static bool has_no_memory(size_t size)
{
	(void)size;
	return false;
}

static void step__stream_that_cannot_begin_is_tried_again(void **state)
{
	uint64_t again_ns;
	int err;

	(void)state;
	moment.rests_in_flight = true;
	ky_alloc_hook = has_no_memory;
	again_ns = ky_agent_step(&agent, &moment, &err);
	ky_alloc_hook = NULL;
	assert_int_equal(err, -ENOMEM);
	assert_in_range(again_ns, moment.now_ns, moment.now_ns + 1000 * MS);
	(void)step();
	assert_non_null(ky_drain_mode_stream(&agent.drain));
}

static uint32_t made;

static int make(void *ctx, struct ky_dump_request *request)
{
	(void)ctx;
	(void)request;
	made++;
	return 0;
}

static void step__makes_the_dumps_that_are_due(void **state)
{
	static struct ky_dumps dumps = {.lock = PTHREAD_MUTEX_INITIALIZER,
					.done = PTHREAD_COND_INITIALIZER};
	struct ky_dump_request *now, *later;

	(void)state;
	moment.is_flight = moment.rests_in_flight = true;
	ky_dumps_open(&dumps, 4);
	agent.dumps = &dumps;
	agent.maker = (struct ky_dump_maker){make, NULL, NULL};
	now = ky_dump_request_alloc(0);
	later = ky_dump_request_alloc(0);
	assert_non_null(now);
	assert_non_null(later);
	later->due_ns = UINT64_MAX - 1;
	assert_int_equal(ky_dumps_put(&dumps, now), 0);
	assert_int_equal(ky_dumps_put(&dumps, later), 0);
	made = 0;
	assert_true(step() == UINT64_MAX - 1);
	assert_int_equal(made, 1);
	assert_int_equal(ky_agent_finish(&agent, true, false), 0);
	assert_int_equal(made, 2);
	ky_dumps_close(&dumps);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(step__stream_is_written_and_described_at_its_end),
		CASE(step__resting_flight_asks_for_no_time),
		CASE(step__probe_wakes_a_host_that_sleeps_alone),
		CASE(step__stream_that_cannot_begin_is_tried_again),
		CASE(step__makes_the_dumps_that_are_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
