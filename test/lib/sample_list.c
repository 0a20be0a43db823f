/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "sample_list.h"

#include "cmocka_all.h"

#include <stdlib.h>

void sample_list_open(struct sample_list *list)
{
	memset(list, 0, sizeof(*list));
	list->slots = calloc(SAMPLE_LIST_SLOTS, KY_SAMPLE_SLOT_BYTES);
	assert_non_null(list->slots);
	list->ring = (struct ky_sample_ring){&list->head, list->slots, SAMPLE_LIST_SLOTS};
}

void sample_list_close(struct sample_list *list)
{
	free(list->slots);
}

static const uint8_t *slot_at(const struct sample_list *list, uint64_t claim)
{
	return list->slots + claim % SAMPLE_LIST_SLOTS * KY_SAMPLE_SLOT_BYTES;
}

static uint64_t unpack(const uint8_t *at)
{
	uint64_t frame = 0;

	memcpy(&frame, at, KY_SAMPLE_FRAME_BYTES);
	return (uint64_t)((int64_t)(frame << 16) >> 16);
}

/* In the sample's first slot, or in one of those after it. */
static const uint8_t *frame_at(const struct sample_list *list, const struct ky_sample_slot *slot,
			       uint32_t i)
{
	uint32_t later = i - KY_SAMPLE_FRAMES_FIRST;

	if (i < KY_SAMPLE_FRAMES_FIRST)
		return slot->frames + i * KY_SAMPLE_FRAME_BYTES;
	return slot_at(list, list->claim + 1 + later / KY_SAMPLE_FRAMES_MORE) +
	       offsetof(struct ky_sample_more, frames) +
	       later % KY_SAMPLE_FRAMES_MORE * KY_SAMPLE_FRAME_BYTES;
}

bool sample_list_next(struct sample_list *list, struct listed_sample *out)
{
	uint64_t end = KY_SAMPLE_CLAIM(atomic_load(&list->head.claim_index));
	const struct ky_sample_slot *slot;

	if (list->claim == end)
		return false;
	slot = (const void *)slot_at(list, list->claim);
	assert_int_equal(slot->serial, (list->claim + 1) * 2);
	assert_int_equal(slot->part, 0);
	out->sample = (struct ky_sample){.kind = slot->kind,
					 .flags = slot->flags,
					 .cpu = slot->cpu,
					 .syscall = slot->syscall,
					 .tid = slot->tid,
					 .stamp = slot->stamp,
					 .value = slot->value,
					 .more = slot->more,
					 .other = slot->other,
					 .task = slot->task,
					 .weight = slot->weight,
					 .frames = out->frames,
					 .frame_count = slot->frame_count};
	for (uint32_t i = 0; i < slot->frame_count; i++)
		out->frames[i] = unpack(frame_at(list, slot, i));
	list->claim += slot->parts;
	return true;
}
