/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/perf_ring.h>

#include <probe/perf_event.h>
#include <string.h>

_Static_assert(KY_PERF_RECORD_WORDS * 8 > UINT16_MAX, "room for the longest record");

void ky_perf_ring_close(struct ky_perf_ring *ring)
{
	if (ring->page)
		ky_perf_event_unmap(ring->page, ring->bytes);
	if (ring->fd >= 0)
		ky_perf_event_close(ring->fd);
	ring->page = NULL;
	ring->fd = -1;
}

int ky_perf_ring_map(struct ky_perf_ring *ring, size_t bytes)
{
	ring->bytes = bytes;
	return ky_perf_event_map(ring->fd, bytes, &ring->page);
}

static void give_back(struct ky_perf_ring *ring, const struct perf_event_header *record)
{
	__atomic_store_n(&ring->page->data_tail, ring->page->data_tail + record->size,
			 __ATOMIC_RELEASE);
}

static const struct perf_event_header *next_record(struct ky_perf_ring *ring, uint64_t *room)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, mask = ring->bytes - 1, first;
	const uint8_t *data = (const uint8_t *)ring->page + KY_PERF_PAGE_BYTES;
	/* Records are multiples of 8 bytes, so a header never wraps. */
	const struct perf_event_header *header = (const void *)(data + (tail & mask));

	if (head - tail < sizeof(*header))
		return NULL;
	if (header->size < sizeof(*header) || header->size > head - tail) {
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
		return NULL;
	}
	first = ring->bytes - (tail & mask);
	if (first >= header->size)
		return header;
	memcpy(room, header, first);
	memcpy((uint8_t *)room + first, data, header->size - first);
	return (const void *)room;
}

const struct perf_event_header *
ky_perf_ring_begin(struct ky_perf_ring *ring, uint64_t room[KY_PERF_RECORD_WORDS], uint64_t *lost)
{
	const struct perf_event_header *record = next_record(ring, room);

	if (record && ring->is_at_work) {
		(*lost)++;
		give_back(ring, record);
		record = next_record(ring, room);
	}
	ring->is_at_work = record != NULL;
	if (record && record->type == PERF_RECORD_LOST && record->size >= 24)
		*lost += ((const uint64_t *)(const void *)record)[2];
	return record;
}

void ky_perf_ring_end(struct ky_perf_ring *ring, const struct perf_event_header *record)
{
	give_back(ring, record);
	ring->is_at_work = false;
}
