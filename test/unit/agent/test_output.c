/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where chunks go: opened with the first, tried again after a second, noted in the ring. */
#include "../../lib/cmocka_all.h"
#include "../../lib/now_fake.h"
#include "../../lib/temp_tree.h"

#include <agent/output.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define CHUNK_BYTES 1000u
#define RUN "0123abcd-42-777"

static char top[64], path[128];
static struct ky_agent_options options;
static struct ky_agent_output output;
static struct {
	struct ky_ring_header header;
	_Alignas(64) struct ky_ring_side side;
} ring;
static bool is_file_taken;
static struct ky_agent_event last;
static uint32_t event_count;
static uint64_t function_bytes;
static int function_error, queue_count;

static void on_event(void *ctx, const struct ky_agent_event *event)
{
	(void)ctx;
	last = *event;
	event_count++;
}

static int on_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	(void)bytes;
	(void)ctx;
	function_bytes += count;
	return function_error;
}

static void open_output(void)
{
	const struct ky_ring_access access = {.base = (uint8_t *)&ring};

	ky_agent_output_init(&output, &options, &ring.header, &access, &is_file_taken);
}

static int set_up(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	ring.header.pid = 42;
	ring.header.start_time_ticks = 777;
	ring.header.side_offset = (uint64_t)((uint8_t *)&ring.side - (uint8_t *)&ring);
	ring.header.side_bytes = sizeof(ring.side);
	memcpy(ring.header.boot_id, "0123abcd-ffff", 14);
	memcpy(ring.header.service, "svc", 4);
	options = (struct ky_agent_options){
		.output = {.directory = top, .compressor = ky_compressor_none}, .event = on_event};
	event_count = 0;
	function_bytes = 0;
	function_error = 0;
	is_file_taken = false;
	test_now.ns = 100 * SECOND;
	if (temp_tree_make(top, sizeof(top)) != 0)
		return -1;
	open_output();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ky_agent_output_close(&output);
	return temp_tree_remove(top);
}

/* A chunk of CHUNK_BYTES that begins as ours do. */
static int put(uint64_t ns, bool is_start, bool is_end)
{
	static uint8_t bytes[CHUNK_BYTES] = {'T', 'R', 'C', 0, 1};
	struct ky_chunk chunk = {.bytes = bytes,
				 .byte_count = sizeof(bytes),
				 .first_ns = ns,
				 .last_ns = ns,
				 .last_ticks = ns + 1,
				 .last_ties = 2,
				 .is_segment_start = is_start,
				 .is_segment_end = is_end};

	return ky_agent_output_chunk(&output, &chunk);
}

static void output__store_is_opened_by_the_first_chunk(void **state)
{
	(void)state;
	assert_false(ky_agent_output_has_begun(&output));
	ky_agent_output_close(&output);
	assert_int_equal(rmdir(top), 0); /* still empty */
	assert_int_equal(mkdir(top, 0700), 0);
	open_output();
	assert_int_equal(put(SECOND, true, true), 0);
	assert_true(ky_agent_output_has_begun(&output));
	assert_int_equal(output.bytes_stored, CHUNK_BYTES);
	assert_int_equal(output.segments_sealed, 1);
	(void)snprintf(path, sizeof(path), "%s/svc/" RUN "/000000.trc", top);
	assert_int_equal(access(path, F_OK), 0);
}

static void output__chunks_and_place_are_noted_in_the_ring(void **state)
{
	const struct ky_ring_drained *drained = &ring.side.drained;

	(void)state;
	for (uint64_t i = 0; i <= KY_DRAINED_CHUNKS; i++)
		assert_int_equal(put((i + 1) * SECOND, i == 0, false), 0);
	assert_int_equal(drained->chunk_claim_index, KY_DRAINED_CHUNKS + 1);
	assert_int_equal(drained->chunks[0].last_ns, (KY_DRAINED_CHUNKS + 1) * SECOND);
	assert_int_equal(drained->chunks[0].last_ticks, (KY_DRAINED_CHUNKS + 1) * SECOND + 1);
	assert_int_equal(drained->chunks[0].last_ties, 2);
	assert_int_equal(drained->chunks[1].last_ns, 2 * SECOND);
	(void)snprintf(path, sizeof(path), "%s/svc/" RUN, top);
	assert_int_equal(drained->path_bytes, strlen(path));
	assert_memory_equal(drained->path, path, strlen(path));
}

static void output__ring_without_a_side_area_is_written_all_the_same(void **state)
{
	(void)state;
	ring.header.side_bytes = 0;
	open_output();
	assert_int_equal(put(SECOND, true, false), 0);
	assert_int_equal(ring.side.drained.chunk_claim_index, 0);
	assert_int_equal(ring.side.drained.path_bytes, 0);
}

static void output__store_that_does_not_open_is_tried_again_after_a_second(void **state)
{
	(void)state;
	(void)snprintf(path, sizeof(path), "%s/file", top);
	fclose(fopen(path, "w"));
	options.output.directory = path; /* no directory, for any user */
	assert_int_equal(put(SECOND, true, false), -ENOTDIR);
	assert_int_equal(event_count, 1);
	assert_int_equal(last.kind, KY_AGENT_STORE_FAILED);
	assert_int_equal(last.error, -ENOTDIR);
	assert_int_equal(last.pid, 42);
	test_now.ns += SECOND - 1;
	assert_int_equal(put(SECOND, true, false), -EAGAIN);
	assert_int_equal(event_count, 1);
	test_now.ns += 1;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(put(SECOND, true, false), 0);
	assert_int_equal(event_count, 1);
}

