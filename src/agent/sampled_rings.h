/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sampled_rings.h - the rings that samplers put stacks and off-CPU intervals into: the one of a
 * program that links the library, those of all processes under `kymo run`.
 * Threads: owner. Memory: the rings are the caller's, from add to remove.
 */
#ifndef KY_AGENT_SAMPLED_RINGS_H
#define KY_AGENT_SAMPLED_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind/unwind_table.h>
#include <wire/sample_area.h>

#define KY_SAMPLED_RINGS_MAX 256u

struct ky_sampled_ring {
	uint32_t pid;
	uint64_t made_ns;     /* CLOCK_MONOTONIC: what came before is not of this ring */
	const uint8_t *image; /* mapped, whole */
	size_t image_bytes;
	const uint32_t *gates;              /* atomic; the word that the process's events read */
	struct ky_sample_ring cpu, off_cpu; /* without cells: no samples go there */
	uint32_t wanted_hz; /* by the ring's settings; UINT32_MAX: off, 0: as it was started */
};

struct ky_sampled_rings {
	struct ky_sampled_ring *list[KY_SAMPLED_RINGS_MAX];
	uint32_t count;
	struct ky_sampled_ring *last; /* whose CPU sample came last; NULL: unknown */
};

/* False: there is no room. */
bool ky_sampled_rings_add(struct ky_sampled_rings *rings, struct ky_sampled_ring *ring);
void ky_sampled_rings_remove(struct ky_sampled_rings *rings, struct ky_sampled_ring *ring);

/* The ring of a process at that moment. One that called exec has two for a while: the later one is
 * the next program's. NULL: it records nothing, or not yet. */
struct ky_sampled_ring *ky_sampled_rings_find(const struct ky_sampled_rings *rings, uint32_t pid,
					      uint64_t ns);

/* Without bytes: there are none yet. */
struct ky_unwind_view ky_sampled_ring_tables(const struct ky_sampled_ring *ring);

#endif
