/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* live_copy.h - what a ring has of the last seconds, as a trace in memory: for what is shown live.
 *
 * The process is not asked and does not wait. Memory: KY_LIVE_COPY_BYTES_MAX of the ring, and the
 * trace.     Threads: one at a time in the process (ring_guard.h).
 */
#ifndef KY_CLI_LIVE_COPY_H
#define KY_CLI_LIVE_COPY_H

#include <agent/named_dump.h>
#include <base/buf.h>

#define KY_LIVE_COPY_BYTES_MAX (64u << 20) /* of a larger ring the newest */

struct ky_live_copy {
	const struct ky_open_ring *ring;
	uint64_t last_ns;
	bool gives_way; /* the calling thread, to all others, for good */
	struct ky_dump_job job;
};

/* Appends the trace. Returns 0; -ENODATA: nothing is in that time; a negative error. */
int ky_live_copy(struct ky_live_copy *copy, struct ky_buf *out);

#endif
