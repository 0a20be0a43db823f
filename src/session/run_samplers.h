/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_samplers.h - CPU samples and off-CPU times of all processes of a `kymo run`: one set of perf
 * events for all of them, opened while CMD waits for its exec; windows of switches, from the first
 * ring on whose process lives; and the area of each ring, by its descriptor. Where perf_event is
 * refused or yields nothing, the processes sample themselves.
 *
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_SAMPLERS_H
#define KY_SESSION_RUN_SAMPLERS_H

#include <agent/agent_options.h>
#include <agent/sampled_rings.h>
#include <ring/ring_guard.h>
#include <session/run_child.h>
#include <stdint.h>

struct ky_run_samplers;

/* A ring, and the part of it that is mapped for writing. */
struct ky_run_sampled {
	struct ky_sampled_ring ring; /* first */
	uint8_t *area;               /* its sample area; NULL: none */
	size_t area_bytes;
	int fd; /* of the ring's file; the ring's owner has it */
};

/* options: must stay. Returns 0, -ENOMEM; that nothing can be sampled is no error. */
int ky_run_samplers_open(struct ky_run_samplers **out, const struct ky_sampling_options *options);
void ky_run_samplers_close(struct ky_run_samplers *samplers);

/* Opens the events for CMD while it waits. variable: KYMO_SAMPLE=... of its environment; NULL:
 * there is none. */
struct ky_run_gate ky_run_samplers_gate(struct ky_run_samplers *samplers, char *variable);

/* Opens the events for all threads of a process that runs already. Returns 0, also where none are
 * wanted; -errno: the process may sample itself. */
int ky_run_samplers_attach(struct ky_run_samplers *samplers, uint32_t pid);

/* A ring has come, of which pid, made_ns and the image are filled in: its area exists from now on,
 * where it can be had. fd: open for writing. All below: samplers NULL: no-op. */
void ky_run_samplers_add(struct ky_run_samplers *samplers, struct ky_run_sampled *sampled, int fd);
void ky_run_samplers_remove(struct ky_run_samplers *samplers, struct ky_run_sampled *sampled);

/* Reads what there is into the areas. Returns when it wants to be called again, CLOCK_MONOTONIC, so
 * that the kernel's rings do not overflow; UINT64_MAX: no time is too late. */
uint64_t ky_run_samplers_step(struct ky_run_samplers *samplers);
/* Descriptors that are readable when it wants to be called at once, at most max; returns how many.
 * The other: one of them reported something else. */
uint32_t ky_run_samplers_fds(struct ky_run_samplers *samplers, int *out, uint32_t max);
void ky_run_samplers_are_mute(struct ky_run_samplers *samplers);
/* The processes hardly run, and the caller is woken soon when they do. */
bool ky_run_samplers_are_resting(const struct ky_run_samplers *samplers);
/* No ring of samples fills so fast that it must be read at a certain time. */
bool ky_run_samplers_can_wait(const struct ky_run_samplers *samplers);
/* Nor would a window of switches that begins or ends a second later lose any. */
bool ky_run_samplers_can_be_late(const struct ky_run_samplers *samplers);
/* The last one: what has not begun yet does not begin. */
void ky_run_samplers_end(struct ky_run_samplers *samplers);

/* The same inside ky_ring_guard() of what ky_run_samplers_areas() names, for ky_drain_options.
 * ctx: the samplers. */
void ky_run_samplers_fetch(void *ctx);
/* The same at a ring's end, so guarded: with what was not watched up to there. */
void ky_run_samplers_fetch_last(struct ky_run_samplers *samplers);

/* What it touches: at most KY_RUN_SAMPLERS_AREAS_MAX. Returns how many. */
#define KY_RUN_SAMPLERS_AREAS_MAX (2 * KY_SAMPLED_RINGS_MAX)
uint32_t ky_run_samplers_areas(const struct ky_run_samplers *samplers, struct ky_guarded_area *out);

#endif
