/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* failed_groups.h - calls that failed again and again, by what failed, why, and in whose polls.
 *
 * Counts are at least so many: a thread reports when its count is a power of two. Most first.
 * Threads: any.
 */
#ifndef KY_ANALYZE_FAILED_GROUPS_H
#define KY_ANALYZE_FAILED_GROUPS_H

#include <base/buf.h>
#include <read/trace.h>

#define KY_FAILED_GROUPS_MAX 16u

struct ky_failed_group {
	uint64_t from_ns, to_ns; /* first and last report */
	uint64_t count;          /* sum over threads; of calls in a row, over rows */
	uint64_t syscall, fd;    /* fd UINT64_MAX: several, or not known */
	uint32_t error;
	uint32_t name; /* of the task: name index; KY_NONE */
};

/* Reports in [from, to); to 0: no end. Returns how many groups. */
uint32_t ky_failed_groups(struct ky_failed_group out[KY_FAILED_GROUPS_MAX],
			  const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns);
/* Key "failing_calls"; none where there are none. */
void ky_failed_groups_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			   uint64_t to_ns);

#endif
