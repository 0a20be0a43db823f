/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/ring_pages.h>

#include <fcntl.h>
#include <unistd.h>

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_ENTRIES 256u

/* Bytes of the ring that the process has in its page tables; 0 where that cannot be known. */
static uint64_t resident(const struct ky_proc_reader *reader, uint64_t address, uint64_t bytes)
{
	uint64_t entries[PAGEMAP_ENTRIES], page = reader->page_bytes, pages, count = 0;
	int fd;

	if (!address || !page)
		return 0;
	fd = openat(reader->dir, "pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	pages = bytes / page;
	for (uint64_t at = 0; at < pages;) {
		size_t most = pages - at < PAGEMAP_ENTRIES ? (size_t)(pages - at) : PAGEMAP_ENTRIES;
		ssize_t got = pread(fd, entries, most * sizeof(*entries),
				    (off_t)((address / page + at) * sizeof(*entries)));

		if (got <= 0)
			break;
		for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++)
			count += (entries[i] & PAGEMAP_PRESENT) != 0;
		at += (uint64_t)got / sizeof(*entries);
	}
	close(fd);
	return count * page;
}

/* The kernel counts the ring's pages as the process's. */
void ky_ring_pages_leave_out(struct ky_resource_row *row, const struct ky_proc_reader *reader,
			     uint64_t address, uint64_t bytes)
{
	uint64_t *rss = &row->values[KY_USAGE_RSS], *peak = &row->values[KY_USAGE_MAX_RSS], ring;

	if (!ky_resource_has(row, KY_USAGE_RSS))
		return;
	ring = resident(reader, address, bytes);
	if (!ring)
		return;
	*rss -= ring < *rss ? ring : *rss;
	if (!ky_resource_has(row, KY_USAGE_MAX_RSS))
		return;
	*peak -= ring < *peak ? ring : *peak;
	if (*peak < *rss)
		*peak = *rss;
}
