/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What recording costs the host: one event, a poll pair, a wake, a closed gate; each beside a bare
 * loop over the counter, in interleaved rounds, so that drift of the machine hits every row alike.
 *
 *   bench_emit                       table
 *   bench_emit --json [ROUNDS [ROW]] one JSON object a row: its name, and ns a turn of each round
 *   bench_emit --loop ROW N          N turns of one row and nothing else, for instruction counts
 */
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <kymo/span.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 201
#define TURNS 100000u
#define NOINLINE __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : "+r"(x))

/* CPU time: on a busy machine the wall clock would measure the scheduler. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static NOINLINE uint64_t turn_plain(uint64_t turns)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < turns; i++) {
		sum += i;
		KEEP(sum);
	}
	return sum;
}

static NOINLINE uint64_t turn_ticks(uint64_t turns)
{
	uint64_t sum = 0;
	uint32_t high;

	for (uint64_t i = 0; i < turns; i++) {
		sum += kymo_arch_ticks(&high);
		KEEP(sum);
	}
	return sum;
}

/* 16 bytes, opens and closes nothing. */
static NOINLINE uint64_t turn_event(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		kymo_mark((uint32_t)i);
	return 0;
}

static NOINLINE void event_call(uint32_t string)
{
	kymo_mark(string);
}

static NOINLINE uint64_t turn_event_call(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		event_call((uint32_t)i);
	return 0;
}

static NOINLINE uint64_t turn_pair(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++) {
		kymo_poll_begin(i, 3, KYMO_QUEUE_UNKNOWN);
		kymo_poll_end(0);
	}
	return 0;
}

static NOINLINE uint64_t turn_wake(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		kymo_wake(i, 0, KYMO_WAKE_BY_VALUE);
	return 0;
}

static NOINLINE uint64_t turn_span(uint64_t turns)
{
	struct kymo_span span;

	for (uint64_t i = 0; i < turns; i++) {
		kymo_span_begin(&span, 3, 0);
		kymo_span_end(&span);
	}
	return 0;
}

/* The gate of waker clones is shut unless somebody asks for it. */
static NOINLINE uint64_t turn_disabled(uint64_t turns)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < turns; i++) {
		kymo_emit(KYMO_GATE_WAKER_CLONE, KYMO_RECORD_WAKER_CLONE, 0, 1, i, 0, 0);
		sum += i;
		KEEP(sum);
	}
	return sum;
}

struct row {
	const char *name;
	uint64_t (*turn)(uint64_t turns);
	double ns[ROUNDS_MAX];
};

static struct row rows[] = {
	{"plain", turn_plain, {0}}, {"ticks", turn_ticks, {0}},
	{"event", turn_event, {0}}, {"event_call", turn_event_call, {0}},
	{"pair", turn_pair, {0}},   {"wake", turn_wake, {0}},
	{"span", turn_span, {0}},   {"disabled", turn_disabled, {0}},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void print_table(int rounds)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
		qsort(rows[i].ns, (size_t)rounds, sizeof(double), by_value);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct row *row = &rows[i];

		printf("%-12s min %6.2f  median %6.2f ns  %5.2f x ticks\n", row->name, row->ns[0],
		       row->ns[rounds / 2], row->ns[0] / rows[1].ns[0]);
	}
}

static void print_json(const struct row *row, int rounds)
{
	printf("{\"name\":\"%s\",\"ns\":[", row->name);
	for (int round = 0; round < rounds; round++)
		printf("%s%.4f", round ? "," : "", row->ns[round]);
	puts("]}");
}

static void measure(int rounds, const char *only, volatile uint64_t *sink)
{
	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < ROW_COUNT; i++) {
			uint64_t start = now_ns();

			if (only && strcmp(rows[i].name, only) != 0)
				continue;
			*sink += rows[i].turn(TURNS);
			rows[i].ns[round] = (double)(now_ns() - start) / TURNS;
		}
	}
}

static int run_loop(const char *name, const char *turns, volatile uint64_t *sink)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (strcmp(rows[i].name, name) != 0)
			continue;
		*sink += rows[i].turn(strtoull(turns, NULL, 10));
		return 0;
	}
	fprintf(stderr, "bench_emit: no row is called %s\n", name);
	return 2;
}

static int open_recorder(struct kymo_recorder **out)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	char errbuf[200] = "";
	int err;

	options.service = "bench_emit";
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	options.ring_bytes = 4u << 20;
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	err = kymo_recorder_open(out, &options);
	if (err)
		fprintf(stderr, "bench_emit: %s\n", errbuf[0] ? errbuf : kymo_error_text(err));
	return err;
}

static int measure_and_print(int argc, char **argv, volatile uint64_t *sink)
{
	bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
	long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : ROUNDS_MAX;
	const char *only = argc > 3 ? argv[3] : NULL;
	cpu_set_t cpus;

	if ((argc > 1 && !is_json) || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_emit [--json [ROUNDS (at most %d) [ROW]]]\n",
			ROUNDS_MAX);
		return 2;
	}
	CPU_ZERO(&cpus);
	CPU_SET((size_t)sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	measure((int)rounds, only, sink);
	if (!is_json)
		print_table((int)rounds);
	for (size_t i = 0; is_json && i < ROW_COUNT; i++) {
		if (!only || strcmp(rows[i].name, only) == 0)
			print_json(&rows[i], (int)rounds);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct kymo_recorder *recorder;
	volatile uint64_t sink = 0;
	int code;

	if (open_recorder(&recorder))
		return 1;
	if (argc == 4 && strcmp(argv[1], "--loop") == 0)
		code = run_loop(argv[2], argv[3], &sink);
	else
		code = measure_and_print(argc, argv, &sink);
	kymo_recorder_status(&status);
	if (status.dropped_count) {
		fprintf(stderr, "bench_emit: %llu events were dropped: this is no result\n",
			(unsigned long long)status.dropped_count);
		code = 1;
	}
	kymo_recorder_close(recorder);
	if (status.ring_path[0])
		remove(status.ring_path);
	return code;
}
