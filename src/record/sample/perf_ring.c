/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/perf_ring.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int ky_perf_ring_event(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

void ky_perf_ring_close(struct ky_perf_ring *ring, size_t ring_bytes)
{
	if (ring->page)
		munmap(ring->page, KY_PERF_PAGE_BYTES + ring_bytes);
	if (ring->fd >= 0)
		close(ring->fd);
	ring->page = NULL;
	ring->fd = -1;
}

int ky_perf_ring_map(struct ky_perf_ring *ring, size_t ring_bytes)
{
	void *page = mmap(NULL, KY_PERF_PAGE_BYTES + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  ring->fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	return 0;
}

bool ky_perf_ring_take(struct ky_perf_ring *ring, size_t ring_bytes, uint64_t *record,
		       size_t record_bytes)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, mask = ring_bytes - 1, first;
	const uint8_t *data = (const uint8_t *)ring->page + KY_PERF_PAGE_BYTES;
	struct perf_event_header header;
	size_t bytes;

	if (head - tail < sizeof(header))
		return false;
	/* Records are multiples of 8 bytes, so a header never wraps. */
	memcpy(&header, data + (tail & mask), sizeof(header));
	bytes = header.size;
	if (bytes < sizeof(header) || bytes > head - tail || bytes > record_bytes) {
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
		return false;
	}
	first = ring_bytes - (tail & mask);
	if (first > bytes)
		first = bytes;
	memcpy(record, data + (tail & mask), first);
	memcpy((uint8_t *)record + first, data, bytes - first);
	__atomic_store_n(&ring->page->data_tail, tail + bytes, __ATOMIC_RELEASE);
	return true;
}
