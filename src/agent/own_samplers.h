/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_samplers.h - CPU samples and off-CPU times of a program that links the library: perf events
 * of its own threads, opened, read and walked by the library's thread, as the options, the settings
 * and the gates of its ring want them. No signal reaches the program's own. Where perf_event is
 * refused, yields nothing, or would take too many descriptors, each thread has a timer for its CPU
 * samples (sample/sampler.h); off-CPU times are not measured then.
 *
 * While the process does nothing, its window stays open and records wait in the kernel's rings; in
 * flight mode the next sub-buffer that begins rings the bell.
 * Descriptors: one for each CPU and thread that is there when it begins, KY_OWN_FDS_MAX and a
 *              quarter of what the process may have at most; threads made later take none. A forked
 *              child closes them before it runs, and is not measured.
 * Memory:      4 MiB for off-CPU times, of which little is touched where threads and switches are
 *              few; 128 KiB and 256 KiB a CPU, which the kernel counts against what may be locked.
 * Threads:     the library's thread alone, but for the table of functions.
 */
#ifndef KY_AGENT_OWN_SAMPLERS_H
#define KY_AGENT_OWN_SAMPLERS_H

#include <agent/cpu_sampler.h>
#include <agent/off_cpu_sampler.h>
#include <record/emit/ring_file.h>
#include <record/emit/sampler_hooks.h>

#define KY_OWN_FDS_MAX 512u

struct ky_own_samplers {
	const struct ky_ring *ring; /* whose areas `sampled` has */
	struct ky_sampled_ring sampled;
	struct ky_sampled_rings rings; /* that one */
	struct ky_cpu_sampler samples;
	struct ky_off_cpu_sampler switches;
	bool are_switches_refused;
	uint32_t gates; /* at the last step: closed at the end, the last window is wanted still */
	uint64_t counted_ns, switch_count, switches_per_s; /* of the process */
};

/* For the engine, in place of ky_timer_source, where there is a library's thread. */
extern const struct ky_sampler_hooks ky_own_samplers_hooks;

/* Returns when it wants to be called again, CLOCK_MONOTONIC; UINT64_MAX: when the bell rings. */
uint64_t ky_own_samplers_step(struct ky_own_samplers *own, const struct ky_ring *ring,
			      bool is_streaming);
/* What there is up to now; between: if that is due. */
void ky_own_samplers_fetch(struct ky_own_samplers *own);
void ky_own_samplers_between(struct ky_own_samplers *own);
/* Once no step comes any more: what the last window saw, and what was not watched after it. */
void ky_own_samplers_end(struct ky_own_samplers *own);
void ky_own_samplers_close(struct ky_own_samplers *own);
/* Descriptors that it has. */
uint32_t ky_own_samplers_fds(void);
/* In a forked child: the parent's. */
void ky_own_samplers_forget(struct ky_own_samplers *own);

#endif
