/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What it costs to sample allocations.
 *
 *     bench_alloc
 *     bench_alloc --loop plain|floor|taken TURNS
 *
 * Prints one JSON object. *_ns: nanoseconds of the processor that a malloc() and its free() take
 * more, where nothing else happens (bare): off with the gate shut, on with sampling at 512 KiB,
 * floor where a function stands between that does nothing but jump on. reported_ns: an allocation
 * that is told with its stack, and its end. loop_*_percent: what a loop takes more that does little
 * but allocate: blocks of 16 to 512 bytes are filled, kept for a while, read and freed. words_*:
 * the same of one that counts the words of a text, and copies each. --loop runs pairs of malloc()
 * and free() alone, for a counter of instructions.
 * Plain and taken-over functions take turns, set by set.
 */
#include <base/now.h>
#include <kymo/alloc.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../adapters/tokio/allocs.h"

#define KEPT __attribute__((noinline, used))
#define BARE_ROUNDS 200000u
#define LOOP_ROUNDS 100000u
#define SETS 61u
#define WINDOW 4096u
#define TEXT_BYTES (1u << 19)
#define TELLS 2000u
#define TABLES_SECONDS_MAX 20u
#define FRAMES_MAX 128u

struct functions {
	void *(*allocate)(size_t);
	void (*release)(void *);
};

static volatile uint64_t sink;
static uint32_t bare_rounds = BARE_ROUNDS;

/* ---- the least that standing between costs ---- */

static void *(*volatile next_malloc)(size_t) = malloc;
static void (*volatile next_free)(void *) = free;

KEPT static void *floor_malloc(size_t bytes)
{
	return next_malloc(bytes);
}

KEPT static void floor_free(void *block)
{
	next_free(block);
}

static uint64_t now(void)
{
	return ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(values[0]), by_size);
	return values[count / 2];
}

/* ---- nothing but the two calls ---- */

KEPT static double run_bare(const struct functions *functions)
{
	uint64_t began_ns = now();

	for (uint32_t i = 0; i < bare_rounds; i++) {
		void *block = functions->allocate(64);

		__asm__ volatile("" : : "r"(block) : "memory");
		functions->release(block);
	}
	return (double)(now() - began_ns) / bare_rounds;
}

/* ---- little but allocating ---- */

KEPT static double run_loop(const struct functions *functions)
{
	static uint8_t *window[WINDOW];
	static uint32_t sizes[WINDOW];
	uint64_t random = 88172645463325252u, sum = 0, began_ns = now(), took;

	for (uint32_t i = 0; i < LOOP_ROUNDS; i++) {
		uint32_t at, bytes;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		at = (uint32_t)random % WINDOW;
		bytes = 16 + (uint32_t)(random >> 32) % 497;
		for (uint32_t k = 0; window[at] && k < sizes[at]; k += 16)
			sum += window[at][k];
		functions->release(window[at]);
		window[at] = functions->allocate(bytes);
		sizes[at] = bytes;
		memset(window[at], (int)i, bytes);
	}
	took = now() - began_ns;
	/* As they came: what was told would else be taken for alive. */
	for (uint32_t i = 0; i < WINDOW; i++) {
		functions->release(window[i]);
		window[i] = NULL;
	}
	sink = sum;
	return (double)took / LOOP_ROUNDS;
}

/* ---- what programs allocate for ---- */

struct word {
	struct word *next;
	char *text;
	uint32_t bytes, count;
};

