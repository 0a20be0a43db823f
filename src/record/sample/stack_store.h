/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stack_store.h - stacks in the ring file, each kept once and never given up: an index by hash, and
 * units of frames that are given out one after the other.
 *
 * Memory:   the index exists; the units are made to, as they are used.
 * Threads:  any, without a lock.      Signals: safe.
 */
#ifndef KY_RECORD_SAMPLE_STACK_STORE_H
#define KY_RECORD_SAMPLE_STACK_STORE_H

#include <wire/place_table.h>

struct ky_stack_store {
	struct ky_place_stack *index;
	uint32_t index_count, unit_count;
	uint8_t *units;
	_Atomic uint64_t *units_used, *refused_count;
};

/* Its number in the index, or `none`: there is no room. */
uint32_t ky_stack_store_number(const struct ky_stack_store *store, const uint64_t *frames,
			       uint32_t count, uint32_t none);

/* The frames of a number it gave, at most frames_max; frames: NULL: none. Returns how many; 0:
 * a thread that was first with this stack is still writing it, or found no room. What the file
 * says is checked, not believed. */
uint32_t ky_stack_store_frames(const struct ky_stack_store *store, uint32_t number,
			       uint64_t *frames, uint32_t frames_max);

#endif
