/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probes.h - what an agent reads of a process beside its events: resources, modules, unwind tables.
 *
 * A function of its own makes each probe, with its options, and returns it. From then on all are
 * alike, and a caller steps an array of them. A probe of zeros does nothing.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBES_H
#define KY_AGENT_PROBES_H

#include <stddef.h>
#include <stdint.h>

struct ky_drain;

struct ky_probe_moment {
	uint64_t now_ns;         /* CLOCK_MONOTONIC */
	uint32_t resource_ms;    /* of the ring's settings; 0: as it was started, UINT32_MAX: off */
	struct ky_drain *stream; /* NULL: in flight mode */
};

struct ky_probe { /* a function that is NULL has nothing to do */
	void *self;
	/* Does what is due. Returns when again, CLOCK_MONOTONIC; UINT64_MAX: when something
	 * changes. */
	uint64_t (*step)(void *self, const struct ky_probe_moment *moment);
	void (*describe)(void *self, struct ky_drain *drain); /* metadata, at the end */
	void (*close)(void *self);
};

/* In their order. Returns when the first of them is due again. */
uint64_t ky_probes_step(const struct ky_probe *probes, size_t count,
			const struct ky_probe_moment *moment);
void ky_probes_describe(const struct ky_probe *probes, size_t count, struct ky_drain *drain);
void ky_probes_close(struct ky_probe *probes, size_t count); /* leaves zeros */

#endif
