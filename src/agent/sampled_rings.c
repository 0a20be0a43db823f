/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/sampled_rings.h>

#include <stdatomic.h>
#include <wire/ring_image.h>

bool ky_sampled_rings_add(struct ky_sampled_rings *rings, struct ky_sampled_ring *ring)
{
	if (rings->count == KY_SAMPLED_RINGS_MAX)
		return false;
	rings->list[rings->count++] = ring;
	return true;
}

void ky_sampled_rings_remove(struct ky_sampled_rings *rings, struct ky_sampled_ring *ring)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rings->count; i++)
		if (rings->list[i] != ring)
			rings->list[kept++] = rings->list[i];
	rings->count = kept;
	if (rings->last == ring)
		rings->last = NULL;
}

struct ky_sampled_ring *ky_sampled_rings_find(const struct ky_sampled_rings *rings, uint32_t pid,
					      uint64_t ns)
{
	struct ky_sampled_ring *found = NULL;

	for (uint32_t i = 0; i < rings->count; i++) {
		struct ky_sampled_ring *ring = rings->list[i];

		if (ring->pid == pid && ring->made_ns <= ns &&
		    (!found || ring->made_ns > found->made_ns))
			found = ring;
	}
	return found;
}

struct ky_unwind_view ky_sampled_ring_tables(const struct ky_sampled_ring *ring)
{
	const struct ky_ring_header *header = (const void *)ring->image;
	uint64_t at = header->unwind_offset, bytes = header->unwind_bytes;
	struct ky_unwind_view view = {NULL, 0};

	if (atomic_load_explicit(&header->unwind_ready, memory_order_acquire) && at &&
	    at % 64 == 0 && at <= ring->image_bytes && bytes <= ring->image_bytes - at) {
		view.area = ring->image + at;
		view.area_bytes = bytes;
	}
	return view;
}
