/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The place table, read by a reader that trusts nothing of it: wire/place_table.h. */
#include <ring/ring_view.h>

#include <string.h>
#include <wire/sample_area.h>

#define READS_MAX 100u

const uint8_t *ky_ring_view_places(const struct ky_ring_view *view)
{
	if (!view->place_offset ||
	    atomic_load_explicit(&view->header->place_ready, memory_order_acquire) != 1)
		return NULL;
	return view->image + view->place_offset;
}

/* The stamp keeps 40 bits of the ticks: the newest such moment that is not in the future. */
static uint64_t full_ticks(uint64_t word, uint64_t now_ticks)
{
	uint64_t bits = word >> KYMO_PLACE_LOW_BITS << KYMO_PLACE_TICKS_SHIFT;
	uint64_t mask = (UINT64_C(1) << (64 - KYMO_PLACE_LOW_BITS + KYMO_PLACE_TICKS_SHIFT)) - 1;
	uint64_t ago = (now_ticks - bits) & mask;

	return bits && ago < now_ticks ? now_ticks - ago : 0;
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static const struct kymo_place_row *row_of(const uint8_t *area, uint32_t slot)
{
	const struct kymo_place_set *sets =
		(const struct kymo_place_set *)(const void *)(area + KY_PLACE_SETS_OFFSET);

	return &sets[slot / KYMO_PLACE_WAYS].ways[slot % KYMO_PLACE_WAYS];
}

uint32_t ky_ring_view_next_place(const uint8_t *area, uint32_t slot)
{
	while (slot < KY_PLACE_ENTRIES && !(load(&row_of(area, slot)->task) & KY_PLACE_TASK_MASK))
		slot++;
	return slot;
}

void ky_ring_view_place_copy(const uint8_t *area, uint32_t slot, struct kymo_place_row *out)
{
	const struct kymo_place_row *row = row_of(area, slot);

	for (uint32_t reads = 0; reads < READS_MAX; reads++) {
		*out = (struct kymo_place_row){.task = load(&row->task),
					       .polled = load(&row->polled),
					       .since = load(&row->since)};
		if (load(&row->task) << (64 - KYMO_TASK_BITS) == out->task
									 << (64 - KYMO_TASK_BITS) &&
		    load(&row->polled) == out->polled)
			return;
	}
	memset(out, 0, sizeof(*out));
}

bool ky_ring_view_place(const uint8_t *area, uint32_t slot, uint64_t now_ticks,
			struct ky_place_seen *out)
{
	struct kymo_place_row row;

	memset(out, 0, sizeof(*out));
	ky_ring_view_place_copy(area, slot, &row);
	out->task = row.task & KY_PLACE_TASK_MASK;
	out->name = (uint32_t)(row.since & KYMO_PLACE_LOW_MASK);
	out->points = ky_ring_view_points(area, (uint32_t)(row.polled & KYMO_PLACE_LOW_MASK));
	out->polled_ticks = full_ticks(row.polled, now_ticks);
	out->since_ticks = full_ticks(row.since, now_ticks);
	return out->task != 0;
}

uint64_t ky_ring_view_points(const uint8_t *area, uint32_t number)
{
	const uint64_t *table = (const uint64_t *)(const void *)(area + KY_PLACE_POINTS_OFFSET);

	return number < KY_PLACE_POINTS ? load(&table[number]) : 0;
}

uint64_t ky_ring_view_place_units(const uint8_t *area)
{
	const struct ky_place_head *head = (const struct ky_place_head *)(const void *)area;
	uint64_t used = atomic_load_explicit(&head->units_used, memory_order_relaxed);

	return used < KY_PLACE_UNITS ? used : KY_PLACE_UNITS;
}

uint32_t ky_ring_view_kept_stack(const struct ky_place_stack *stacks, uint32_t number,
				 const uint8_t *units, uint32_t unit_count, uint64_t *frames,
				 uint32_t frames_max)
{
	const uint8_t *from;
	uint64_t place, unit, count;

	place = atomic_load_explicit(&stacks[number].place, memory_order_acquire);
	unit = place & 0xffffu;
	count = place >> 16 & 0xffffu;
	if (!(place & KY_PLACE_PUBLISHED) || count > frames_max ||
	    unit * KY_PLACE_UNIT_BYTES + count * KY_SAMPLE_FRAME_BYTES >
		    (uint64_t)unit_count * KY_PLACE_UNIT_BYTES)
		return 0;
	from = units + unit * KY_PLACE_UNIT_BYTES;
	for (uint32_t i = 0; i < count; i++, from += KY_SAMPLE_FRAME_BYTES) {
		frames[i] = 0;
		memcpy(&frames[i], from, KY_SAMPLE_FRAME_BYTES);
	}
	return (uint32_t)count;
}

uint32_t ky_ring_view_place_stack(const uint8_t *area, uint32_t number,
				  uint64_t frames[KYMO_PLACE_FRAMES_MAX])
{
	const struct ky_place_stack *stacks =
		(const struct ky_place_stack *)(const void *)(area + KY_PLACE_STACKS_OFFSET);

	if (number >= KY_PLACE_STACKS)
		return 0;
	return ky_ring_view_kept_stack(stacks, number, area + KY_PLACE_UNITS_OFFSET, KY_PLACE_UNITS,
				       frames, KYMO_PLACE_FRAMES_MAX);
}