static void output__segment_ends_by_age_and_by_bytes(void **state)
{
	(void)state;
	options.output.segment_bytes_max = 2 * CHUNK_BYTES;
	assert_false(ky_agent_output_wants_seal(&output, 1000 * SECOND));
	assert_int_equal(put(SECOND, true, false), 0);
	assert_false(ky_agent_output_wants_seal(&output, 60 * SECOND));
	assert_true(ky_agent_output_wants_seal(&output, 61 * SECOND));
	assert_int_equal(put(SECOND, false, false), 0);
	assert_true(ky_agent_output_wants_seal(&output, SECOND));
	assert_int_equal(put(SECOND, false, true), 0);
	assert_false(ky_agent_output_wants_seal(&output, 1000 * SECOND));
}

static void output__further_process_has_a_file_of_its_own(void **state)
{
	char name[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/one.trc", top);
	options.output.file = path;
	assert_int_equal(put(SECOND, true, false), 0);
	assert_string_equal(output.path, path);
	assert_true(is_file_taken);
	ky_agent_output_close(&output);
	open_output();
	assert_int_equal(put(SECOND, true, false), 0);
	(void)snprintf(name, sizeof(name), "%s/one.42.trc", top);
	assert_string_equal(output.path, name);
}

static void output__full_file_is_an_event_of_its_own(void **state)
{
	(void)state;
	(void)snprintf(path, sizeof(path), "%s/one.trc", top);
	options.output.file = path;
	options.output.total_bytes_max = CHUNK_BYTES;
	assert_int_equal(put(SECOND, true, false), KYMO_E_LIMIT);
	assert_int_equal(last.kind, KY_AGENT_STORE_FULL);
	assert_string_equal(last.path, path);
}

static void output__function_gets_the_bytes_and_its_error_is_an_event(void **state)
{
	(void)state;
	options.output.write = on_bytes;
	assert_int_equal(put(SECOND, true, false), 0);
	assert_int_equal(function_bytes, CHUNK_BYTES);
	assert_int_equal(output.bytes_stored, CHUNK_BYTES);
	assert_int_equal(ring.side.drained.chunk_claim_index, 0);
	assert_false(ky_agent_output_wants_seal(&output, 1000 * SECOND));
	function_error = -EPIPE;
	assert_int_equal(put(SECOND, false, false), -EPIPE);
	assert_int_equal(last.kind, KY_AGENT_WRITE_FAILED);
	assert_int_equal(last.error, -EPIPE);
}

/* ---- a queue ---- */

static struct queue {
	ky_chunk_fn sink;
	void *ctx;
	struct ky_chunk chunk;
} queue;

static int queue_open(struct ky_background **out, ky_chunk_fn sink, void *ctx, size_t bytes_max)
{
	(void)bytes_max;
	queue = (struct queue){.sink = sink, .ctx = ctx};
	*out = queue_count++ ? (struct ky_background *)(void *)&queue : NULL;
	return *out ? 0 : -EAGAIN;
}

static void queue_close(struct ky_background *background)
{
	assert_ptr_equal(background, &queue);
}

static int queue_chunk(void *ctx, const struct ky_chunk *chunk)
{
	assert_ptr_equal(ctx, &queue);
	queue.chunk = *chunk;
	return 0;
}

static void queue_wait(struct ky_background *background)
{
	assert_ptr_equal(background, &queue);
	assert_int_equal(queue.sink(queue.ctx, &queue.chunk), 0);
}

static bool queue_take_loss(struct ky_background *background, struct ky_chunk_loss *out, int *error)
{
	assert_ptr_equal(background, &queue);
	*out = (struct ky_chunk_loss){.chunk_count = 3};
	*error = -ENOSPC;
	return true;
}

static void output__queue_writes_later_and_its_loss_is_an_event(void **state)
{
	static const struct ky_background_functions functions = {
		queue_open, queue_close, queue_chunk, queue_wait, queue_take_loss};
	struct ky_chunk_loss loss;

	(void)state;
	options.output.queue = &functions;
	queue_count = 0;
	assert_int_equal(put(SECOND, true, false), -EAGAIN); /* no thread */
	assert_false(ky_agent_output_has_begun(&output));
	assert_false(ky_agent_output_take_loss(&output, &loss));
	test_now.ns += SECOND;
	assert_int_equal(put(SECOND, true, false), 0);
	assert_int_equal(output.bytes_stored, 0);
	ky_agent_output_wait(&output);
	assert_int_equal(output.bytes_stored, CHUNK_BYTES);
	assert_int_equal(event_count, 1);
	assert_true(ky_agent_output_take_loss(&output, &loss));
	assert_int_equal(loss.chunk_count, 3);
	assert_int_equal(last.kind, KY_AGENT_WRITE_FAILED);
	assert_int_equal(last.error, -ENOSPC);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	static const struct CMUnitTest tests[] = {
		CASE(output__store_is_opened_by_the_first_chunk),
		CASE(output__chunks_and_place_are_noted_in_the_ring),
		CASE(output__ring_without_a_side_area_is_written_all_the_same),
		CASE(output__store_that_does_not_open_is_tried_again_after_a_second),
		CASE(output__segment_ends_by_age_and_by_bytes),
		CASE(output__further_process_has_a_file_of_its_own),
		CASE(output__full_file_is_an_event_of_its_own),
		CASE(output__function_gets_the_bytes_and_its_error_is_an_event),
		CASE(output__queue_writes_later_and_its_loss_is_an_event),
	};

	return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
