/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_switches.h - when threads of the processes of a set of rings were off a CPU, by the
 * windows of probe/switch_windows.h: into the ring of the process they are of, where its gate for
 * that is open.
 *
 * Threads: owner. What touches a ring of another process runs inside ky_ring_guard().
 */
#ifndef KY_AGENT_PROBE_SWITCHES_H
#define KY_AGENT_PROBE_SWITCHES_H

#include <agent/probed_rings.h>
#include <probe/switch_windows.h>

struct ky_probe_switches {
	const struct ky_probed_rings *rings;
	struct ky_switch_windows *windows; /* NULL: none */
	uint64_t fetched_ns;
};

/* Tests on ourselves what this machine allows: see ky_switch_windows_refusal().
 *
 * rings     outlive the probe
 * how       with is_switches
 * can_rest  in the process that is watched: while it does nothing, a window stays open and no time
 *           ends it. From outside, who ended a wait is asked for, too, where that is allowed
 * Returns   0, -ENOMEM
 */
int ky_probe_switches_open(struct ky_probe_switches *probe, const struct ky_probed_rings *rings,
			   const struct ky_perf_options *how, bool can_rest);
/* All below: also of a probe of zeros. */
void ky_probe_switches_close(struct ky_probe_switches *probe);

/* A ring has come: what its area says about the source. */
void ky_probe_switches_describe(const struct ky_probe_switches *probe,
				const struct ky_probed_ring *ring);

/* Returns when it wants to be called again, CLOCK_MONOTONIC; UINT64_MAX: no time is too late. */
uint64_t ky_probe_switches_step(struct ky_probe_switches *probe);

/* What there is up to now, so that a drain finds it. */
void ky_probe_switches_fetch(struct ky_probe_switches *probe);
/* The same if that is due: between two pieces of work that take longer than the kernel's rings
 * last. */
void ky_probe_switches_between(struct ky_probe_switches *probe);

/* A ring ends: the time after the last window was not watched. */
void ky_probe_switches_report_gap(const struct ky_probe_switches *probe);
/* No step comes any more: that, and what the last window saw. */
void ky_probe_switches_end(struct ky_probe_switches *probe);

#endif
