/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_filters.h - allows a recorded process the system calls that readings of its threads take:
 * getrusage, clock_gettime, open, pread.
 *
 * A program may put itself under a filter that kills for calls that it does not make itself, by a
 * way that nobody in it can see. So a process that `kymo run` records makes none until we have seen
 * it record an event, without more filters than we run under; every second we look again, and take
 * the permission back. A filter that comes later than the first event is seen up to a second late.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_FILTERS_H
#define KY_AGENT_PROBE_FILTERS_H

#include <agent/probes.h>
#include <agent/ring_access.h>
#include <ring/ring_view.h>

struct ky_probe_filters {
	const struct ky_ring_view *view;
	struct ky_ring_access access;
	uint64_t due_ns;
	int process; /* descriptor of /proc/PID, ours; -1 */
	int own;     /* filters that we run under */
	bool is_allowed;
};

/* view, access: of the ring, which outlives the probe. */
struct ky_probe ky_probe_filters_init(struct ky_probe_filters *filters, uint32_t pid,
				      const struct ky_ring_view *view,
				      const struct ky_ring_access *access);

#endif
