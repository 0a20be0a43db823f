/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_perf [STACK-BYTES] - what one sample by perf_event costs: the thread that it stops, and
 * whoever reads, walks and keeps it.
 *
 * A child does the same piece of work again and again, some FRAMES deep, in turns sampled and not:
 * what a sampled piece takes more of its processor is the host's cost, beside the same with next to
 * nothing of the stack. Between pieces its samples are read here, which is timed. STACK-BYTES:
 * copied of its stack, instead of what kymo asks for.
 * Prints one JSON object. Exit status 77: perf_event yields nothing here. */
#include <base/now.h>
#include <probe/perf_source.h>
#include <probe/perf_walk.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../test/lib/own_tables.h"
#include "piece.h"

#define KEPT __attribute__((noinline, used))
#define FRAMES 20u
#define DEPTH_MAX 40u
#define RATE_HZ 1000u
#define PAIRS 60u
#define PIECE_NS UINT64_C(24000000) /* as many samples as half a ring holds */
#define CELLS 4096u
#define STACK_BYTES 32768u
#define BARE_BYTES 64u

struct service {
	pid_t pid;
	int to, from;
};

struct tally {
	struct ky_sample_ring ring;
	uint64_t count, bytes, frames, short_count;
};

static struct own_tables tables;
static struct service service;
static uint32_t turns;
static int in, out;

/* ---- the child ---- */

KEPT static void serve(void)
{
	uint64_t ns;
	char word;

	while (read(in, &word, 1) == 1) {
		ns = piece(turns);
		if (write(out, &ns, sizeof(ns)) != (ssize_t)sizeof(ns))
			break;
	}
}

KEPT static void descend(uint32_t depth)
{
	volatile uint8_t room[160];

	room[0] = 1;
	if (depth > 0)
		descend(depth - 1);
	else
		serve();
	sink += room[0];
}

static int start(void)
{
	int to[2], from[2];

	if (pipe(to) != 0 || pipe(from) != 0)
		return -1;
	service.pid = fork();
	if (service.pid < 0)
		return -1;
	if (service.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		in = to[0];
		out = from[1];
		descend(FRAMES);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	service.to = to[1];
	service.from = from[0];
	return 0;
}

/* One piece of its work. Returns the processor's time that it took, 0: it is gone. */
static double do_piece(void)
{
	uint64_t ns;
	char word = 'p';

	if (write(service.to, &word, 1) != 1 ||
	    read(service.from, &ns, sizeof(ns)) != (ssize_t)sizeof(ns))
		return 0;
	return (double)ns;
}

/* ---- the reader ---- */

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct tally *tally = ctx;
	uint64_t claim = KY_SAMPLE_CLAIM(atomic_load(&tally->ring.head->claim_index));
	const struct ky_sample_cell *cell;

	ky_perf_put(&tally->ring, &tables.view, sample);
	cell = (const void *)(tally->ring.cells + claim % CELLS * KY_SAMPLE_CELL_BYTES);
	tally->count++;
	tally->bytes += sample->stack_bytes;
	tally->frames += cell->frame_count;
	tally->short_count += (cell->flags & KY_SAMPLE_TRUNCATED) != 0;
}

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static double median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(values[0]), by_size);
	return values[count / 2];
}

static int make_ring(struct ky_sample_ring *ring)
{
	ring->head = aligned_alloc(64, sizeof(*ring->head));
	ring->cells = aligned_alloc(64, (size_t)CELLS * KY_SAMPLE_CELL_BYTES);
	ring->cell_count = CELLS;
	if (!ring->head || !ring->cells)
		return -1;
	memset(ring->head, 0, sizeof(*ring->head));
	memset(ring->cells, 0, (size_t)CELLS * KY_SAMPLE_CELL_BYTES);
	return 0;
}

/* Of one sample, what it takes of the host: a sampled piece of work beside one that is not. */
static double added(struct ky_perf *perf, struct tally *tally, double *reader_ns)
{
	uint64_t before = tally->count, began_ns;
	double quiet = do_piece(), sampled;

	if (ky_perf_pause(perf, false) != 0)
		return 0;
	sampled = do_piece();
	(void)ky_perf_pause(perf, true);
	began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	(void)ky_perf_read(perf, on_sample, tally);
	*reader_ns = (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
	before = tally->count - before;
	if (quiet == 0 || sampled == 0 || before == 0)
		return 0;
	*reader_ns /= (double)before;
	return (sampled - quiet) / (double)before;
}

static int measure(struct ky_perf *perf, struct ky_perf *bare)
{
	static double host[PAIRS], host_bare[PAIRS], reader[PAIRS], reader_bare[PAIRS];
	static struct tally tally, tally_bare;

	if (make_ring(&tally.ring) != 0 || make_ring(&tally_bare.ring) != 0)
		return -1;
	for (uint32_t i = 0; i < PAIRS; i++) {
		host[i] = added(perf, &tally, &reader[i]);
		host_bare[i] = added(bare, &tally_bare, &reader_bare[i]);
		if (host[i] == 0 || host_bare[i] == 0)
			return -1;
	}
	/* Short walks cost less. */
	if (tally.short_count * 20 > tally.count) {
		fprintf(stderr, "bench_perf: %llu of %llu stacks are short\n",
			(unsigned long long)tally.short_count, (unsigned long long)tally.count);
		return -1;
	}
	printf("{\"samples\": %llu, \"stack_bytes\": %.0f, \"frames\": %.1f, ",
	       (unsigned long long)tally.count, (double)tally.bytes / (double)tally.count,
	       (double)tally.frames / (double)tally.count);
	printf("\"host_ns\": %.0f, \"reader_ns\": %.0f, ", median(host, PAIRS),
	       median(reader, PAIRS));
	printf("\"bare_host_ns\": %.0f}\n", median(host_bare, PAIRS));
	return 0;
}

/* Paused: added() lets it go. */
static int open_events(struct ky_perf **perf, uint32_t stack_bytes)
{
	struct ky_perf_options options = {
		.rate_hz = RATE_HZ, .stack_bytes = stack_bytes, .has_kernel = true};
	int err = ky_perf_test(&options);

	if (!err)
		err = ky_perf_open(perf, &options, service.pid);
	return err ? err : ky_perf_pause(*perf, true);
}

int main(int argc, char **argv)
{
	uint32_t stack_bytes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : STACK_BYTES;
	struct ky_perf *perf = NULL, *bare = NULL;
	int err, status = 0;

	for (turns = 1; piece(turns) < PIECE_NS; turns *= 2)
		;
	if (own_tables_open(&tables) != 0 || start() != 0)
		return 1;
	err = open_events(&perf, stack_bytes);
	if (!err)
		err = open_events(&bare, BARE_BYTES);
	if (err) {
		fprintf(stderr, "bench_perf: perf_event: %s\n", strerror(-err));
		status = 77;
	} else if (measure(perf, bare) != 0) {
		status = 1;
	}
	ky_perf_close(perf);
	ky_perf_close(bare);
	kill(service.pid, SIGKILL);
	waitpid(service.pid, NULL, 0);
	return status;
}
