/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* root_uses.h - what is known of each root, the future of a block_on: its polls by their bounds.
 * Threads: any.
 */
#ifndef KY_ANALYZE_ROOT_USES_H
#define KY_ANALYZE_ROOT_USES_H

#include <base/buf.h>
#include <read/trace.h>

struct ky_root_bounds {
	uint64_t least, most;
};

struct ky_root_use {
	uint32_t task; /* index */
	uint32_t tid;  /* of its last poll */
	uint64_t poll_count;
	/* Of them, the begin is not known: they are in no `most`. */
	uint64_t unbounded_count;
	struct ky_root_bounds poll_max_ns, delay_max_ns; /* delay: from wake to poll */
	uint64_t delay_count;
	uint64_t wait_count, wait_ns, wait_max_ns; /* between its polls */
};

/* Polls that ended in [from, to]. Most waiting first; ky_free() frees it. Returns 0, -ENOMEM. */
int ky_root_uses(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		 struct ky_root_use **out, uint32_t *count);

/* Key "roots": a list; none where the trace has no root. */
void ky_root_uses_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns);

#endif
