/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* off_cpu_sampler.h - when threads of the processes of a set of rings were off a CPU, by the
 * windows of probe/switch_windows.h: into the ring of the process they are of, where its gate for
 * that is open.
 *
 * Threads: owner. What touches a ring of another process runs inside ky_ring_guard().
 */
#ifndef KY_AGENT_OFF_CPU_SAMPLER_H
#define KY_AGENT_OFF_CPU_SAMPLER_H

#include <agent/sampled_rings.h>
#include <probe/switch_windows.h>

struct ky_off_cpu_sampler {
	const struct ky_sampled_rings *rings;
	struct ky_switch_windows *windows; /* NULL: none */
	uint64_t fetched_ns;
};

/* Tests on ourselves what this machine allows: see ky_switch_windows_refusal().
 *
 * rings     outlive the sampler
 * how       with is_switches
 * can_rest  in the process that is watched: while it does nothing, a window stays open and no time
 *           ends it. An external probe records who ended a wait, too, where that is allowed
 * Returns   0, -ENOMEM
 */
int ky_off_cpu_sampler_open(struct ky_off_cpu_sampler *sampler,
			    const struct ky_sampled_rings *rings, const struct ky_perf_options *how,
			    bool can_rest);
/* All below: also of a sampler of zeros. */
void ky_off_cpu_sampler_close(struct ky_off_cpu_sampler *sampler);

/* A ring has come: what its area says about the source. */
void ky_off_cpu_sampler_describe(const struct ky_off_cpu_sampler *sampler,
				 const struct ky_sampled_ring *ring);

/* Returns when it wants to be called again, CLOCK_MONOTONIC; UINT64_MAX: no time is too late. */
uint64_t ky_off_cpu_sampler_step(struct ky_off_cpu_sampler *sampler);

/* What there is up to now, so that a drain finds it. */
void ky_off_cpu_sampler_fetch(struct ky_off_cpu_sampler *sampler);
/* The same if that is due: between two pieces of work that take longer than the kernel's rings
 * last. */
void ky_off_cpu_sampler_between(struct ky_off_cpu_sampler *sampler);

/* A ring ends: the time after the last window was not watched. */
void ky_off_cpu_sampler_report_gap(const struct ky_off_cpu_sampler *sampler);
/* No step comes any more: that, and what the last window saw. */
void ky_off_cpu_sampler_end(struct ky_off_cpu_sampler *sampler);

#endif
