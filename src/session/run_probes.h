/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_probes.h - CPU samples and off-CPU times of all processes of a `kymo run`: one set of perf
 * events for all of them, opened while CMD waits for its exec, and the area of each ring, by its
 * descriptor. Where perf_event is refused or yields nothing, the processes sample themselves.
 *
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_PROBES_H
#define KY_SESSION_RUN_PROBES_H

#include <agent/agent_options.h>
#include <agent/probed_rings.h>
#include <ring/ring_guard.h>
#include <session/run_child.h>
#include <stdint.h>

struct ky_run_probes;

/* A ring, and the part of it that is mapped for writing. */
struct ky_run_probed {
	struct ky_probed_ring ring; /* first */
	uint8_t *area;              /* its sample area; NULL: none */
	size_t area_bytes;
};

/* options: must stay. Returns 0, -ENOMEM; that nothing can be sampled is no error. */
int ky_run_probes_open(struct ky_run_probes **out, const struct ky_sampling_options *options);
void ky_run_probes_close(struct ky_run_probes *probes);

/* Opens the events for CMD while it waits. variable: KYMO_SAMPLE=... of its environment; NULL:
 * there is none. */
struct ky_run_gate ky_run_probes_gate(struct ky_run_probes *probes, char *variable);

/* Opens the events for all threads of a process that runs already. Returns 0, also where none are
 * wanted; -errno: the process may sample itself. */
int ky_run_probes_attach(struct ky_run_probes *probes, uint32_t pid);

/* A ring has come, of which pid, made_ns and the image are filled in: its area exists from now on,
 * where it can be had. fd: open for writing. All below: probes NULL: no-op. */
void ky_run_probes_add(struct ky_run_probes *probes, struct ky_run_probed *probed, int fd);
void ky_run_probes_remove(struct ky_run_probes *probes, struct ky_run_probed *probed);

/* Reads what there is into the areas. Returns when it wants to be called again, CLOCK_MONOTONIC, so
 * that the kernel's rings do not overflow; UINT64_MAX: no time is too late. */
uint64_t ky_run_probes_step(struct ky_run_probes *probes);

/* The same inside ky_ring_guard() of what ky_run_probes_areas() names, for ky_drain_options.
 * ctx: the probes. */
void ky_run_probes_fetch(void *ctx);
/* The same at a ring's end, so guarded: with what was not watched up to there. */
void ky_run_probes_fetch_last(struct ky_run_probes *probes);

/* What it touches: at most KY_RUN_PROBES_AREAS_MAX. Returns how many. */
#define KY_RUN_PROBES_AREAS_MAX (2 * KY_PROBED_RINGS_MAX)
uint32_t ky_run_probes_areas(const struct ky_run_probes *probes, struct ky_guarded_area *out);

#endif
