/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From flight to a stream and back: every event is written once, or counted as lost. */
#include "../../lib/cmocka_all.h"
#include "../../lib/trace_tally.h"

#include <ftw.h>
#include <kymo/kymo.h>
#include <record/emit/emit_engine.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char directory[64];
static struct kymo_recorder *recorder;
static struct trace_tally reported;

static int make_directory(void **state)
{
	(void)state;
	memset(&reported, 0, sizeof(reported));
	snprintf(directory, sizeof(directory), "/tmp/kymo-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *ftw)
{
	(void)about;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_directory(void **state)
{
	(void)state;
	return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int tally_one(const char *path, const struct stat *about, int type, struct FTW *ftw)
{
	size_t length = strlen(path);

	(void)about;
	(void)ftw;
	if (type == FTW_F && length > 4 && strcmp(path + length - 4, ".trc") == 0)
		trace_tally_file(&reported, path);
	return 0;
}

static void open_ring(uint64_t ring_bytes)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.service = "switching";
	options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.ring_bytes = ring_bytes;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
}

static void close_and_read(void)
{
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(nftw(directory, tally_one, 8, FTW_PHYS), 0);
}

static void emit_polls(int count)
{
	for (int i = 0; i < count; i++) {
		kymo_poll_begin(5, 0, 1);
		kymo_poll_end(0);
	}
}

static struct kymo_recorder_status status_now(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	assert_int_equal(kymo_recorder_status(&status), 0);
	return status;
}

static void stream_until_written(void)
{
	uint64_t written = status_now().bytes_written;

	assert_int_equal(kymo_recorder_mode(KYMO_MODE_STREAM), 0);
	while (status_now().bytes_written == written)
		sched_yield();
}

static void fly_until_sealed(void)
{
	uint64_t sealed = status_now().segments_sealed;

	assert_int_equal(kymo_recorder_mode(KYMO_MODE_FLIGHT), 0);
	while (status_now().segments_sealed == sealed)
		sched_yield();
}

static void stream__resumed_writes_each_event_once(void **state)
{
	(void)state;
	open_ring(0);
	for (int i = 0; i < 3; i++) {
		emit_polls(100);
		stream_until_written();
		fly_until_sealed();
		emit_polls(100);
	}
	stream_until_written();
	close_and_read();
	assert_int_equal(reported.polls, 600);
	assert_int_equal(reported.ends, 600);
	assert_int_equal(reported.lost, 0);
}

static void flight__after_a_stream_is_not_written_at_the_end(void **state)
{
	(void)state;
	open_ring(0);
	emit_polls(100);
	stream_until_written();
	fly_until_sealed();
	emit_polls(100);
	close_and_read();
	assert_int_equal(reported.polls, 100);
	assert_int_equal(reported.lost, 0);
}

/* A poll is two records; those that the recorder writes for itself are few. */
static void assert_all_counted(uint64_t polls)
{
	assert_in_range(reported.polls + reported.ends + reported.lost, 2 * polls, 2 * polls + 100);
}

static void stream__counts_what_the_ring_overwrote_in_flight(void **state)
{
	(void)state;
	open_ring(128u << 10);
	emit_polls(100);
	stream_until_written();
	for (int i = 0; i < 2; i++) {
		fly_until_sealed();
		emit_polls(50000);
		stream_until_written();
	}
	close_and_read();
	assert_in_range(reported.polls, 101, 20000);
	assert_all_counted(100100);
}

static void stream__after_a_flight_counts_overwritten_events(void **state)
{
	(void)state;
	open_ring(128u << 10);
	emit_polls(50000);
	stream_until_written();
	close_and_read();
	assert_in_range(reported.polls, 1, 20000);
	assert_all_counted(50000);
}

/* The poll is open all the time. After the loss it is in the list of open polls, or, where the
 * segment has begun before, written once with its true start. */
static void stream__has_a_poll_that_is_open_during_a_flight(void **state)
{
	(void)state;
	open_ring(128u << 10);
	emit_polls(100);
	stream_until_written();
	fly_until_sealed();
	kymo_poll_begin(77, 0, 1);
	emit_polls(50000); /* nested */
	stream_until_written();
	kymo_poll_end(0);
	close_and_read();
	assert_in_range(reported.polls, 100, 101);
	assert_true(reported.polls == 101 || reported.open_polls > 0);
	assert_int_equal(reported.ends, 101);
}

/* A `kymo set` is in the middle of several, or died there: no reader may take them for whole. */
static void mode__leaves_half_written_settings_half_written(void **state)
{
	struct ky_ring_settings *words;

	(void)state;
	open_ring(0);
	emit_polls(1);
	words = &ky_engine.ring->control->settings;
	atomic_store(&words->generation, 7);
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_STREAM), 0);
	assert_int_equal(atomic_load(&words->generation) % 2, 1);
	assert_int_equal(atomic_load(&words->mode), KYMO_MODE_STREAM);
	atomic_store(&words->generation, 10);
	assert_int_equal(kymo_recorder_mode(KYMO_MODE_FLIGHT), 0);
	assert_int_equal(atomic_load(&words->generation), 12);
	close_and_read();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stream__resumed_writes_each_event_once),
		CASE(flight__after_a_stream_is_not_written_at_the_end),
		CASE(stream__counts_what_the_ring_overwrote_in_flight),
		CASE(stream__after_a_flight_counts_overwritten_events),
		CASE(stream__has_a_poll_that_is_open_during_a_flight),
		CASE(mode__leaves_half_written_settings_half_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
