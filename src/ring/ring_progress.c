/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_progress.h>

#include <string.h>

uint64_t ky_ring_horizon_ticks(const struct ky_ring_view *view)
{
	uint64_t claim_index = atomic_load_explicit(&view->header->claim_index,
						    memory_order_relaxed);
	uint32_t usable = ky_ring_view_usable(view), populated = ky_ring_view_populated(view);
	uint64_t oldest = UINT64_MAX, ticks = UINT64_MAX;

	if (claim_index <= usable)
		return 0;
	for (uint32_t slot = 0; slot < populated; slot++) {
		uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(view, slot));
		struct ky_slot_head head;

		if (number <= claim_index - usable || number >= oldest ||
		    ky_ring_view_head(view, slot, number, &head) != 0)
			continue;
		oldest = number;
		ticks = head.start_ticks;
	}
	return ticks;
}

void ky_ring_progress_read(struct ky_ring_tail *tail, const struct ky_open_ring *ring)
{
	const struct ky_ring_drained *drained;
	struct ky_ring_view view;
	uint64_t claim_index;
	uint32_t bytes, i;

	memset(tail, 0, sizeof(*tail));
	if (ky_ring_view_init(&view, ring->image, ring->image_bytes) < 0 || view.side == NULL)
		return;
	drained = &view.side->drained;
	bytes = atomic_load_explicit(&drained->path_bytes, memory_order_acquire);
	if (bytes == 0 || bytes >= KY_DRAINED_PATH_BYTES || drained->path[0] != '/')
		return;
	memcpy(tail->path, drained->path, bytes);
	tail->horizon_ticks = ky_ring_horizon_ticks(&view);
	claim_index = atomic_load_explicit(&drained->chunk_claim_index, memory_order_acquire);
	tail->chunk_count = claim_index;
	tail->note_count = claim_index < KY_DRAINED_CHUNKS ? (uint32_t)claim_index :
							     KY_DRAINED_CHUNKS;
	for (i = 0; i < tail->note_count; i++) {
		tail->notes[i].last_ns = atomic_load_explicit(&drained->chunks[i].last_ns,
							      memory_order_relaxed);
		tail->notes[i].last_ticks = atomic_load_explicit(&drained->chunks[i].last_ticks,
								 memory_order_relaxed);
		tail->notes[i].last_ties = atomic_load_explicit(&drained->chunks[i].last_ties,
								memory_order_relaxed);
	}
}
