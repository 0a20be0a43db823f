/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_read - CPU time and memory of reading a trace: decode, columns, pairing, wake to poll.
 *
 *   bench_read --write FILE [EVENTS]   makes a trace of so many events (10 M)
 *   bench_read FILE                    reads it once; one JSON object says what that took
 *
 * The trace is made with the encoder and cut into chunks as the drain cuts them: eight workers,
 * 20,000 tasks, per three polls one wake in another task's poll and one in the driver, a park now
 * and then. A process of its own reads it, so that its peak holds neither the making nor the bytes.
 */
#include "making.h"

#include <base/byte_source.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <read/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 8u
#define TASKS 20000u

/* One moment: some worker's open poll ends or a new one starts. */
static void step(struct making *making, void *context)
{
	uint64_t *open = context;
	uint64_t random = next_random(making);
	uint32_t worker = random % WORKERS;
	uint64_t task = 1 + (random >> 8) % TASKS;

	making->time_ns += 20 + (random >> 32) % 200;
	if (open[worker] == 0) {
		if (random >> 60 == 0) {
			add_park(making, worker);
			making->time_ns += 2000;
			add_unpark(making, worker);
		}
		ky_trc_enc_poll_start(&making->enc, making->time_ns, worker, 0, task,
				      making->names[task % 16]);
		open[worker] = task;
		count_event(making);
		return;
	}
	if ((random >> 40) % 3 < 2)
		add_wake(making, (random >> 40) % 3 ? open[worker] : 0, task, worker,
			 (random >> 40) % 3 ? 2 : 3);
	making->time_ns += 10;
	ky_trc_enc_poll_end(&making->enc, making->time_ns, worker);
	open[worker] = 0;
	count_event(making);
}

static int64_t file_read(void *ctx, uint8_t *out, size_t capacity)
{
	ssize_t count = read(*(int *)ctx, out, capacity);

	return count < 0 ? -errno : count;
}

struct result {
	uint64_t events, polls, delays, trace_bytes, raw_bytes;
	double cpu_s;
	int64_t peak_kib;
};

static int measure(const char *path, struct result *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct ky_byte_source source = {.read = file_read, .ctx = &fd, .name = path};
	struct timespec before, after;
	struct ky_trace *trace;
	struct rusage usage;
	int result;

	if (fd < 0)
		return -errno;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	result = ky_trace_open(&trace, &source, 1, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	close(fd);
	if (result < 0)
		return result;
	getrusage(RUSAGE_SELF, &usage);
	out->events = trace->event_count;
	out->polls = trace->polls;
	out->delays = trace->delays_measured;
	out->raw_bytes = trace->raw_bytes;
	out->trace_bytes = trace->pages.bytes_used;
	out->cpu_s = (double)(after.tv_sec - before.tv_sec) +
		     (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
	out->peak_kib = usage.ru_maxrss;
	ky_trace_close(trace);
	return 0;
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_read: %s: %s\n", what, why);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t open[WORKERS] = {0};
	bool is_writing = argc > 2 && strcmp(argv[1], "--write") == 0;
	uint64_t events = argc > 3 ? strtoull(argv[3], NULL, 10) : 10000000;
	struct result done = {0};
	int result;

	if (argc < 2 || argc > (is_writing ? 4 : 2) || !events)
		return fail("usage", "bench_read --write FILE [EVENTS], or bench_read FILE");
	if (is_writing) {
		result = make_trace(argv[2], events, step, open);
		return result < 0 ? fail(argv[2], kymo_error_text(result)) : 0;
	}
	result = measure(argv[1], &done);
	if (result < 0)
		return fail(argv[1], kymo_error_text(result));
	printf("{\"events\":%" PRIu64 ",\"polls\":%" PRIu64 ",\"delays\":%" PRIu64
	       ",\"raw_bytes\":%" PRIu64 ",\"column_bytes\":%" PRIu64
	       ",\"cpu_s\":%.6f,\"peak_bytes\":%" PRId64 "}\n",
	       done.events, done.polls, done.delays, done.raw_bytes, done.trace_bytes, done.cpu_s,
	       done.peak_kib * 1024);
	return 0;
}
