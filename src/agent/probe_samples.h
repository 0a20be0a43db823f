/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_samples.h - samples of the processor for all processes of a `kymo run`: perf_event's, read
 * here, walked here and put into the sample area of the ring of the process they are of. Where
 * perf_event is refused or yields nothing, the processes are told to sample themselves.
 *
 * What ran, what was refused and what was lost stands in the area, and so in the trace.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_SAMPLES_H
#define KY_AGENT_PROBE_SAMPLES_H

#include <agent/agent_options.h>
#include <ring/ring_guard.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <wire/ring_image.h>
#include <wire/sample_area.h>

struct ky_run_sampler;

/* One ring, as the sampler knows it. */
struct ky_run_sampled {
	uint32_t pid;
	uint64_t made_ns;
	const uint8_t *image; /* mapped for reading, whole */
	size_t image_bytes;
	uint8_t *area; /* its sample area, mapped for writing; NULL: none */
	size_t area_bytes;
	struct ky_sample_ring cpu, off_cpu;
	uint32_t wanted_hz; /* by the ring's settings; UINT32_MAX: off, 0: as it was started */
};

/* The ring of a process at that moment. One that called exec has two for a while: the later one is
 * the next image's. NULL: it records nothing, or not yet. */
struct ky_run_sampled *ky_run_sampled_find(struct ky_run_sampled *const *sampled, uint32_t count,
					   uint32_t pid, uint64_t ns);

/* Is this gate of its ring open now? */
bool ky_run_sampled_has_gate(const struct ky_run_sampled *sampled, uint32_t gate);

/* options: must stay. Returns 0, -ENOMEM; that nothing can be sampled is no error. */
int ky_run_sampler_open(struct ky_run_sampler **out, const struct ky_sampling_options *options);
void ky_run_sampler_close(struct ky_run_sampler *sampler);

/* What is to be done between the fork and the exec of CMD, to watch it from its first instruction
 * on: `parent` while the child waits, then `child`, in it, with what parent returned. */
struct ky_run_gate {
	uint8_t (*parent)(void *ctx, pid_t pid);
	void (*child)(void *ctx, uint8_t verdict);
	void *ctx;
};

/* Opens the events for CMD while it waits. */
struct ky_run_gate ky_run_sampler_gate(struct ky_run_sampler *sampler, char *variable);

/* Opens the events for all threads of a process that runs already. Returns 0, also where none are
 * wanted; -errno: the process may sample itself. */
int ky_run_sampler_attach(struct ky_run_sampler *sampler, uint32_t pid);

/* A ring has come: its area exists from now on, where it can be had. fd: open for writing. */
void ky_run_sampler_add(struct ky_run_sampler *sampler, struct ky_run_sampled *sampled, int fd);
void ky_run_sampler_remove(struct ky_run_sampler *sampler, struct ky_run_sampled *sampled);

/* Reads what there is into the areas. Returns within how many nanoseconds it wants to be called
 * again, so that the kernel's rings do not overflow; UINT64_MAX: whenever. */
uint64_t ky_run_sampler_step(struct ky_run_sampler *sampler);

/* The same inside ky_ring_guard() of what ky_run_sampler_areas() tells, for ky_drain_options.
 * ctx: the sampler. */
void ky_run_sampler_fetch(void *ctx);
/* The same at a ring's end, so guarded: what was not watched up to there is told as well. */
void ky_run_sampler_fetch_last(struct ky_run_sampler *sampler);

/* What it touches: at most KY_SAMPLER_AREAS_MAX. Returns how many. sampler: NULL: none. */
#define KY_SAMPLER_AREAS_MAX 512u
uint32_t ky_run_sampler_areas(const struct ky_run_sampler *sampler, struct ky_guarded_area *out);

/* KYMO_SAMPLE of the environment: for whoever samples itself. */
#define KY_SAMPLE_VARIABLE "KYMO_SAMPLE"

#endif
