/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/slot_plan.h>

#include <stdlib.h>

static void list_slot(struct ky_copy *copy, uint32_t slot, uint64_t expected)
{
	struct ky_slot_cursor *cursor = &copy->cursors[slot];

	if (expected > cursor->expected)
		cursor->expected = expected;
	if (cursor->is_listed)
		return;
	cursor->is_listed = true;
	copy->listed[copy->listed_count++] = slot;
}

/* Puts the slots on the list that were given out since the last step. */
static void list_claims(struct ky_copy *copy)
{
	const struct ky_ring_view *ring = &copy->common->ring;
	uint64_t from = copy->claim_index,
		 to = atomic_load_explicit(&ring->header->claim_index, memory_order_acquire);
	uint32_t usable = ky_ring_view_usable(ring), populated = ky_ring_view_populated(ring);

	if (usable > ring->slot_count)
		usable = ring->slot_count;
	copy->claim_index = to;
	if (!usable || to == from)
		return;
	/* The first reading, a whole round, or other slots than before: read every slot. */
	if (copy->common->step == 1 || to - from >= usable || to < from ||
	    usable != copy->usable_seen) {
		copy->has_lapped |= to - from > usable;
		copy->usable_seen = usable;
		for (uint32_t slot = 0; slot < populated; slot++) {
			uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(ring, slot));

			if (number > copy->cursors[slot].number)
				list_slot(copy, slot, number);
		}
		/* Claims under way have no mark yet: the last round of them is watched. */
		from = to > usable ? to - usable : 0;
	}
	for (uint64_t number = from; number < to; number++)
		list_slot(copy, (uint32_t)(number % usable), number + 1);
}

static int by_number(const void *a, const void *b)
{
	const struct ky_visit *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static uint32_t plan_visits(struct ky_copy *copy)
{
	uint32_t populated = ky_ring_view_populated(&copy->common->ring), count = 0;

	for (uint32_t i = 0; i < copy->listed_count; i++) {
		uint32_t slot = copy->listed[i];

		if (slot >= populated)
			continue; /* given out, its pages not there yet */
		copy->visits[count++] = (struct ky_visit){
			KY_CLAIM_NUMBER(ky_ring_view_claim(&copy->common->ring, slot)), 0, 0, slot};
	}
	/* A thread's slots are claimed one after the other: claim order is its reading order. */
	for (uint32_t i = 1; i < count; i++) {
		if (copy->visits[i].number < copy->visits[i - 1].number) {
			qsort(copy->visits, count, sizeof(*copy->visits), by_number);
			break;
		}
	}
	return count;
}

void ky_slot_plan_make(struct ky_copy *copy)
{
	list_claims(copy);
	copy->visit_at = 0;
	copy->visit_count = plan_visits(copy);
}

bool ky_slot_plan_postpone(struct ky_copy *copy, uint64_t number)
{
	uint32_t at = copy->visit_at, count = copy->visit_count, to = at;
	struct ky_visit late = copy->visits[at];

	if (number == late.number || number > copy->claim_index)
		return false;
	late.number = number;
	late.start_ticks = 0;
	for (; to + 1 < count && copy->visits[to + 1].number < number; to++)
		copy->visits[to] = copy->visits[to + 1];
	copy->visits[to] = late;
	return to > at;
}

void ky_slot_plan_end(struct ky_copy *copy)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < copy->listed_count; i++) {
		uint32_t slot = copy->listed[i];
		struct ky_slot_cursor *cursor = &copy->cursors[slot];

		if (cursor->is_complete && cursor->number >= cursor->expected)
			cursor->is_listed = false;
		else
			copy->listed[kept++] = slot;
	}
	copy->listed_count = kept;
}

/* The beginning of a slot that is not visited yet. Asked once: all that are left are read for
 * every batch, and each is a miss of the cache. */
static uint64_t start_of(const struct ky_copy *copy, struct ky_visit *visit)
{
	struct ky_slot_head head;

	if (!visit->start_ticks)
		visit->start_ticks = ky_ring_view_head(&copy->common->ring, visit->slot,
						       visit->number, &head) == 0 ?
					     head.start_ticks :
					     UINT64_MAX;
	return visit->start_ticks;
}

static void find_floors(struct ky_copy *copy, uint32_t from, uint32_t count)
{
	uint64_t floor = UINT64_MAX;

	for (uint32_t i = count; i-- > from;) {
		struct ky_visit *next = &copy->visits[i];
		const struct ky_slot_cursor *cursor = &copy->cursors[next->slot];

		if (cursor->thread && !cursor->is_complete && cursor->number == next->number) {
			if (cursor->thread->read_ticks < floor)
				floor = cursor->thread->read_ticks;
		} else if (next->number &&
			   !(cursor->is_complete && cursor->number == next->number) &&
			   start_of(copy, next) < floor) {
			floor = next->start_ticks;
		}
		next->floor_ticks = floor;
	}
}

uint64_t ky_copy_floor(struct ky_copy *copy)
{
	uint64_t floor = UINT64_MAX;

	find_floors(copy, copy->visit_at, copy->visit_count);
	if (copy->visit_at < copy->visit_count)
		floor = copy->visits[copy->visit_at].floor_ticks;
	return floor ? floor - 1 : 0;
}
