/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* names.h - every distinct text of a trace once, by number.
 *
 * Invariants: a number never changes; texts are NUL-terminated and cut at 64 KiB; at most 2^24 - 1.
 * Threads: owner while it grows; any number of readers afterwards.
 */
#ifndef KY_READ_NAMES_H
#define KY_READ_NAMES_H

#include <read/column.h>

#define KY_NAMES_MAX 0xffffffu /* and the number that says "none" in a row */

struct ky_name {
	const char *text;
	uint32_t bytes;
	uint32_t hash;
};

struct ky_names {
	struct ky_pages *pages;
	struct ky_name *names;
	uint32_t count, capacity;
	uint32_t *slots; /* number + 1 */
	uint32_t slot_count;
	uint8_t **arenas;
	uint32_t *arena_bytes;
	uint32_t arena_count, arena_capacity, arena_bytes_capacity;
	uint32_t arena_left;
};

void ky_names_init(struct ky_names *names, struct ky_pages *pages);
void ky_names_release(struct ky_names *names);

/* Number of a text; UINT32_MAX with pages->failed set. */
uint32_t ky_names_intern(struct ky_names *names, const void *text, size_t text_bytes);
/* The same as long as there are fewer than `limit`; beyond, a text that is new is UINT32_MAX. */
uint32_t ky_names_intern_below(struct ky_names *names, const void *text, size_t text_bytes,
			       uint32_t limit);
/* The same without adding it; UINT32_MAX when it is not there. */
uint32_t ky_names_find(const struct ky_names *names, const void *text, size_t text_bytes);

#endif
