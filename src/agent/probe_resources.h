/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_resources.h - what a program that links the library uses, looked at by the library's
 * thread: every second while it streams, every ten in flight mode, where nothing else wakes that
 * thread, or as the options or the ring's settings say. Not in a confined process.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_RESOURCES_H
#define KY_AGENT_PROBE_RESOURCES_H

#include <record/emit/ring_file.h>
#include <probe/resource_source.h>

struct ky_probe_resources {
	struct ky_resource_source source;
	struct ky_proc_look look; /* open during a step alone */
	const struct ky_ring *ring;
};

/* Returns when to call again, CLOCK_MONOTONIC; UINT64_MAX: when something changes. */
uint64_t ky_probe_resources_step(struct ky_probe_resources *own, const struct ky_ring *ring,
				 bool is_streaming);

#endif
