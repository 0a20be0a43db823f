/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_mix - makes a trace as a busy service leaves it.
 *
 *   bench_mix FILE [EVENTS]   (10 M)
 *
 * Eight workers with a queue each and 100,000 tasks in 16 places. A worker takes the oldest task of
 * its queue; where there is none it parks, and the driver then makes some tasks ready. Of the
 * events some 30 % are wakes, 10 % begins and ends of spans, 1.5 % CPU samples with 25 frames. One
 * poll in 5,000 lasts for milliseconds, the others for 0.2 to 13 us, so most waits are short.
 */
#include "making.h"

#include <errno.h>
#include <kymo/base.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 8u
#define TASKS 100000u
#define QUEUE 256u /* of a worker; a power of two */
#define FRAMES 25u
#define LEAVES 4000u /* stacks that differ */

enum state {
	LOOKING,
	PARKED,
	POLLING
};

struct worker {
	enum state state;
	uint64_t next_ns, poll_start_ns;
	uint32_t task, left; /* moments of the poll still to come; its end is the last */
	uint32_t queue[QUEUE], first, last;
};

struct mix {
	struct worker workers[WORKERS];
	uint64_t spans[TASKS + 1]; /* of each task, 0: none is open */
	uint64_t span_count;
	uint8_t is_ready[TASKS + 1];
};

static void wake(struct making *making, struct mix *mix, uint32_t index, bool is_driver)
{
	struct worker *worker = &mix->workers[index];
	uint32_t task = 1 + (uint32_t)(next_random(making) >> 20) % TASKS;

	if (worker->last - worker->first < QUEUE && !mix->is_ready[task]) {
		mix->is_ready[task] = 1;
		worker->queue[worker->last++ % QUEUE] = task;
	}
	add_wake(making, is_driver ? 0 : worker->task, task, index, is_driver ? 3 : 2);
}

static void span(struct making *making, struct mix *mix, const struct worker *worker)
{
	uint64_t *open = &mix->spans[worker->task];
	bool is_begin = !*open;

	if (is_begin)
		*open = ++mix->span_count;
	ky_trc_enc_event(&making->enc, is_begin ? KY_EV_SPAN_ENTER : KY_EV_SPAN_EXIT,
			 making->time_ns);
	ky_trc_enc_opt_varint(&making->enc, true, worker->task);
	ky_trc_enc_varint(&making->enc, *open);
	if (is_begin)
		ky_trc_enc_opt_varint(&making->enc, false, 0);
	ky_trc_enc_u32(&making->enc, making->names[worker->task % 16]);
	if (!is_begin) {
		ky_trc_enc_varint(&making->enc, 0);
		ky_trc_enc_opt_varint(&making->enc, false, 0);
		*open = 0;
	}
	count_event(making);
}

static void sample(struct making *making, uint32_t index, const struct worker *worker)
{
	uint64_t frames[FRAMES], leaf = (next_random(making) >> 20) % LEAVES;
	uint32_t stack;

	for (uint32_t i = 0; i < FRAMES; i++)
		frames[i] = 0x400000 + i * 0x1000 + (leaf >> i) * 16;
	stack = ky_trc_enc_stack(&making->enc, frames, FRAMES);
	ky_trc_enc_event(&making->enc, KY_EV_CPU_SAMPLE, making->time_ns);
	ky_trc_enc_varint(&making->enc, index);
	ky_trc_enc_u32(&making->enc, 1000 + index);
	ky_trc_enc_u8(&making->enc, 0);
	ky_trc_enc_u8(&making->enc, 0);
	ky_trc_enc_u32(&making->enc, stack);
	ky_trc_enc_opt_varint(&making->enc, false, 0);
	ky_trc_enc_varint(&making->enc, 10000000);
	ky_trc_enc_varint(&making->enc, worker->task);
	ky_trc_enc_varint(&making->enc, worker->poll_start_ns);
	ky_trc_enc_u8(&making->enc, 1);
	ky_trc_enc_u8(&making->enc, 0);
	count_event(making);
}

static void begin_poll(struct making *making, struct mix *mix, uint32_t index)
{
	struct worker *worker = &mix->workers[index];
	uint64_t random = next_random(making) >> 16;

	worker->task = worker->queue[worker->first++ % QUEUE];
	mix->is_ready[worker->task] = 0;
	worker->state = POLLING;
	worker->poll_start_ns = making->time_ns;
	worker->left = 2;
	worker->next_ns = making->time_ns + 100 + (random % 6400 >> random % 6);
	if (random % 5000 == 0)
		worker->next_ns += 1000000 + random % 4000000;
	ky_trc_enc_poll_start(&making->enc, making->time_ns, index, 0, worker->task,
			      making->names[worker->task % 16]);
	count_event(making);
}

/* The middle of a poll, and its end. */
static void go_on(struct making *making, struct mix *mix, uint32_t index)
{
	struct worker *worker = &mix->workers[index];
	uint64_t random = next_random(making) >> 16;

	if (--worker->left) {
		if (random % 100 < 34)
			span(making, mix, worker);
		if (random / 100 % 1000 < 51)
			sample(making, index, worker);
		if (random / 100000 % 100 < 70)
			wake(making, mix, index, false);
		worker->next_ns += worker->next_ns - worker->poll_start_ns;
		return;
	}
	ky_trc_enc_poll_end(&making->enc, making->time_ns, index);
	count_event(making);
	worker->state = LOOKING;
	worker->next_ns = making->time_ns + 150;
}

static void step(struct making *making, void *context)
{
	struct mix *mix = context;
	struct worker *worker = &mix->workers[0];
	uint32_t index;

	for (index = 1; index < WORKERS; index++)
		if (mix->workers[index].next_ns < worker->next_ns)
			worker = &mix->workers[index];
	index = (uint32_t)(worker - mix->workers);
	if (worker->next_ns > making->time_ns)
		making->time_ns = worker->next_ns;
	if (worker->state == POLLING) {
		go_on(making, mix, index);
	} else if (worker->first != worker->last) {
		begin_poll(making, mix, index);
	} else if (worker->state == LOOKING) {
		add_park(making, index);
		worker->state = PARKED;
		worker->next_ns = making->time_ns + 500 + (next_random(making) >> 16) % 20000;
	} else {
		add_unpark(making, index);
		for (uint64_t i = 1 + (next_random(making) >> 16) % 8; i > 0; i--)
			wake(making, mix, index, true);
		worker->state = LOOKING;
		worker->next_ns = making->time_ns + 300;
	}
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_mix: %s: %s\n", what, why);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
	struct mix *mix;
	int result;

	if (argc < 2 || argc > 3 || !events)
		return fail("usage", "bench_mix FILE [EVENTS]");
	mix = calloc(1, sizeof(*mix));
	result = mix ? make_trace(argv[1], events, step, mix) : -ENOMEM;
	free(mix);
	return result < 0 ? fail(argv[1], kymo_error_text(result)) : 0;
}
