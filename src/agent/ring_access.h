/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_access.h - stores into a ring: by the mapping, in the process that records, or by a
 * descriptor, in another one.
 *
 * Invariants:  readers see the bytes in the order of the calls, and words of 8 aligned bytes whole.
 *              A page without memory is an error here, never a fault.
 * Threads:     one at a time for an area. Memory: none but the structures.
 */
#ifndef KY_AGENT_RING_ACCESS_H
#define KY_AGENT_RING_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_ring_access {
	uint8_t *base;             /* of our own mapping; NULL: another's, by the descriptor */
	bool (*touch)(void *word); /* of our own: makes the word's page exist, may overwrite it */
	int fd;                    /* of another's, open for writing */
};

/* A part of the ring whose pages are made as they are written, from its beginning on. */
struct ky_ring_area {
	struct ky_ring_access access;
	uint64_t offset; /* in the file, a multiple of the page */
	uint64_t bytes;  /* 0: there is none */
	uint64_t made_bytes;
};

/* Where the pages exist; a descriptor makes those that do not, up to the end of the file as it is
 * now. at: in the file. Returns 0; KYMO_E_TRUNCATED: the file was cut; -errno; -ENOSPC. */
int ky_ring_access_store(const struct ky_ring_access *access, uint64_t at, const void *bytes,
			 size_t count);

/* Says in the header that an area's head exists. word: the offset of its 32 bits there. */
int ky_ring_access_announce(const struct ky_ring_access *access, size_t word);

/* Returns 0; KYMO_E_LIMIT beyond the area's end; what a store returns. */
int ky_ring_area_put(struct ky_ring_area *area, uint64_t offset, const void *bytes, size_t count);

#endif