static uint32_t hash_word(const char *text, uint32_t bytes)
{
	uint32_t hash = 2166136261u;

	for (uint32_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619u;
	return hash;
}

/* Counts the words of a text in a table of owned strings, as a parser or an index does: each word
 * is copied, then found or kept. All are dropped in the end. */
KEPT static double run_words(const struct functions *functions)
{
	static struct word *table[WINDOW];
	static char text[TEXT_BYTES];
	uint64_t random = 88172645463325252u, began_ns, took;

	for (uint32_t i = 0; i < TEXT_BYTES; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		text[i] = random % 7 == 0 ? ' ' : (char)('a' + random / 7 % 6);
	}
	began_ns = now();
	for (uint32_t at = 0, end; at < TEXT_BYTES; at = end + 1) {
		struct word **place, *word;
		char *copy;

		for (end = at; end < TEXT_BYTES && text[end] != ' '; end++) {
		}
		copy = functions->allocate(end - at + 1);
		memcpy(copy, text + at, end - at);
		place = &table[hash_word(copy, end - at) % WINDOW];
		while (*place &&
		       ((*place)->bytes != end - at || memcmp((*place)->text, copy, end - at) != 0))
			place = &(*place)->next;
		if (*place) {
			(*place)->count++;
			functions->release(copy);
			continue;
		}
		word = functions->allocate(sizeof(*word));
		*word = (struct word){NULL, copy, end - at, 1};
		*place = word;
	}
	for (uint32_t i = 0; i < WINDOW; i++) {
		while (table[i]) {
			struct word *word = table[i];

			table[i] = word->next;
			functions->release(word->text);
			functions->release(word);
		}
	}
	took = now() - began_ns;
	return (double)took / TEXT_BYTES;
}

/* Of the fastest sets: whatever else the machine does adds to the others. */
static double added(double (*run)(const struct functions *), const struct functions *plain,
		    const struct functions *taken, double *share)
{
	double without = 1e9, with = 1e9;

	for (uint32_t set = 0; set < SETS; set++) {
		/* Neither is always the first. */
		double first = run(set % 2 ? plain : taken), second = run(set % 2 ? taken : plain);
		double one = set % 2 ? first : second, other = set % 2 ? second : first;

		without = one < without ? one : without;
		with = other < with ? other : with;
	}
	*share = (with - without) / without * 100.0;
	return with - without;
}

/* ---- a sample ---- */

static void wait_for_tables(void)
{
	uint64_t frames[FRAMES_MAX];
	struct kymo_stack stack = {.frames = frames, .frames_max = FRAMES_MAX};
	struct kymo_stack_start start;

	for (uint32_t i = 0; i < TABLES_SECONDS_MAX * 100; i++) {
		KYMO_STACK_HERE(&start);
		kymo_stack_capture(&stack, &start);
		if (stack.end == KYMO_STACK_FIRST)
			return;
		usleep(10000);
	}
	fprintf(stderr, "no unwind tables within %u s\n", TABLES_SECONDS_MAX);
	exit(1);
}

/* So large that each is told. */
static double emit(const struct functions *taken)
{
	double sets[SETS];

	for (uint32_t set = 0; set < SETS; set++) {
		uint64_t began_ns = now();

		for (uint32_t i = 0; i < TELLS; i++) {
			kymo_alloc(&sets[set], (size_t)1 << 30);
			kymo_free(&sets[set]);
		}
		sets[set] = (double)(now() - began_ns) / TELLS;
	}
	(void)taken;
	return median(sets, SETS);
}

static const struct functions plain = {malloc, free}, floors = {floor_malloc, floor_free};

static int run_alone(const struct functions *taken, const char *name, const char *turns)
{
	bare_rounds = (uint32_t)strtoul(turns, NULL, 10);
	(void)run_bare(strcmp(name, "plain") == 0 ? &plain :
		       strcmp(name, "floor") == 0 ? &floors :
						    taken);
	return 0;
}

static void print_costs(const char *name, const struct functions *functions)
{
	double loop, words, bare, unused;

	bare = added(run_bare, &plain, functions, &unused);
	(void)added(run_loop, &plain, functions, &loop);
	(void)added(run_words, &plain, functions, &words);
	printf("\"bare_%s_ns\": %.2f, \"loop_%s_percent\": %.2f, \"words_%s_percent\": %.2f, ",
	       name, bare, name, loop, name, words);
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct functions taken;
	struct kymo_recorder *recorder;
	void *address = ky_tokio_alloc_address("malloc");

	memcpy(&taken.allocate, &address, sizeof(address));
	address = ky_tokio_alloc_address("free");
	memcpy(&taken.release, &address, sizeof(address));
	options.flags = KYMO_RECORDER_EAGER; /* flight mode: nothing is written */
	options.gates = KYMO_GATES_DEFAULT | KYMO_GATE_ALLOC;
	if (kymo_recorder_open(&recorder, &options) != 0) {
		fprintf(stderr, "the recorder could not be opened\n");
		return 1;
	}
	kymo_poll_begin(1, 0, KYMO_QUEUE_UNKNOWN);
	wait_for_tables();
	if (argc == 4 && strcmp(argv[1], "--loop") == 0)
		return run_alone(&taken, argv[2], argv[3]);
	printf("{");
	print_costs("on", &taken);
	print_costs("floor", &floors);
	printf("\"reported_ns\": %.1f, ", emit(&taken));
	kymo_recorder_gates(0, KYMO_GATE_ALLOC);
	print_costs("off", &taken);
	printf("\"loop_ns\": %.1f, \"words_ns\": %.1f}\n", run_loop(&plain), run_words(&plain));
	kymo_poll_end(0);
	kymo_recorder_close(recorder);
	return 0;
}
