/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The resource area as untrusted input. */
#include <ring/ring_view.h>

#include <string.h>

const uint8_t *ky_ring_view_resources(const struct ky_ring_view *view)
{
	/* Pairs with the release store once the head is there. */
	if (!view->resource_offset ||
	    atomic_load_explicit(&view->header->resource_ready, memory_order_acquire) != 1)
		return NULL;
	return view->image + view->resource_offset;
}

void ky_ring_view_resource_about(const uint8_t *area, struct ky_resource_about *out)
{
	const struct ky_resource_head *head = (const void *)area;
	uint32_t bytes = atomic_load_explicit(&head->path_bytes, memory_order_acquire);

	memset(out, 0, sizeof(*out));
	out->claim_index = atomic_load_explicit(&head->claim_index, memory_order_acquire);
	out->interval_ns = atomic_load_explicit(&head->interval_ns, memory_order_relaxed);
	for (uint32_t i = 0; i < KY_PART_COUNT; i++)
		out->missing[i] = atomic_load_explicit(&head->missing[i], memory_order_relaxed);
	memcpy(out->path, head->path,
	       bytes < KY_RESOURCE_PATH_BYTES ? bytes : KY_RESOURCE_PATH_BYTES);
}

bool ky_ring_view_resource(const uint8_t *area, uint64_t number, struct ky_resource_row *out)
{
	const struct ky_resource_entry *entry = (const void *)(area +
							       ky_resource_entry_offset(number));
	const _Atomic uint64_t *words = (const void *)&entry->row;
	uint64_t copy[sizeof(*out) / 8];

	if (atomic_load_explicit(&entry->serial, memory_order_acquire) != number + 1)
		return false;
	for (size_t i = 0; i < sizeof(copy) / sizeof(*copy); i++)
		copy[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	memcpy(out, copy, sizeof(*out));
	return atomic_load_explicit(&entry->serial, memory_order_relaxed) == number + 1;
}
