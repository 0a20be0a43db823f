/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program that links the library and reports its allocations by the C functions: known amounts in
 * known functions, the same as those of test/tokio/src/heap.rs.
 *
 *   alloc_host TRACE BYTES     samples one byte in so many; prints as JSON what it allocated
 */
#include <kymo/kymo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES_EACH ((size_t)3 << 18)
#define SHELF 256u
#define LINE 64u

struct known {
	size_t bytes, live_bytes, allocations, live_allocations;
};

static const size_t sizes[] = {32, 100, 250, 600, 1400, 3000, 7000, 16000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void *kept_block; /* what stays is reported nowhere else */

static void made(struct known *known, size_t bytes)
{
	known->bytes += bytes;
	known->allocations++;
}

static void keep(struct known *known, void *block, size_t bytes)
{
	memcpy(block, &kept_block, sizeof(kept_block));
	kept_block = block;
	known->live_bytes += bytes;
	known->live_allocations++;
}

static void give_back(void *block)
{
	kymo_free(block);
	free(block);
}

/* ---- functions that a stack has to name ---- */

#define KNOWN __attribute__((noinline)) static void

#define FOR_EACH(i, s)                                                                             \
	for (size_t s = 0; s < SIZES; s++)                                                         \
		for (size_t i = 0; i < BYTES_EACH / sizes[s]; i++)

KNOWN heap_gone(struct known *known)
{
	FOR_EACH(i, s)
	{
		void *block = malloc(sizes[s]);

		kymo_alloc(block, sizes[s]);
		made(known, sizes[s]);
		give_back(block);
	}
}

KNOWN heap_kept(struct known *known)
{
	FOR_EACH(i, s)
	{
		void *block = malloc(sizes[s]);

		kymo_alloc(block, sizes[s]);
		made(known, sizes[s]);
		if (i % 2 == 0)
			keep(known, block, sizes[s]);
		else
			give_back(block);
	}
}

KNOWN heap_zeroed(struct known *known)
{
	FOR_EACH(i, s)
	{
		void *block = calloc(1, sizes[s]);

		kymo_alloc(block, sizes[s]);
		made(known, sizes[s]);
		if (i % 3 == 0)
			keep(known, block, sizes[s]);
		else
			give_back(block);
	}
}

KNOWN heap_aligned(struct known *known)
{
	FOR_EACH(i, s)
	{
		size_t bytes = (sizes[s] + LINE - 1) / LINE * LINE;
		void *block = aligned_alloc(LINE, bytes);

		kymo_alloc(block, bytes);
		made(known, bytes);
		if (i % 3 == 0)
			keep(known, block, bytes);
		else
			give_back(block);
	}
}

/* What an allocator does that has its own realloc(). */
static void *resize(struct known *known, void *block, size_t bytes)
{
	struct kymo_alloc_taken taken;
	bool is_taken = kymo_alloc_is_known(block) && kymo_alloc_take(block, &taken);

	block = realloc(block, bytes);
	if (!block)
		exit(66);
	if (is_taken)
		kymo_alloc_end(&taken);
	kymo_alloc(block, bytes);
	made(known, bytes);
	return block;
}

KNOWN heap_grown(struct known *known)
{
	FOR_EACH(i, s)
	{
		void *block;

		if (i % 3)
			continue;
		block = resize(known, NULL, sizes[s]);
		block = resize(known, block, sizes[s] + sizes[s] / 2);
		block = resize(known, block, sizes[s] / 2 + 16);
		if (i % 2 == 0)
			keep(known, block, sizes[s] / 2 + 16);
		else
			give_back(block);
	}
}

static _Atomic(void *) shelf[SHELF];
static atomic_bool is_over;

static void *free_all(void *ctx)
{
	(void)ctx;
	for (bool is_last = false; !is_last; sched_yield()) {
		is_last = atomic_load(&is_over);
		for (size_t i = 0; i < SHELF; i++)
			give_back(atomic_exchange(&shelf[i], NULL));
	}
	return NULL;
}

KNOWN heap_passed(struct known *known)
{
	size_t at = 0;

	FOR_EACH(i, s)
	{
		void *block = malloc(sizes[s]), *none = NULL;

		kymo_alloc(block, sizes[s]);
		made(known, sizes[s]);
		if (i % 4 == 0) {
			keep(known, block, sizes[s]);
			continue;
		}
		while (!atomic_compare_exchange_strong(&shelf[at++ % SHELF], &none, block)) {
			none = NULL;
			sched_yield();
		}
	}
}

static void pass_on(struct known *known)
{
	pthread_t other;

	if (pthread_create(&other, NULL, free_all, NULL) != 0)
		exit(67);
	heap_passed(known);
	atomic_store(&is_over, true);
	pthread_join(other, NULL);
}

/* ---- all of it ---- */

static void say(const char *before, const char *name, void (*call)(struct known *))
{
	struct known known = {0};

	kymo_poll_begin(1, 0, KYMO_QUEUE_UNKNOWN);
	call(&known);
	kymo_poll_end(0);
	printf("%s\"%s\":{\"bytes\":%zu,\"live_bytes\":%zu,\"allocations\":%zu,"
	       "\"live_allocations\":%zu}",
	       before, name, known.bytes, known.live_bytes, known.allocations,
	       known.live_allocations);
}

/* Until the library's thread has made tables of all that stands on this stack. */
static bool wait_for_tables(void)
{
	uint64_t frames[64];
	struct kymo_stack stack = {.frames = frames, .frames_max = 64};
	struct kymo_stack_start from;

	for (int i = 0; i < 30000; i++) {
		KYMO_STACK_HERE(&from);
		kymo_stack_capture(&stack, &from);
		if (stack.end == KYMO_STACK_FIRST && !stack.guessed_count)
			return true;
		nanosleep(&(const struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return false;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	if (argc < 3)
		return 64;
	options.flags = KYMO_RECORDER_STREAM;
	options.gates = KYMO_GATES_DEFAULT | KYMO_GATE_ALLOC;
	options.trace_file = argv[1];
	options.alloc_bytes = strtoull(argv[2], NULL, 10);
	if (kymo_recorder_open(&recorder, &options) < 0)
		return 65;
	kymo_poll_begin(1, 0, KYMO_QUEUE_UNKNOWN);
	kymo_poll_end(0);
	if (!wait_for_tables())
		return 68;
	say("{\"heap\":{", "heap_gone", heap_gone);
	say(",", "heap_kept", heap_kept);
	say(",", "heap_zeroed", heap_zeroed);
	say(",", "heap_aligned", heap_aligned);
	say(",", "heap_grown", heap_grown);
	say(",", "heap_passed", pass_on);
	puts("}}");
	return kymo_recorder_close(recorder) < 0 ? 69 : 0;
}
