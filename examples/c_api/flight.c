/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* flight.c - flight mode from inside: a rule that dumps, a dump by hand, one into memory, a crash.
 *
 *   flight [DIRECTORY]            dumps go below DIRECTORY (default ./kymo-traces)
 *   flight DIRECTORY crash        ends by SIGSEGV; `kymo recover` makes the trace
 */
#include <errno.h>
#include <inttypes.h>
#include <kymo/counter.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLLS 2000

struct memory {
	uint64_t bytes;
};

static void sleep_ms(long milliseconds)
{
	struct timespec nap = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	nanosleep(&nap, NULL);
}

static void serve(uint32_t name, uint32_t jobs)
{
	kymo_worker_begin(100, 0, 7, 1);
	for (unsigned i = 0; i < POLLS; i++) {
		kymo_poll_begin(1, name, KYMO_QUEUE_UNKNOWN);
		kymo_counter_set(jobs, i % 16);
		if (i == POLLS / 2)
			sleep_ms(400); /* the blocking call that the rule is to catch */
		kymo_wake(1, 0, KYMO_WAKE_BY_VALUE);
		kymo_poll_end(0);
	}
	kymo_worker_end();
}

/* Whatever takes bytes: a socket, an upload. It runs on the library's thread. */
static int count_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	struct memory *memory = ctx;

	(void)bytes;
	memory->bytes += count;
	return 0;
}

static int dump_by_hand(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result = {.size = sizeof(result)};
	struct memory memory = {0};
	int err;

	options.reason = "deploy";
	options.label = "before release 7";
	options.last_ns = 10 * UINT64_C(1000000000);
	options.flags = KYMO_DUMP_WAIT; /* without it: options.done is called */
	err = kymo_recorder_dump(&options, &result);
	if (err)
		return err;
	printf("dumped %" PRIu64 " events to %s\n", result.events_written, result.path);
	options.write = count_bytes;
	options.write_ctx = &memory;
	err = kymo_recorder_dump(&options, &result);
	if (err)
		return err;
	printf("dumped %" PRIu64 " events into memory\n", result.events_written);
	if (memory.bytes != result.bytes_written) {
		fprintf(stderr, "flight: %" PRIu64 " of %" PRIu64 " bytes came\n", memory.bytes,
			result.bytes_written);
		return -EIO;
	}
	return 0;
}

static int fly(bool is_crashing)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	uint32_t name = kymo_name_intern("report::render", strlen("report::render"), 0, 0, 0);
	uint32_t jobs = kymo_counter_register("jobs waiting", 0);
	int err;

	kymo_runtime_describe(7, "loop", KYMO_RUNTIME_CURRENT_THREAD, 0);
	serve(name, jobs);
	if (is_crashing)
		*(volatile int *)16 = 0;
	err = dump_by_hand();
	if (err == 0)
		err = kymo_recorder_status(&status);
	if (err == 0)
		printf("rules made %" PRIu64 " of %" PRIu64 " dumps\n", status.triggers_fired,
		       status.dumps_made);
	return err;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char errbuf[256] = "";
	int err;

	options.service = "flight";
	options.dump_directory = argc > 1 ? argv[1] : NULL;
	options.triggers = "poll>100ms cooldown=10m";
	options.flags = KYMO_RECORDER_FATAL_SIGNALS;
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	err = kymo_recorder_open(&recorder, &options);
	if (err) {
		fprintf(stderr, "flight: %s\n", errbuf[0] ? errbuf : kymo_error_text(err));
		return 1;
	}
	err = fly(argc > 2 && strcmp(argv[2], "crash") == 0);
	kymo_recorder_close(recorder);
	if (err)
		fprintf(stderr, "flight: %s\n", kymo_error_text(err));
	return err ? 1 : 0;
}
