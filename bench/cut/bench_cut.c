/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a dump costs: a 64 MiB ring that has gone round, two threads writing to it all the while, is
 * mapped and cut as `kymo dump` does it. CPU time of the cutting thread, and what the ring held at
 * the start and the cut does not have. Then what it costs to only watch a ring.
 *
 * --json: one object a line, as bench/README.md says. */
#include <drain/cut.h>
#include <fcntl.h>
#include <kymo/kymo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (UINT64_C(64) << 20)
#define WRITERS 2u
#define ROUNDS 9u
#define WATCH_STEPS 200u

struct round {
	double copy_ms, encode_ms, total_ms, age_s, rate_mib;
	uint64_t events, slots_lost, records_lost;
};

static _Atomic bool is_over;
static uint32_t name;

static void spin(uint32_t turns)
{
	for (volatile uint32_t i = 0; i < turns; i++)
		;
}

/* A busy worker: a wake and a poll of well below a microsecond, about 5 M records a second for the
 * two of them; ten times what an echo server writes on these processors. */
static void *work(void *ctx)
{
	uint64_t task = (uintptr_t)ctx;

	kymo_worker_begin(task, 7, task, 0);
	for (uint64_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
		kymo_wake(1 + i % 50, 0, 0);
		kymo_poll_begin(1 + i % 50, name, KYMO_QUEUE_UNKNOWN);
		spin(300);
		kymo_poll_end(0);
		spin(300);
	}
	return NULL;
}

static void must(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "bench_cut: %s: error %d\n", what, err);
		exit(1);
	}
}

static int count_events(void *ctx, const struct ky_chunk *chunk)
{
	*(uint64_t *)ctx += chunk->event_count;
	return 0;
}

static const uint8_t *map_ring(size_t *bytes)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct stat st;
	void *image;
	int fd;

	must(kymo_recorder_status(&status), "status");
	fd = open(status.ring_path, O_RDONLY | O_CLOEXEC);
	must(fd < 0 || fstat(fd, &st) != 0, "ring");
	*bytes = (size_t)st.st_size;
	image = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
	must(image == MAP_FAILED, "map");
	close(fd);
	return image;
}

static uint64_t claim_index_of(const uint8_t *image)
{
	const struct ky_ring_header *header = (const void *)image;

	return atomic_load_explicit(&header->claim_index, memory_order_relaxed);
}

static void rest_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static struct round cut_once(void)
{
	static struct ky_cut_report report;
	struct ky_cut_options options = {.chunk = count_events, .hostname = "bench"};
	struct round round = {0};
	struct timespec from, to;

	options.image = map_ring(&options.image_bytes);
	options.chunk_ctx = &round.events;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	must(ky_cut(&options, &report), "cut");
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	munmap((void *)(uintptr_t)options.image, options.image_bytes);
	round.copy_ms = (double)report.copy_cpu_ns / 1e6;
	round.encode_ms = (double)report.encode_cpu_ns / 1e6;
	round.total_ms = (double)(to.tv_sec - from.tv_sec) * 1e3 +
			 (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	round.age_s = (double)report.age_ns / 1e9;
	round.rate_mib = (double)report.bytes_copied / (1 << 20) / round.age_s;
	round.slots_lost = report.slots_overwritten;
	round.records_lost = report.records_lost;
	return round;
}

/* An observing drain in steps of 20 ms. Returns ns a record. */
static double watch(void)
{
	struct ky_drain_options options = {.hostname = "bench"};
	struct ky_drain_stats stats;
	struct ky_drain *drain;
	uint64_t before, cpu = 0;

	options.image = map_ring(&options.image_bytes);
	must(ky_drain_open(&drain, &options), "watch");
	must(ky_drain_step(drain, 0), "watch"); /* what the ring holds already */
	ky_drain_stats(drain, &stats);
	before = stats.records_read;
	for (uint32_t i = 0; i < WATCH_STEPS; i++) {
		struct timespec from, to;

		rest_ms(20);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		must(ky_drain_step(drain, 0), "watch");
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		cpu += (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec -
				  from.tv_nsec);
	}
	ky_drain_stats(drain, &stats);
	ky_drain_close(drain);
	munmap((void *)(uintptr_t)options.image, options.image_bytes);
	return (double)cpu / (double)(stats.records_read - before);
}

static int by_total(const void *a, const void *b)
{
	const struct round *left = a, *right = b;

	return left->total_ms < right->total_ms ? -1 : left->total_ms > right->total_ms;
}

static void print(bool is_json, const char *what, double value, const char *unit, double target)
{
	if (is_json)
		printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\",\"target\":%.2f}\n", what,
		       value, unit, target);
	else
		printf("%-46s %10.3f %-14s target %.0f\n", what, value, unit, target);
}

static void report(bool is_json, struct round *rounds, double watch_ns)
{
	const struct round *middle = &rounds[ROUNDS / 2];
	uint64_t slots = 0, records = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		slots += rounds[i].slots_lost;
		records += rounds[i].records_lost;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), by_total);
	print(is_json, "cut: CPU", middle->total_ms, "ms", 300);
	print(is_json, "cut: CPU of the worst round", rounds[ROUNDS - 1].total_ms, "ms", 300);
	print(is_json, "cut: CPU of copying", middle->copy_ms, "ms", 0);
	print(is_json, "cut: CPU of encoding", middle->encode_ms, "ms", 0);
	print(is_json, "cut: events", (double)middle->events, "events", 0);
	print(is_json, "cut: sub-buffers lost, all rounds", (double)slots, "sub-buffers", 0);
	print(is_json, "cut: records lost, all rounds", (double)records, "records", 0);
	print(is_json, "cut: the ring reached back", middle->age_s, "s", 0);
	print(is_json, "cut: rate of the writers", middle->rate_mib, "MiB/s", 0);
	print(is_json, "watch", watch_ns, "ns/event", 0);
}

int main(int argc, char **argv)
{
	bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	static struct round rounds[ROUNDS];
	struct kymo_recorder *recorder;
	pthread_t threads[WRITERS];
	const uint8_t *image;
	size_t bytes;
	double watch_ns;

	options.service = "bench-cut";
	options.ring_bytes = RING_BYTES;
	options.flags = KYMO_RECORDER_NO_DRAIN;
	must(kymo_recorder_open(&recorder, &options), "open");
	name = kymo_name_intern("bench::handle_connection::{{closure}}", 37, 0, 0, 0);
	for (uint32_t i = 0; i < WRITERS; i++)
		must(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(10 + i)),
		     "thread");
	rest_ms(100);
	image = map_ring(&bytes);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t claim_index = claim_index_of(image);

		/* A round of the ring between two cuts: each finds it full of what is new. */
		while (claim_index_of(image) < claim_index + RING_BYTES / KY_SLOT_BYTES)
			rest_ms(20);
		rounds[i] = cut_once();
	}
	watch_ns = watch();
	atomic_store(&is_over, true);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	kymo_recorder_close(recorder);
	report(is_json, rounds, watch_ns);
	return 0;
}
