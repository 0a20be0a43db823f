/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the drain costs per event: a 32 MiB ring of an echo-like load (wake, poll, poll end,
 * now and then a park) is copied, merged and encoded, then the same with zstd level 1. In
 * steps of 2 MiB as a live drain sees it, and once the whole ring at a stroke as a dump does.
 * CPU time of this thread.
 *
 * --json: one object a line, as bench/README.md says. */
#include "../../test/lib/ring_builder.h"

#include <drain/drain.h>
#include <ship/stage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 4096u
#define WRITERS 4u
#define TASKS 200u
#define STEP_SLOTS 256u
#define ROUNDS 7
#define START_NS UINT64_C(2000000000)

struct sink {
	struct ky_stage stage;
	bool is_compressing;
	uint64_t raw_bytes, stored_bytes, events;
};

struct result {
	double ns_per_event, bytes_per_event;
	uint64_t events, lost;
};

static int count_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	struct sink *sink = ctx;

	(void)bytes;
	sink->stored_bytes += count;
	return 0;
}

static int take(void *ctx, const struct ky_chunk *chunk)
{
	struct sink *sink = ctx;

	sink->raw_bytes += chunk->byte_count;
	sink->events += chunk->event_count;
	if (!sink->is_compressing)
		return 0;
	return sink->stage.write(sink->stage.stage, chunk->bytes, chunk->byte_count, count_bytes,
				 sink);
}

/* Times and ids as noisy as a real service's: the compressor must not live on a pattern of ours. */
static uint32_t noise(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

struct load {
	struct test_ring ring;
	struct test_writer writers[WRITERS];
	uint64_t at[WRITERS];
	uint32_t name;
};

static void begin(struct load *load)
{
	test_ring_open(&load->ring, SLOTS);
	load->name = test_ring_name(&load->ring, "echo::handle_connection::{{closure}}", 0, 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		test_writer_open(&load->writers[i], &load->ring, 500 + i, START_NS);
		test_worker(&load->writers[i], START_NS, 10 + i, 0x7000, 0x100 + i);
		load->at[i] = START_NS + 1000;
	}
}

/* Records until so many sub-buffers are handed out; the next anchor lies 2 ms behind. */
static void fill(struct load *load, uint64_t hand)
{
	uint64_t *at = load->at;

	while (atomic_load(&load->ring.header->hand) < hand) {
		uint32_t i = noise() % WRITERS;
		struct test_writer *w = &load->writers[i];
		uint64_t task = 100 + noise() % TASKS;

		/* No thread runs far ahead of the others: they share one time. */
		if (at[i] > at[(i + 1) % WRITERS] + 1000000)
			continue;
		test_emit(w, at[i] += 300 + noise() % 400, KYMO_RECORD_WAKE, 0, 1,
			  kymo_task_word(task, 0), 0, 0);
		test_poll(w, at[i] += 200 + noise() % 1000, task, load->name);
		test_poll_end(w, at[i] += 1500 + noise() % 9000, 0);
		if (noise() % 8)
			continue;
		test_emit(w, at[i] += 300, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
		test_emit(w, at[i] += 2000 + noise() % 60000, KYMO_RECORD_UNPARK, 2, 0, 0, 0, 0);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		load->ring.now_ns = at[i] > load->ring.now_ns ? at[i] : load->ring.now_ns;
	for (uint32_t i = 0; i < WRITERS; i++)
		at[i] = load->ring.now_ns + 2000000;
	load->ring.now_ns += 1900000;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void must(int err)
{
	if (err) {
		fprintf(stderr, "bench_drain: error %d\n", err);
		exit(1);
	}
}

/* step_slots 0: the whole ring at a stroke. */
static struct result run(const struct ky_stage_factory *stage, uint32_t step_slots)
{
	struct sink sink = {.is_compressing = stage != NULL};
	struct load load = {.name = 0};
	struct ky_drain_options options = {.anchor = test_ring_anchor,
					   .anchor_ctx = &load.ring,
					   .chunk = take,
					   .chunk_ctx = &sink,
					   .host = "bench"};
	struct ky_drain_stats stats;
	struct ky_drain *drain;
	struct result result;
	uint64_t spent = 0, from;

	begin(&load);
	options.image = load.ring.image;
	options.image_bytes = load.ring.image_bytes;
	must(stage ? stage->open(stage, &sink.stage) : 0);
	must(ky_drain_open(&drain, &options));
	for (uint32_t at = step_slots; step_slots && at < SLOTS; at += step_slots) {
		fill(&load, at);
		from = cpu_ns();
		must(ky_drain_step(drain, 0));
		spent += cpu_ns() - from;
	}
	fill(&load, SLOTS);
	from = cpu_ns();
	must(ky_drain_step(drain, KY_DRAIN_FINAL));
	must(ky_drain_seal(drain));
	if (stage)
		must(sink.stage.finish(sink.stage.stage, count_bytes, &sink));
	spent += cpu_ns() - from;
	ky_drain_stats(drain, &stats);
	if (!stage)
		sink.stored_bytes = sink.raw_bytes;
	result = (struct result){(double)spent / (double)sink.events,
				 (double)sink.stored_bytes / (double)sink.events, sink.events,
				 stats.records_lost + stats.records_late};
	ky_drain_close(drain);
	if (stage)
		sink.stage.close(sink.stage.stage);
	test_ring_close(&load.ring);
	return result;
}

static int by_value(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void print(bool is_json, const char *name, double value, const char *unit, double target,
		  double spread)
{
	if (is_json)
		printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"target\":%.2f,"
		       "\"better\":\"lower\",\"peer\":null,\"spread\":%.2f}\n",
		       name, value, unit, target, spread);
	else
		printf("%-34s %8.2f %-14s target %6.2f  +-%.2f\n", name, value, unit, target,
		       spread);
}

int main(int argc, char **argv)
{
	bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
	double live[ROUNDS], packed[ROUNDS], stroke[ROUNDS];
	struct result plain = {0}, zipped = {0}, whole = {0};
	struct ky_stage_factory zstd;

	ky_stage_zstd(&zstd, 1);
	for (int i = 0; i < ROUNDS; i++) {
		plain = run(NULL, STEP_SLOTS);
		zipped = run(&zstd, STEP_SLOTS);
		whole = run(NULL, 0);
		live[i] = plain.ns_per_event;
		packed[i] = zipped.ns_per_event;
		stroke[i] = whole.ns_per_event;
	}
	qsort(live, ROUNDS, sizeof(live[0]), by_value);
	qsort(packed, ROUNDS, sizeof(packed[0]), by_value);
	qsort(stroke, ROUNDS, sizeof(stroke[0]), by_value);
	if (plain.lost || zipped.lost || whole.lost)
		fprintf(stderr, "records were lost or late: this is no result\n");
	print(is_json, "drain + encode", live[ROUNDS / 2], "ns/event", 17,
	      (live[ROUNDS - 1] - live[0]) / 2);
	print(is_json, "drain + encode + zstd 1", packed[ROUNDS / 2], "ns/event", 47,
	      (packed[ROUNDS - 1] - packed[0]) / 2);
	print(is_json, "drain + encode, full ring at once", stroke[ROUNDS / 2], "ns/event", 30,
	      (stroke[ROUNDS - 1] - stroke[0]) / 2);
	print(is_json, "drain bytes raw", plain.bytes_per_event, "bytes/event", 16, 0);
	print(is_json, "drain bytes zstd 1", zipped.bytes_per_event, "bytes/event", 3, 0);
	return plain.lost || zipped.lost || whole.lost;
}
