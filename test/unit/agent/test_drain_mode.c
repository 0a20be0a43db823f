/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From flight to a stream and back over a made ring: what is written, how often, and when. */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"
#include "../../lib/trace_tally.h"

#include <agent/drain_mode.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define POLLS 10u
#define FIRST_NS UINT64_C(1000000000)

static const struct ky_drain_mode_pace at_once = {1000 * MS, 100 * MS, 100 * MS, false};
static struct test_ring ring;
static struct test_writer writer;
static struct ky_agent_options options;
static struct ky_agent_output output;
static struct ky_drain_mode mode;
static bool is_file_taken;
static uint8_t *bytes;
static size_t byte_count;
static uint64_t emitted_ns;

static int on_bytes(void *ctx, const uint8_t *more, size_t count)
{
	(void)ctx;
	bytes = realloc(bytes, byte_count + count);
	assert_non_null(bytes);
	memcpy(bytes + byte_count, more, count);
	byte_count += count;
	return 0;
}

static void on_event(void *ctx, const struct ky_agent_event *event)
{
	(void)ctx;
	fail_msg("event %d, error %d", (int)event->kind, event->error);
}

static int set_up(void **state)
{
	const struct ky_ring_access access = {.fd = -1};

	(void)state;
	test_ticks_base = 0; /* the ring is drained by this machine's counter */
	test_ring_open(&ring, 64);
	emitted_ns = FIRST_NS;
	test_writer_open(&writer, &ring, 501, emitted_ns);
	options = (struct ky_agent_options){
		.output = {.compressor = ky_compressor_none, .write = on_bytes}, .event = on_event};
	ky_agent_output_init(&output, &options, ring.header, &access, &is_file_taken);
	mode = (struct ky_drain_mode){.options = &options,
				      .output = &output,
				      .image = ring.image,
				      .image_bytes = ring.image_bytes,
				      .source = "test"};
	return ky_drain_mode_open(&mode);
}

static int tear_down(void **state)
{
	(void)state;
	ky_agent_output_close(&output);
	ky_drain_mode_close(&mode);
	test_ring_close(&ring);
	free(bytes);
	bytes = NULL;
	byte_count = 0;
	return 0;
}

static void emit_polls(void)
{
	for (uint32_t i = 0; i < POLLS; i++) {
		emitted_ns += MS;
		test_poll(&writer, emitted_ns, 7, 0);
		test_poll_end(&writer, emitted_ns + MS / 2, 0);
	}
}

static void step(void)
{
	uint64_t again_ns;

	mode.pace.due_ns = 0;
	assert_int_equal(ky_drain_mode_step(&mode, mode.pace.found_ns, &at_once, &again_ns), 0);
}

static struct trace_tally written(void)
{
	struct trace_tally tally = {0};

	ky_agent_output_close(&output);
	if (byte_count > 0)
		trace_tally_memory(&tally, bytes, byte_count);
	return tally;
}

static uint64_t records_read(void)
{
	struct ky_drain_stats stats;
	uint64_t age_ns;

	ky_drain_mode_totals(&mode, &stats, &age_ns);
	return stats.records_read;
}

static void drain_mode__flight_writes_nothing_and_a_stream_all(void **state)
{
	(void)state;
	emit_polls();
	step();
	assert_int_equal(byte_count, 0);
	assert_null(ky_drain_mode_stream(&mode));
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	assert_int_equal(ky_drain_mode_set(&mode, false), 0);
	assert_non_null(ky_drain_mode_stream(&mode));
	step();
	assert_int_equal(ky_drain_mode_finish(&mode, true, false), 0);
	assert_int_equal(written().polls, POLLS);
}

static void drain_mode__resumed_stream_has_each_record_once(void **state)
{
	struct trace_tally tally;

	(void)state;
	for (int round = 0; round < 3; round++) {
		emit_polls();
		assert_int_equal(ky_drain_mode_set(&mode, false), 1);
		step();
		assert_int_equal(ky_drain_mode_set(&mode, true), 1);
		assert_null(ky_drain_mode_stream(&mode));
		emit_polls();
		step();
	}
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	assert_int_equal(ky_drain_mode_finish(&mode, true, false), 0);
	tally = written();
	assert_int_equal(tally.polls, 6 * POLLS);
	assert_int_equal(tally.ends, 6 * POLLS);
	assert_int_equal(tally.lost, 0);
}

