/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_guard.h - a ring is a file that others can truncate while it is mapped, and tmpfs can be
 * full: a fault inside it must end the work on that ring, not the process.
 * Threads: one at a time in the process; not nested.
 */
#ifndef KY_RING_RING_GUARD_H
#define KY_RING_RING_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct ky_guarded_area {
	const uint8_t *start; /* NULL: none */
	size_t bytes;
};
#define KY_GUARDED_AREAS_MAX 520u

/* Calls work(ctx). A bus error inside one of the areas leaves it in the middle: what it held is
 * lost, and KYMO_E_TRUNCATED returned; any other is none of ours. The handler is there only during
 * the call. Returns what work returned, KYMO_E_TRUNCATED, KYMO_E_LIMIT (too many areas). */
int ky_ring_guard(const struct ky_guarded_area *areas, size_t area_count, int (*work)(void *ctx),
		  void *ctx);

#endif
