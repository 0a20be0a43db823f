/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_probes.h - samples of a program that links the library: perf_event's, opened, read and
 * walked by the library's thread, so that no signal reaches the program's own. Where that is
 * refused, yields nothing, or would take too many descriptors, each thread has a timer
 * (sample/sampler.h).
 *
 * Descriptors: one for each processor and thread that is there when it begins, OWN_SAMPLER_FDS_MAX
 *              and a quarter of what the process may have at most, those of own_switches.h among
 *              them; threads made later take none. A forked child closes them before it runs, and
 *              is not sampled.
 * Threads:     the library's thread alone, but for the table of functions.
 */
#ifndef KY_AGENT_OWN_PROBES_H
#define KY_AGENT_OWN_PROBES_H

#include <record/emit/ring_file.h>
#include <record/emit/sampler_hooks.h>
#include <probe/perf_source.h>
#include <probe/sample_duty.h>

#define KY_OWN_SAMPLER_FDS_MAX 512u

struct ky_own_sampler {
	const struct ky_ring *ring; /* whose area `slots` are */
	struct ky_sample_ring slots;
	struct ky_perf *perf;
	struct ky_perf_options how;
	bool is_tested;
	int refusal;      /* -errno: timers stand in */
	uint32_t rate_hz; /* the events' now */
	uint64_t lost_told;
	uint64_t due_ns;         /* CLOCK_MONOTONIC: its rings are half full at the latest */
	uint64_t switch_cost_ns; /* 0: not tried yet */
	struct ky_sample_duty duty;
	uint64_t counted_ns, switch_count, switches_per_s; /* of the process */
};

/* For the engine, in place of ky_timer_source, where there is a library's thread. */
extern const struct ky_sampler_hooks ky_own_sampler_hooks;

/* What is left of the descriptors that the library may take. Threads: the library's. */
uint32_t ky_own_sampler_fds_left(void);

/* Opens, reads, stops as the options and the ring's settings want it. Returns when it wants to be
 * called again, CLOCK_MONOTONIC; UINT64_MAX: when the bell rings. */
uint64_t ky_own_sampler_step(struct ky_own_sampler *sampler, const struct ky_ring *ring);
/* What there is up to now. */
void ky_own_sampler_fetch(struct ky_own_sampler *sampler);
/* The same if that is due: between two pieces of work that takes the library's thread longer than
 * the rings last. */
void ky_own_sampler_between(struct ky_own_sampler *sampler);
void ky_own_sampler_close(struct ky_own_sampler *sampler);
/* In a forked child: the parent's. */
void ky_own_sampler_forget(struct ky_own_sampler *sampler);

#endif
