/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/ring_access.h>

#include <base/write_within.h>
#include <errno.h>
#include <kymo/arch.h>
#include <kymo/base.h>
#include <string.h>

/* Words where there are words, each released: a generation, then what it covers. */
static void store_words(uint8_t *to, const uint8_t *from, size_t count)
{
	for (; count >= 8 && (uintptr_t)to % 8 == 0; count -= 8, from += 8, to += 8) {
		uint64_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count >= 4 && (uintptr_t)to % 4 == 0; count -= 4, from += 4, to += 4) {
		uint32_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count >= 2 && (uintptr_t)to % 2 == 0; count -= 2, from += 2, to += 2) {
		uint16_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint16_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count > 0; count--)
		__atomic_store_n(to++, *from++, __ATOMIC_RELEASE);
}

int ky_ring_access_store(const struct ky_ring_access *access, uint64_t at, const void *bytes,
			 size_t count)
{
	if (!access->base)
		return ky_write_within(access->fd, at, bytes, count);
	store_words(access->base + at, bytes, count);
	return 0;
}

int ky_ring_access_announce(const struct ky_ring_access *access, size_t word)
{
	const uint32_t ready = 1;

	return ky_ring_access_store(access, word, &ready, sizeof(ready));
}

/* touch() leaves a word that is not zero. */
static int make_pages(struct ky_ring_area *area, uint64_t bytes)
{
	for (; area->made_bytes < bytes; area->made_bytes += KYMO_ARCH_PAGE_BYTES) {
		uint8_t *page = area->access.base + area->offset + area->made_bytes;

		if (!area->access.touch(page))
			return -ENOSPC;
		memset(page, 0, sizeof(uint64_t));
	}
	return 0;
}

int ky_ring_area_put(struct ky_ring_area *area, uint64_t offset, const void *bytes, size_t count)
{
	int err = 0;

	if (offset > area->bytes || count > area->bytes - offset)
		return KYMO_E_LIMIT;
	if (area->access.base)
		err = make_pages(area, offset + count);
	return err ? err : ky_ring_access_store(&area->access, area->offset + offset, bytes, count);
}
