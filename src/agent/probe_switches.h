/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_switches.h - times off the processor of a program that links the library, by the kernel's
 * switch records: the windows of sample/switch_windows.h, opened, read and paid for by the
 * library's thread, as the options and the ring's gate want them.
 *
 * While the process does nothing, nobody is woken for it: the window stays open, records wait in
 * the kernel's rings, and in flight mode the next sub-buffer that is begun rings the bell.
 * Descriptors: with those of own_sampler.h no more than that one may have alone; else it says so
 *              and does nothing. A forked child closes them before it runs.
 * Memory:      some 4 MiB, of which little is touched where threads and switches are few; 128 KiB
 *              a processor, which the kernel counts against what may be locked.
 * Threads:     the library's thread alone, but for what a forked child calls.
 */
#ifndef KY_AGENT_PROBE_SWITCHES_H
#define KY_AGENT_PROBE_SWITCHES_H

#include <record/emit/ring_file.h>

struct ky_switch_windows;

struct ky_own_switches {
	const struct ky_ring *ring; /* whose area `slots` are */
	struct ky_sample_ring slots;
	struct ky_switch_windows *windows; /* NULL: none */
	bool is_refused;
	bool is_wanted; /* by the gate, at the last step */
	uint64_t fetched_ns;
};

/* Returns when it wants to be called again, CLOCK_MONOTONIC; UINT64_MAX: when the bell rings. */
uint64_t ky_own_switches_step(struct ky_own_switches *own, const struct ky_ring *ring,
			      bool is_streaming);
/* What there is up to now. */
void ky_own_switches_fetch(struct ky_own_switches *own);
/* The same if that is due: between two pieces of work that takes the library's thread longer than
 * the rings last. */
void ky_own_switches_between(struct ky_own_switches *own);
/* Once there will be no step any more: what the last window saw, and what nobody saw behind it. */
void ky_own_switches_end(struct ky_own_switches *own);
void ky_own_switches_close(struct ky_own_switches *own);

/* How many it has. Threads: as above. */
uint32_t ky_own_switches_fds(void);
/* In a forked child, before it runs: closes the parent's. Signal-safe. */
void ky_own_switches_fork_child(void);
/* In a forked child: the parent's. */
void ky_own_switches_forget(struct ky_own_switches *own);

#endif
