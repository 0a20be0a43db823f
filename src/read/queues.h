/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* queues.h - how many tasks stood in the queues of a runtime, where the trace has samples of that:
 * dial9 takes one of a runtime's own queue every 10 ms, and one of a worker's with each poll and
 * park.
 *
 * Invariants:  rows of a queue ascend in time. A worker's queue has a row where its depth changed;
 *              depths counts each of its samples.
 * Memory:      12 bytes a row, at most 2^22 of them, and 2 KiB a worker's queue.
 */
#ifndef KY_READ_QUEUES_H
#define KY_READ_QUEUES_H

#include <read/trace.h>

#define KY_QUEUE_DEPTHS 256u /* a worker's depth ends at 255 */

struct ky_queue_row {
	uint32_t delta_ns; /* see column.h */
	uint32_t depth;
	uint32_t alive_tasks; /* UINT32_MAX: not said */
};

struct ky_trace_queue {
	struct ky_column rows;
	uint64_t sample_count;
	uint64_t *depths;   /* of a worker's queue: samples by depth; NULL: of a runtime */
	uint64_t worker_id; /* of a worker's queue */
	uint32_t runtime;   /* name index of the runtime, KY_NONE unnamed; of a worker's: its */
};

struct ky_queue_sample {
	uint64_t time_ns;
	uint32_t depth, alive_tasks;
};

void ky_queue_sample(const struct ky_trace_queue *queue, uint64_t row, struct ky_queue_sample *out);

/* The greatest depth at any moment of [from, to]: of samples in it, and of the last before it.
 * Returns false where no sample tells. */
bool ky_queue_depth_max(const struct ky_trace_queue *queue, uint64_t from_ns, uint64_t to_ns,
			uint32_t *depth);

/* The queue of a worker, and of its runtime; NULL: the trace has no samples of it. */
const struct ky_trace_queue *ky_trace_worker_queue(const struct ky_trace *trace, uint32_t worker);
const struct ky_trace_queue *ky_trace_runtime_queue(const struct ky_trace *trace, uint32_t worker);

#endif
