/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_walk.h - the wakes of a range of time, one worker after the other.
 *
 * Threads:     owner. Memory: none but the structure.
 */
#ifndef KY_ANALYZE_WAKE_WALK_H
#define KY_ANALYZE_WAKE_WALK_H

#include <read/trace.h>

struct ky_wake_walk {
	const struct ky_trace *trace;
	uint64_t from_ns, to_ns; /* of the trace's clock, with both ends */
	uint64_t row;            /* of the worker, the next one */
	uint32_t worker, found;  /* whose first row is found: this one, counted from 1 */
};

/* walk: trace and range set, the rest zeros. False: there is no more. */
static inline bool ky_wake_walk_next(struct ky_wake_walk *walk, struct ky_wake *out)
{
	for (; walk->worker < walk->trace->worker_count; walk->worker++) {
		const struct ky_column *wakes = &walk->trace->workers[walk->worker].wakes;

		if (walk->found != walk->worker + 1) {
			walk->row = ky_column_find(wakes, walk->from_ns);
			walk->found = walk->worker + 1;
		}
		if (walk->row >= wakes->row_count)
			continue;
		ky_trace_wake(walk->trace, walk->worker, walk->row++, out);
		if (out->time_ns <= walk->to_ns)
			return true;
	}
	return false;
}

#endif
