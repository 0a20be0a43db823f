/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* flight.c - a flight recorder in a program of our own: nothing is written until something happens.
 *
 *   flight [DIRECTORY]          leaves its dumps below DIRECTORY (default ./kymo-traces)
 *   flight DIRECTORY crash      ends by a fatal signal; `kymo recover flight` then has the trace
 *
 * A rule makes a dump by itself while a poll takes too long; the program asks for two more when its
 * own count of errors tells it to, a file and one into memory. Prints one line for each.
 */
#include <kymo/counter.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void sleep_ms(long milliseconds)
{
	struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

static void serve(uint64_t task, uint32_t name)
{
	kymo_poll_begin(task, name, 0);
	kymo_poll_end(0);
}

/* Waits inside a poll: what a task must never do, and does. Here it is for the rule's dump, which
 * the library's thread makes. */
static int serve_stuck(uint64_t task, uint32_t name)
{
	struct kymo_recorder_status status = {0};

	kymo_poll_begin(task, name, 0);
	for (int i = 0; i < 1000 && !status.dumps_made; i++) {
		sleep_ms(10);
		status.size = sizeof(status);
		kymo_recorder_status(&status);
	}
	kymo_poll_end(0);
	printf("the rule fired %u times and made %u dumps\n", (unsigned)status.triggers_fired,
	       (unsigned)status.dumps_made);
	return status.dumps_made ? 0 : 1;
}

static int dump_because(const char *label)
{
	const struct kymo_key_value facts[] = {{"shop.region", "eu-1"}, {"shop.release", "7"}};
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result = {0};
	int err;

	options.reason = "errors";
	options.label = label;
	options.metadata = facts;
	options.metadata_count = sizeof(facts) / sizeof(facts[0]);
	options.last_ns = 30000000000u;
	options.flags = KYMO_DUMP_WAIT; /* here, at the end; a server would pass `done` instead */
	result.size = sizeof(result);
	err = kymo_recorder_dump(&options, &result);
	if (err)
		fprintf(stderr, "flight: no dump: %s\n", kymo_error_text(err));
	else
		printf("%s: %u events, the last %u ms\n", result.path,
		       (unsigned)result.events_written, (unsigned)(result.age_ns / 1000000));
	return err ? 1 : 0;
}

/* Where there is no disk: to a socket, a bucket, another process. */
static int send_somewhere(void *ctx, const uint8_t *bytes, size_t count)
{
	size_t *total = ctx;

	(void)bytes;
	*total += count;
	return 0;
}

static int dump_into_memory(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	size_t total = 0;
	int err;

	options.write = send_somewhere;
	options.write_ctx = &total;
	options.flags = KYMO_DUMP_WAIT;
	err = kymo_recorder_dump(&options, NULL);
	printf("into memory: %u bytes\n", (unsigned)total);
	return err || !total ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	uint32_t name, errors;
	char errbuf[256] = "";
	int failed, err;

	options.service = "flight";
	options.dump_directory = argc > 1 ? argv[1] : NULL;
	options.age_min_ns = 60000000000u; /* each dump says whether ring_bytes allowed for it */
	options.triggers = "poll>100ms name=\"stuck poll\"";
	options.flags = KYMO_RECORDER_FATAL_SIGNALS; /* a crash leaves its record in the ring */
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	err = kymo_recorder_open(&recorder, &options);
	if (err) {
		fprintf(stderr, "flight: %s\n", errbuf[0] ? errbuf : kymo_error_text(err));
		return 1;
	}
	errors = kymo_counter_register("http.errors", KYMO_COUNTER_ERRORS);
	name = kymo_name_intern("http::serve", 11, 0, 0, 0);
	kymo_worker_begin(100, 0, 7, 1);
	for (int i = 0; i < 1000; i++) {
		serve(1, name);
		kymo_counter_add(errors, i % 100 == 0);
	}
	if (argc > 2 && strcmp(argv[2], "crash") == 0) {
		kymo_poll_begin(1, name, 0);
		abort();
	}
	failed = serve_stuck(1, name);
	if (kymo_counter_value(errors) >= 10)
		failed |= dump_because("ten requests failed") | dump_into_memory();
	kymo_worker_end();
	err = kymo_recorder_close(recorder);
	if (err)
		fprintf(stderr, "flight: %s\n", kymo_error_text(err));
	return failed || err ? 1 : 0;
}
