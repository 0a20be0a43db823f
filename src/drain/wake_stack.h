/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_stack.h - who issued a wake, as a stack in the pool of the open chunk; for src/drain.
 *
 * A WAKE names its stack by a number of the ring's place table. Each number is written to the pool
 * once a chunk; number 0, not known, is the empty stack.
 *
 * Threads: owner.
 */
#ifndef KY_DRAIN_WAKE_STACK_H
#define KY_DRAIN_WAKE_STACK_H

#include <drain/convert_stage.h>

static inline uint32_t ky_wake_stack_number(uint32_t arg)
{
	return (arg >> KYMO_WAKE_STACK_SHIFT) % KY_WAKE_STACKS;
}

/* False: it is not in the chunk's pool yet. */
static inline bool ky_wake_stack_find(const struct ky_convert *convert, uint32_t number,
				      uint32_t *id)
{
	const struct ky_wake_stack *known = &convert->wake_stacks[number];

	*id = known->id;
	return known->chunk == convert->chunk.serial + 1;
}

/* Its id, written to the pool where it is not there yet. */
static inline uint32_t ky_wake_stack_write(struct ky_convert *convert, uint32_t number)
{
	struct ky_wake_stack *known = &convert->wake_stacks[number];
	const uint8_t *area = ky_ring_view_places(&convert->common->ring);
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	uint32_t count = 0;

	if (known->chunk == convert->chunk.serial + 1)
		return known->id;
	if (number && area)
		count = ky_ring_view_place_stack(area, number - 1, frames);
	known->id = ky_trc_enc_stack(&convert->chunk.enc, frames, count);
	known->chunk = convert->chunk.serial + 1;
	return known->id;
}

#endif
