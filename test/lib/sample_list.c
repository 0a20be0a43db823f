/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "sample_list.h"

#include "cmocka_all.h"

#include <stdlib.h>

void sample_list_open(struct sample_list *list)
{
	memset(list, 0, sizeof(*list));
	list->cells = calloc(SAMPLE_LIST_CELLS, KY_SAMPLE_CELL_BYTES);
	assert_non_null(list->cells);
	list->ring = (struct ky_sample_ring){&list->head, list->cells, SAMPLE_LIST_CELLS};
}

void sample_list_close(struct sample_list *list)
{
	free(list->cells);
}

static const uint8_t *cell_at(const struct sample_list *list, uint64_t claim)
{
	return list->cells + claim % SAMPLE_LIST_CELLS * KY_SAMPLE_CELL_BYTES;
}

static uint64_t unpack(const uint8_t *at)
{
	uint64_t frame = 0;

	memcpy(&frame, at, KY_SAMPLE_FRAME_BYTES);
	return (uint64_t)((int64_t)(frame << 16) >> 16);
}

/* In the sample's first cell, or in one of those after it. */
static const uint8_t *frame_at(const struct sample_list *list, const struct ky_sample_cell *cell,
			       uint32_t i)
{
	uint32_t later = i - KY_SAMPLE_FRAMES_FIRST;

	if (i < KY_SAMPLE_FRAMES_FIRST)
		return cell->frames + i * KY_SAMPLE_FRAME_BYTES;
	return cell_at(list, list->claim + 1 + later / KY_SAMPLE_FRAMES_MORE) +
	       offsetof(struct ky_sample_more, frames) +
	       later % KY_SAMPLE_FRAMES_MORE * KY_SAMPLE_FRAME_BYTES;
}

bool sample_list_next(struct sample_list *list, struct listed_sample *out)
{
	uint64_t end = KY_SAMPLE_CLAIM(atomic_load(&list->head.claim_index));
	const struct ky_sample_cell *cell;

	if (list->claim == end)
		return false;
	cell = (const void *)cell_at(list, list->claim);
	assert_int_equal(cell->serial, (list->claim + 1) * 2);
	assert_int_equal(cell->part, 0);
	out->sample = (struct ky_sample){.kind = cell->kind,
					 .flags = cell->flags,
					 .cpu = cell->cpu,
					 .syscall = cell->syscall,
					 .tid = cell->tid,
					 .stamp = cell->stamp,
					 .value = cell->value,
					 .more = cell->more,
					 .other = cell->other,
					 .task = cell->task,
					 .weight = cell->weight,
					 .frames = out->frames,
					 .frame_count = cell->frame_count};
	for (uint32_t i = 0; i < cell->frame_count; i++)
		out->frames[i] = unpack(frame_at(list, cell, i));
	list->claim += cell->parts;
	return true;
}
