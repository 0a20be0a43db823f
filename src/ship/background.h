/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* background.h - a thread between the drain and its sink: the drain keeps reading while a chunk
 * is compressed, written and synced.
 *
 * Order:   chunks reach the sink one at a time, in the order they came. When the queue is full the
 *          caller waits, so a slow disk shows as a full ring, which the drain counts.
 * Errors:  the sink refuses a chunk later than the drain passed it on. That one and those after
 *          it up to the next start of a segment are dropped and kept as a loss; the next chunk
 *          that is given out is refused, so that the drain begins a new segment.
 * Threads: one caller; the sink runs in the thread alone, with all signals blocked.
 */
#ifndef KY_SHIP_BACKGROUND_H
#define KY_SHIP_BACKGROUND_H

#include <stdbool.h>
#include <wire/chunk.h>

struct ky_background;

/* bytes_max: of chunks that wait. Returns 0, -ENOMEM, -EAGAIN when no thread can be made. */
int ky_background_open(struct ky_background **out, ky_chunk_fn sink, void *sink_ctx,
		       size_t bytes_max);
void ky_background_close(struct ky_background *background); /* after all that waits; NULL: no-op */

/* A ky_chunk_fn: ctx is the background. Copies the chunk. Returns 0; the sink's error; -ENOMEM. */
int ky_background_chunk(void *ctx, const struct ky_chunk *chunk);

/* Returns once the sink has seen all chunks. */
void ky_background_wait(struct ky_background *background);

/* What was dropped since the last call. False: nothing. Returns the sink's last error in *error. */
bool ky_background_take_loss(struct ky_background *background, struct ky_chunk_loss *out,
			     int *error);

/* All of it, for an output that may have no queue. */
struct ky_background_functions {
	int (*open)(struct ky_background **out, ky_chunk_fn sink, void *sink_ctx, size_t bytes_max);
	void (*close)(struct ky_background *background);
	ky_chunk_fn chunk;
	void (*wait)(struct ky_background *background);
	bool (*take_loss)(struct ky_background *background, struct ky_chunk_loss *out, int *error);
};
extern const struct ky_background_functions ky_background_functions;

#endif
