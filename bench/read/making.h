/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* making.h - a trace of millions of events, made with the encoder and cut into chunks as the drain
 * cuts them.
 */
#ifndef KY_BENCH_READ_MAKING_H
#define KY_BENCH_READ_MAKING_H

#include <base/buf.h>
#include <stdint.h>
#include <stdio.h>
#include <wire/trc_enc.h>

struct making {
	struct ky_buf buf;
	struct ky_trc_enc enc;
	FILE *out;
	uint64_t time_ns, events, chunk_events, random;
	uint32_t names[16]; /* of 16 kinds of tasks, in the pool of the chunk */
};

static inline uint64_t next_random(struct making *making)
{
	making->random ^= making->random << 13;
	making->random ^= making->random >> 7;
	making->random ^= making->random << 17;
	return making->random;
}

static inline void count_event(struct making *making)
{
	making->events++;
	making->chunk_events++;
}

/* Writes `events` events to a new file, by calling step() again and again. Returns 0 or -errno. */
int make_trace(const char *path, uint64_t events,
	       void (*step)(struct making *making, void *context), void *context);
void add_wake(struct making *making, uint64_t waker, uint64_t woken, uint32_t worker,
	      uint8_t origin);
void add_park(struct making *making, uint32_t worker);
void add_unpark(struct making *making, uint32_t worker);

#endif
