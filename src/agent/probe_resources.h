/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_resources.h - what a process uses and what limits it, as rows in the resource area of its
 * ring: once an interval, as it was started or as the ring's settings say.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_RESOURCES_H
#define KY_AGENT_PROBE_RESOURCES_H

#include <agent/probes.h>
#include <agent/ring_access.h>
#include <probe/resource_source.h>
#include <ring/ring_view.h>

struct ky_probe_resources {
	/* the owner's */
	struct ky_ring_area area;                 /* of another's ring the access alone */
	uint64_t ring_bytes;                      /* of our own; of another's the view says it */
	uint64_t interval_ns, flight_interval_ns; /* as it was started; 0: off */
	const struct ky_proc_reader *process; /* NULL: the calling one, opened for each reading */
	bool (*may_read)(void);               /* NULL: always */

	struct ky_resource_source source;
	bool is_announced;         /* in the ring's header */
	struct ky_proc_reader own; /* open during a step alone */
};

/* resources: zeros, or what was one. view: of another's ring, which may have rows already; NULL:
 * our own. */
struct ky_probe ky_probe_resources_init(struct ky_probe_resources *resources,
					const struct ky_ring_view *view);

/* The last reading, whenever the next one is due: the process or its recording ends. */
void ky_probe_resources_last(struct ky_probe_resources *resources, uint32_t resource_ms,
			     uint64_t now_ns);

#endif