static void drain_mode__leaving_a_stream_seals_what_was_published(void **state)
{
	struct trace_tally tally = {0};

	(void)state;
	emit_polls();
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	assert_int_equal(ky_drain_mode_set(&mode, true), 1);
	assert_false(output.has_segment);
	trace_tally_memory(&tally, bytes, byte_count);
	assert_int_equal(tally.polls, POLLS);
}

static void drain_mode__last_cut_begins_where_the_stream_was_left(void **state)
{
	struct ky_drain_stats stats;
	uint64_t age_ns;

	(void)state;
	mode.has_last_cut = true;
	emit_polls();
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	step();
	assert_int_equal(ky_drain_mode_set(&mode, true), 1);
	emit_polls();
	assert_int_equal(ky_drain_mode_finish(&mode, true, false), 0);
	ky_drain_mode_totals(&mode, &stats, &age_ns);
	assert_int_equal(age_ns, 0);
	assert_false(mode.is_ring_needed);
	assert_int_equal(written().polls, 2 * POLLS);
}

static void drain_mode__last_cut_of_a_flight_has_its_age(void **state)
{
	struct ky_drain_stats stats;
	uint64_t age_ns;

	(void)state;
	mode.has_last_cut = true;
	emit_polls();
	assert_int_equal(ky_drain_mode_finish(&mode, true, false), 0);
	ky_drain_mode_totals(&mode, &stats, &age_ns);
	assert_true(age_ns > 0);
	assert_int_equal(written().polls, POLLS);
}

static void drain_mode__without_a_last_cut_a_flight_stays_in_its_ring(void **state)
{
	(void)state;
	emit_polls();
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	step();
	assert_int_equal(ky_drain_mode_set(&mode, true), 1);
	emit_polls();
	assert_int_equal(ky_drain_mode_finish(&mode, true, false), 0);
	assert_int_equal(written().polls, POLLS);
}

static void drain_mode__rules_judge_by_the_stream_or_by_a_drain_that_observes(void **state)
{
	struct ky_drain *events;

	(void)state;
	assert_int_equal(ky_drain_mode_events(&mode, false, &events), 0);
	assert_null(events);
	assert_int_equal(ky_drain_mode_events(&mode, true, &events), 0);
	assert_non_null(events);
	assert_ptr_equal(events, mode.observer);
	emit_polls();
	step();
	assert_int_equal(byte_count, 0);
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	assert_int_equal(ky_drain_mode_events(&mode, true, &events), 0);
	assert_ptr_equal(events, mode.stream);
	assert_null(mode.observer);
}

static void drain_mode__steps_are_due_by_their_pace_and_early_with_slack(void **state)
{
	struct ky_drain_mode_pace pace = at_once;
	uint64_t begin_ns, again_ns;

	(void)state;
	assert_int_equal(ky_drain_mode_set(&mode, false), 1);
	begin_ns = mode.pace.found_ns;
	assert_int_equal(ky_drain_mode_step(&mode, begin_ns, &pace, &again_ns), 0);
	assert_int_equal(again_ns, begin_ns + 20 * MS); /* of a ring just found */
	emit_polls();
	pace.check_ns = 2 * MS;
	assert_int_equal(ky_drain_mode_step(&mode, begin_ns + 10 * MS, &pace, &again_ns), 0);
	assert_int_equal(records_read(), 0);
	assert_int_equal(again_ns, begin_ns + 12 * MS); /* a check */
	assert_int_equal(ky_drain_mode_step(&mode, begin_ns + 18 * MS, &pace, &again_ns), 0);
	assert_int_equal(records_read(), 0);
	pace.has_slack = true;
	assert_int_equal(ky_drain_mode_step(&mode, begin_ns + 18 * MS, &pace, &again_ns), 0);
	assert_true(records_read() > 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	static const struct CMUnitTest tests[] = {
		CASE(drain_mode__flight_writes_nothing_and_a_stream_all),
		CASE(drain_mode__resumed_stream_has_each_record_once),
		CASE(drain_mode__leaving_a_stream_seals_what_was_published),
		CASE(drain_mode__last_cut_begins_where_the_stream_was_left),
		CASE(drain_mode__last_cut_of_a_flight_has_its_age),
		CASE(drain_mode__without_a_last_cut_a_flight_stays_in_its_ring),
		CASE(drain_mode__rules_judge_by_the_stream_or_by_a_drain_that_observes),
		CASE(drain_mode__steps_are_due_by_their_pace_and_early_with_slack),
	};

	return cmocka_run_group_tests_name("drain_mode", tests, NULL, NULL);
}
