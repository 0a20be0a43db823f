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

static void fill(struct test_ring *ring)
{
	struct test_writer writers[WRITERS];
	uint64_t at[WRITERS];
	uint32_t name = test_ring_name(ring, "echo::handle_connection::{{closure}}", 0, 0);

	for (uint32_t i = 0; i < WRITERS; i++) {
		test_writer_open(&writers[i], ring, 500 + i, START_NS);
		test_worker(&writers[i], START_NS, 10 + i, 0x7000, 0x100 + i);
		at[i] = START_NS + 1000;
	}
	while (atomic_load(&ring->header->hand) < SLOTS) {
		uint32_t i = noise() % WRITERS;
		struct test_writer *w = &writers[i];
		uint64_t task = 100 + noise() % TASKS;

		test_emit(w, at[i] += 300 + noise() % 400, KYMO_RECORD_WAKE, 0, 1,
			  kymo_task_word(task, 0), 0, 0);
		test_poll(w, at[i] += 200 + noise() % 1000, task, name);
		test_poll_end(w, at[i] += 1500 + noise() % 9000, 0);
		if (noise() % 8)
			continue;
		test_emit(w, at[i] += 300, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
		test_emit(w, at[i] += 2000 + noise() % 60000, KYMO_RECORD_UNPARK, 2, 0, 0, 0, 0);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		ring->now_ns = at[i] > ring->now_ns ? at[i] : ring->now_ns;
	ring->now_ns += 10000000;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct result run(struct test_ring *ring, const struct ky_stage_factory *stage)
{
	struct sink sink = {.is_compressing = stage != NULL};
	struct ky_drain_options options = {.image = ring->image,
					   .image_bytes = ring->image_bytes,
					   .anchor = test_ring_anchor,
					   .anchor_ctx = ring,
					   .chunk = take,
					   .chunk_ctx = &sink,
					   .host = "bench"};
	struct ky_drain_stats stats;
	struct ky_drain *drain;
	struct result result;
	uint64_t before, after;

	if ((stage && stage->open(stage, &sink.stage)) || ky_drain_open(&drain, &options))
		exit(1);
	before = cpu_ns();
	if (ky_drain_step(drain, KY_DRAIN_FINAL) || ky_drain_seal(drain))
		exit(1);
	if (stage)
		sink.stage.finish(sink.stage.stage, count_bytes, &sink);
	after = cpu_ns();
	ky_drain_stats(drain, &stats);
	if (!stage)
		sink.stored_bytes = sink.raw_bytes;
	result = (struct result){(double)(after - before) / (double)sink.events,
				 (double)sink.stored_bytes / (double)sink.events, sink.events,
				 stats.records_lost};
	ky_drain_close(drain);
	if (stage)
		sink.stage.close(sink.stage.stage);
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
	double plain[ROUNDS], packed[ROUNDS];
	struct ky_stage_factory zstd;
	struct result result = {0}, zipped = {0};
	struct test_ring ring;

	test_ring_open(&ring, SLOTS);
	fill(&ring);
	ky_stage_zstd(&zstd, 1);
	for (int i = 0; i < ROUNDS; i++) {
		result = run(&ring, NULL);
		zipped = run(&ring, &zstd);
		plain[i] = result.ns_per_event;
		packed[i] = zipped.ns_per_event;
	}
	qsort(plain, ROUNDS, sizeof(plain[0]), by_value);
	qsort(packed, ROUNDS, sizeof(packed[0]), by_value);
	if (result.lost || zipped.lost)
		fprintf(stderr, "records were lost: this is no result\n");
	print(is_json, "drain + encode", plain[ROUNDS / 2], "ns/event", 17,
	      (plain[ROUNDS - 1] - plain[0]) / 2);
	print(is_json, "drain + encode + zstd 1", packed[ROUNDS / 2], "ns/event", 47,
	      (packed[ROUNDS - 1] - packed[0]) / 2);
	print(is_json, "drain bytes raw", result.bytes_per_event, "bytes/event", 16, 0);
	print(is_json, "drain bytes zstd 1", zipped.bytes_per_event, "bytes/event", 3, 0);
	if (!is_json)
		printf("%llu events\n", (unsigned long long)result.events);
	test_ring_close(&ring);
	return result.lost || zipped.lost;
}
