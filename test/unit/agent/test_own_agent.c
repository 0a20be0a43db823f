/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A step of the library's thread, at a moment that it meets by chance alone. */
#include "../../lib/cmocka_all.h"
#include "../../lib/trace_tally.h"

#include <agent/own_agent.h>
#include <base/now.h>
#include <kymo/kymo.h>
#include <string.h>

#define POLLS 300
#define BYTES_MAX (1u << 20)

struct memory {
	uint8_t bytes[BYTES_MAX];
	size_t count;
};

static int into_memory(void *ctx, const uint8_t *bytes, size_t count)
{
	struct memory *memory = ctx;

	assert_true(count <= BYTES_MAX - memory->count);
	memcpy(memory->bytes + memory->count, bytes, count);
	memory->count += count;
	return 0;
}

static void keep_result(void *ctx, const struct kymo_dump_result *result)
{
	*(struct kymo_dump_result *)ctx = *result;
}

static int choose_compressor(struct ky_compressor_factory *out, uint32_t compression)
{
	return ky_compressor_choose(out, compression, 1);
}

/* The thread looked for a ring, then the first event made one, and then a dump was asked for. */
static void dump__of_a_ring_that_came_since_the_thread_looked(void **state)
{
	static struct ky_own_agent own;
	static struct memory memory;
	struct kymo_recorder_options recording = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct ky_dumps dumps = {.lock = PTHREAD_MUTEX_INITIALIZER,
				 .done = PTHREAD_COND_INITIALIZER};
	struct kymo_dump_result result = {.err = 1};
	struct trace_tally tally = {0};
	struct ky_dump_request *request;
	struct kymo_recorder *recorder;

	(void)state;
	recording.flags = KYMO_RECORDER_NO_DRAIN;
	assert_int_equal(kymo_recorder_open(&recorder, &recording), 0);
	ky_own_agent_init(&own);
	assert_int_equal(choose_compressor(&own.options.output.compressor, KYMO_COMPRESSION_NONE),
			 0);
	own.place.compressor = &own.options.output.compressor;
	own.place.choose_compressor = choose_compressor;
	ky_dumps_open(&dumps, 1);
	ky_own_agent_begin(&own, &dumps);
	for (int i = 0; i < POLLS; i++) {
		kymo_poll_begin(5, 0, 1);
		kymo_poll_end(0);
	}
	options.write = into_memory;
	options.write_ctx = &memory;
	options.done = keep_result;
	options.done_ctx = &result;
	assert_int_equal(ky_dump_request_make(&request, &options, ky_now_ns(CLOCK_MONOTONIC)), 0);
	assert_int_equal(ky_dumps_put(&dumps, request), 0);
	(void)ky_own_agent_step(&own, NULL);
	assert_int_equal(result.err, 0);
	trace_tally_memory(&tally, memory.bytes, memory.count);
	assert_int_equal(tally.polls, POLLS);
	ky_own_agent_end(&own, NULL);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dump__of_a_ring_that_came_since_the_thread_looked),
	};

	return cmocka_run_group_tests_name("own_agent", tests, NULL, NULL);
}
