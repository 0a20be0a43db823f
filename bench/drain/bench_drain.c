/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the drain costs per event: a 32 MiB ring is copied, merged and encoded, then the same with
 * zstd level 1. CPU time of this thread. Two loads:
 *
 *   two workers    what `kymo run` sees of an echo server on two processors: a worker comes back
 *                  from its driver with up to 32 wakes of 50 connections, polls those tasks in
 *                  that order for about 5 us each (every eighth wakes another one), and parks
 *   at random      four threads, the next record from any of them, times and tasks without a
 *                  pattern: the worst for the merge and for the compressor
 *
 * In steps of 2 MiB as a live drain sees it, and once the whole ring at a stroke as a dump does;
 * the first load also with a policy that writes what takes or waits 1 ms, per ring record.
 *
 * --json: one object a line, as bench/README.md says.
 * --one-record: an experiment alone, per poll (docs/design/0013-cost.md). The first load as it is,
 * beside one in which begin and end of a poll are a single record at its end, of the kind of a
 * wake, with 12 bits of noise for its duration; and one in which that is all there is of a poll,
 * without what woke it: less than such a record would have to say. */
#include "../../test/lib/ring_builder.h"

#include <drain/drain.h>
#include <ship/compressor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 4096u
#define WRITERS_MAX 4u
#define TASKS 200u
#define CONNECTIONS 50u
#define READY_MAX 64u /* power of two */
#define STEP_SLOTS 256u
#define ROUNDS 7
#define START_NS UINT64_C(2000000000)

struct sink {
	struct ky_compressor compressor;
	bool is_compressing;
	uint64_t raw_bytes, stored_bytes, events;
};

