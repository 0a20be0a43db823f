/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* record_queue.h - records of one source in the order of their stamps, on their way from the ring
 * to the merge; for src/drain.
 *
 * Invariants:  recs[head .. tail) wait; a record of more than one payload word is followed by a
 *              KY_REC_MORE.
 * Memory:      grows, is kept for reuse; ky_queue_give_back() frees what an empty queue holds.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_RECORD_QUEUE_H
#define KY_DRAIN_RECORD_QUEUE_H

#include <kymo/emit.h>
#include <stdbool.h>
#include <stdint.h>

/* One record as it waits for its turn. A record of three words is followed by a KY_REC_MORE. */
struct ky_rec {
	uint64_t ticks;
	uint64_t a;
	uint32_t type; /* enum kymo_record or enum ky_rec_own */
	uint32_t arg;
};

enum ky_rec_own {
	KY_REC_MORE = 0x100, /* ticks = b, a = c of the record before */
	/* a: records lost; arg: enum ky_loss_cause | KY_GAP_INEXACT; MORE: ticks = last stamp */
	KY_REC_GAP,
	/* a: task word; arg: depth; MORE: ticks = begin ticks, a = polls open in all */
	KY_REC_CARRIED,
	KY_REC_EXIT, /* the thread is over */
	/* after a gap it is this worker: a: task word; MORE: ticks = runtime, a = identity */
	KY_REC_WORKER,
	KY_REC_NOTE,   /* a: which of the notes */
	KY_REC_SAMPLE, /* a: which of the waiting samples */
	KY_REC_GATES   /* a: gates, by the header of a sub-buffer */
};
#define KY_GAP_INEXACT 0x100u

struct ky_queue {
	struct ky_rec *recs;
	uint32_t head, tail, capacity;
};

/* Of all queues of a drain. */
struct ky_queue_sums {
	uint64_t waiting; /* records */
	uint64_t bytes;   /* of memory, with what is empty */
};

/* Room for so many more records. Returns 0, -ENOMEM. */
int ky_queue_reserve(struct ky_queue *queue, struct ky_queue_sums *sums, uint32_t count);
/* Returns 0, -ENOMEM. */
int ky_queue_push(struct ky_queue *queue, struct ky_queue_sums *sums, const struct ky_rec *rec);
void ky_queue_give_back(struct ky_queue *queue, struct ky_queue_sums *sums);

static inline bool ky_queue_is_empty(const struct ky_queue *queue)
{
	return queue->head == queue->tail;
}

#endif
