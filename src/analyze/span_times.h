/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_times.h - when which task was in a span of some name.
 *
 * Memory:      24 bytes a span of the name.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_SPAN_TIMES_H
#define KY_ANALYZE_SPAN_TIMES_H

#include <read/trace.h>

struct ky_span_time {
	uint64_t from_ns, to_ns; /* to: the latest end of the task's spans up to this one */
	uint32_t task;
};

struct ky_span_times {
	struct ky_span_time *list; /* by task, then begin */
	uint32_t count;
};

/* Of spans whose name is `name`, or ends in it after "::"; an open one lasts until the end of the
 * trace. Returns 0, -ENOMEM. */
int ky_span_times_make(struct ky_span_times *out, const struct ky_trace *trace, const char *name);
void ky_span_times_release(struct ky_span_times *times);

/* The longest span of the name that ended, has a task that workers poll, and began in [from, to);
 * to 0: no end. Of equal ones the first. KY_NONE: there is none. */
uint32_t ky_span_longest(const struct ky_trace *trace, const char *name, uint64_t from_ns,
			 uint64_t to_ns);

/* Was the task in one of them at any moment of [from, to]? */
bool ky_span_times_cover(const struct ky_span_times *times, uint32_t task, uint64_t from_ns,
			 uint64_t to_ns);

#endif