struct result {
	double ns_per_event, bytes_per_event, ns_per_poll, bytes_per_poll;
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
	return sink->compressor.write(sink->compressor.self, chunk->bytes, chunk->byte_count,
				      count_bytes, sink);
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

enum polls {
	POLLS_AS_THEY_ARE,
	POLLS_ONE_RECORD,
	POLLS_ONE_RECORD_NO_WAKE
};

struct load {
	struct test_ring ring;
	uint32_t writer_count;
	struct test_writer writers[WRITERS_MAX];
	uint64_t at[WRITERS_MAX];
	uint32_t name;
	enum polls polls;
	uint64_t poll_count;
	/* of the workers */
	uint64_t ready[WRITERS_MAX][READY_MAX];
	uint32_t first_ready[WRITERS_MAX], ready_end[WRITERS_MAX];
};

static void begin(struct load *load)
{
	test_ring_open(&load->ring, SLOTS);
	load->name = test_ring_name(&load->ring, "echo::handle_connection::{{closure}}", 0, 0);
	for (uint32_t i = 0; i < load->writer_count; i++) {
		test_writer_open(&load->writers[i], &load->ring, 500 + i, START_NS);
		test_worker(&load->writers[i], START_NS, 10 + i, 0x7000, 0x100 + i);
		load->at[i] = START_NS + 1000;
	}
}

/* One turn of a thread of the load without a pattern. */
static void turn_at_random(struct load *load, uint32_t i)
{
	struct test_writer *w = &load->writers[i];
	uint64_t *at = &load->at[i], task = 100 + noise() % TASKS;

	test_emit(w, *at += 300 + noise() % 400, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(task, 0), 0,
		  0);
	test_poll(w, *at += 200 + noise() % 1000, task, load->name);
	test_poll_end(w, *at += 1500 + noise() % 9000, 0);
	if (noise() % 8)
		return;
	test_emit(w, *at += 300, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
	test_emit(w, *at += 2000 + noise() % 60000, KYMO_RECORD_UNPARK, 2, 0, 0, 0, 0);
}

static void wake(struct load *load, uint32_t i, uint64_t task, uint32_t flags)
{
	load->at[i] += 60 + noise() % 60;
	if (load->polls != POLLS_ONE_RECORD_NO_WAKE)
		test_emit(&load->writers[i], load->at[i], KYMO_RECORD_WAKE, flags, 1,
			  kymo_task_word(task, 0), 0, 0);
	if (load->ready_end[i] - load->first_ready[i] < READY_MAX)
		load->ready[i][load->ready_end[i]++ % READY_MAX] = task;
}

/* One turn of a worker: a wait in its driver, or the poll of one ready task. */
static void turn_of_worker(struct load *load, uint32_t i)
{
	struct test_writer *w = &load->writers[i];
	uint64_t *at = &load->at[i], task;
	uint32_t count;

	if (load->first_ready[i] == load->ready_end[i]) {
		test_emit(w, *at += 150 + noise() % 50, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0,
			  0);
		count = 1 + noise() % 32;
		test_emit(w, *at += 2000 + noise() % 20000, KYMO_RECORD_UNPARK, count, 0, 0, 0, 0);
		while (count--)
			wake(load, i, 3 + noise() % CONNECTIONS, KYMO_WAKE_ON_DRIVER);
		return;
	}
	task = load->ready[i][load->first_ready[i]++ % READY_MAX];
	*at += 80 + noise() % 40;
	load->poll_count++;
	if (load->polls == POLLS_AS_THEY_ARE)
		test_poll(w, *at, task, load->name);
	*at += 4600 + noise() % 800;
	if (noise() % 8 == 0)
		wake(load, i, 3 + noise() % CONNECTIONS, 0);
	if (noise() % 64 == 0)
		*at += noise() % 5000;
	*at += 20;
	if (load->polls != POLLS_AS_THEY_ARE)
		test_emit(w, *at, KYMO_RECORD_WAKE, noise() % 4096 << KYMO_WAKE_STACK_SHIFT, 1,
			  kymo_task_word(task, 0), 0, 0);
	else
		test_poll_end(w, *at, 0);
}

/* Records until so many sub-buffers are handed out; the next anchor lies 2 ms behind. */
static void fill(struct load *load, uint64_t claim_index)
{
	uint32_t count = load->writer_count;
	uint64_t *at = load->at;

	while (atomic_load(&load->ring.header->claim_index) < claim_index) {
		uint32_t i = noise() % count;

		/* No thread runs far ahead of the others: they share one time. */
		if (at[i] > at[(i + 1) % count] + (count > 2 ? 1000000 : 0))
			continue;
		if (count > 2)
			turn_at_random(load, i);
		else
			turn_of_worker(load, i);
	}
	for (uint32_t i = 0; i < count; i++)
		load->ring.now_ns = at[i] > load->ring.now_ns ? at[i] : load->ring.now_ns;
	for (uint32_t i = 0; i < count; i++)
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
/* Its load lies on the stack. */
static __attribute__((noinline)) struct result
run_as(uint32_t writers, const struct ky_compressor_factory *compressor, uint32_t step_slots,
       const struct ky_retain_policy *retain, enum polls polls)
{
	struct sink sink = {.is_compressing = compressor != NULL};
	struct load load = {.writer_count = writers, .polls = polls};
	struct ky_drain_options options = {.anchor = test_ring_anchor,
					   .anchor_ctx = &load.ring,
					   .chunk = take,
					   .chunk_ctx = &sink,
					   .retain = retain,
					   .hostname = "bench"};
	struct ky_drain_stats stats;
	struct ky_drain *drain;
	struct result result;
	uint64_t spent = 0, from;

	begin(&load);
	options.image = load.ring.image;
	options.image_bytes = load.ring.image_bytes;
	must(compressor ? compressor->open(compressor, &sink.compressor) : 0);
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
	if (compressor)
		must(sink.compressor.finish(sink.compressor.self, count_bytes, &sink));
	spent += cpu_ns() - from;
	ky_drain_stats(drain, &stats);
	if (!compressor)
		sink.stored_bytes = sink.raw_bytes;
	if (retain)
		sink.events = stats.records_read;
	result = (struct result){.ns_per_event = (double)spent / (double)sink.events,
				 .bytes_per_event = (double)sink.stored_bytes / (double)sink.events,
				 .ns_per_poll = (double)spent /
						(double)(load.poll_count + !load.poll_count),
				 .bytes_per_poll = (double)sink.stored_bytes /
						   (double)(load.poll_count + !load.poll_count),
				 .events = sink.events,
				 .lost = stats.records_lost + stats.records_late};
	ky_drain_close(drain);
	if (compressor)
		sink.compressor.close(sink.compressor.self);
	test_ring_close(&load.ring);
	return result;
}

static struct result run(uint32_t writers, const struct ky_compressor_factory *compressor,
			 uint32_t step_slots, const struct ky_retain_policy *retain)
{
	return run_as(writers, compressor, step_slots, retain, POLLS_AS_THEY_ARE);
}

static int by_value(const void *a, const void *b)
{
	const struct result *left = a, *right = b;

	return left->ns_per_event < right->ns_per_event ? -1 :
							  left->ns_per_event > right->ns_per_event;
}

static void print(bool is_json, const char *name, double value, const char *unit, double target,
		  double spread)
{
	if (is_json)
		printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"target\":%.2f,"
		       "\"better\":\"lower\",\"peer\":null,\"spread\":%.2f}\n",
		       name, value, unit, target, spread);
	else
		printf("%-46s %8.2f %-14s target %6.2f  +-%.2f\n", name, value, unit, target,
		       spread);
}

/* Rows of one load; `prefix` names it. Returns records lost. */
static uint64_t measure(bool is_json, uint32_t writers, const char *prefix)
{
	static const char *const names[] = {"drain + encode", "drain + encode + zstd 1",
					    "drain + encode, full ring at once"};
	static const double targets[] = {20, 50, 30};
	struct result rounds[3][ROUNDS];
	struct ky_compressor_factory zstd;
	uint64_t lost = 0;
	char name[80];

	ky_compressor_zstd(&zstd, 1);
	for (int i = 0; i < ROUNDS; i++) {
		rounds[0][i] = run(writers, NULL, STEP_SLOTS, NULL);
		rounds[1][i] = run(writers, &zstd, STEP_SLOTS, NULL);
		rounds[2][i] = run(writers, NULL, 0, NULL);
		lost += rounds[0][i].lost + rounds[1][i].lost + rounds[2][i].lost;
	}
	for (int kind = 0; kind < 3; kind++) {
		const struct result *row = rounds[kind];

		qsort(rounds[kind], ROUNDS, sizeof(*row), by_value);
		snprintf(name, sizeof(name), "%s%s", prefix, names[kind]);
		print(is_json, name, row[ROUNDS / 2].ns_per_event, "ns/event", targets[kind],
		      (row[ROUNDS - 1].ns_per_event - row[0].ns_per_event) / 2);
	}
	snprintf(name, sizeof(name), "%sdrain bytes raw", prefix);
	print(is_json, name, rounds[0][0].bytes_per_event, "bytes/event", 16, 0);
	snprintf(name, sizeof(name), "%sdrain bytes zstd 1", prefix);
	print(is_json, name, rounds[1][0].bytes_per_event, "bytes/event", 3, 0);
	return lost;
}

/* The same work when only what is slow is written. Returns records lost. */
static uint64_t measure_retention(bool is_json)
{
	struct ky_retain_policy policy = {0};
	struct result rounds[ROUNDS];
	struct ky_compressor_factory zstd;
	uint64_t lost = 0;

	policy.rules[KY_RETAIN_POLL].threshold_ns = 1000000;
	policy.rules[KY_RETAIN_WAKE].threshold_ns = 1000000;
	ky_compressor_zstd(&zstd, 1);
	for (int i = 0; i < ROUNDS; i++) {
		rounds[i] = run(2, &zstd, STEP_SLOTS, &policy);
		lost += rounds[i].lost;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
	print(is_json, "two workers: drain + zstd 1 under a policy of 1 ms",
	      rounds[ROUNDS / 2].ns_per_event, "ns/record", 50,
	      (rounds[ROUNDS - 1].ns_per_event - rounds[0].ns_per_event) / 2);
	print(is_json, "two workers: bytes zstd 1 under a policy of 1 ms",
	      rounds[0].bytes_per_event, "bytes/record", 3, 0);
	return lost;
}

static uint64_t measure_one_record(void)
{
	static const char *const names[] = {"begin, end, wake", "again", "one, wake", "one"};
	static const enum polls polls[] = {POLLS_AS_THEY_ARE, POLLS_AS_THEY_ARE, POLLS_ONE_RECORD,
					   POLLS_ONE_RECORD_NO_WAKE};
	static struct result rounds[4][3 * ROUNDS];
	struct ky_compressor_factory zstd;
	uint64_t lost = 0;

	ky_compressor_zstd(&zstd, 1);
	for (int i = 0; i < 3 * ROUNDS; i++)
		for (int k = 0; k < 4; k++) {
			struct result *result = &rounds[(i + k) % 4][i];

			*result = run_as(2, &zstd, STEP_SLOTS, NULL, polls[(i + k) % 4]);
			lost += result->lost;
			result->ns_per_event = result->ns_per_poll;
		}
	for (int k = 0; k < 4; k++) {
		qsort(rounds[k], 3 * ROUNDS, sizeof(rounds[k][0]), by_value);
		printf("%-18s %7.1f ns a poll, least %.1f; %.2f bytes a poll\n", names[k],
		       rounds[k][3 * ROUNDS / 2].ns_per_poll, rounds[k][0].ns_per_poll,
		       rounds[k][0].bytes_per_poll);
	}
	return lost;
}

int main(int argc, char **argv)
{
	bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
	uint64_t lost;

	if (argc > 1 && strcmp(argv[1], "--one-record") == 0)
		return measure_one_record() != 0;
	lost = measure(is_json, 2, "two workers: ");
	lost += measure_retention(is_json);

	lost += measure(is_json, 4, "");
	if (lost)
		fprintf(stderr, "records were lost or late: this is no result\n");
	return lost != 0;
}
