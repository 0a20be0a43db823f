/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* queue_fill.h - how full each queue of a runtime was: percentiles over its samples.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_QUEUE_FILL_H
#define KY_ANALYZE_QUEUE_FILL_H

#include <base/buf.h>
#include <read/queues.h>

struct ky_queue_fill {
	uint64_t sample_count;
	uint64_t max_ns;    /* when it was fullest first; 0: it was always empty, or left out */
	uint64_t worker_id; /* of a worker's queue */
	uint32_t runtime;   /* name index of the runtime; KY_NONE */
	uint32_t min, p50, p90, p99, max;
	bool is_worker;
};

/* Of all queues of the trace, in their order; ky_free() frees it. Returns 0, -ENOMEM. */
int ky_queue_fills(const struct ky_trace *trace, struct ky_queue_fill **out);

/* "queues": an array; nothing where there are none. */
void ky_queue_fills_json(struct ky_buf *out, const struct ky_trace *trace);

#endif
