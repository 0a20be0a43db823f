/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_reader.h - decodes a ring image into an array of records, straight after ring_image.h: what
 * the tests of the recording side check against. It shares no code with the drain.
 */
#ifndef KY_TEST_RING_READER_H
#define KY_TEST_RING_READER_H

#include <stddef.h>
#include <stdint.h>
#include <wire/ring_image.h>

struct test_record {
	uint64_t claim;  /* number of the sub-buffer's claim */
	uint64_t number; /* of the record in its thread, from 0 */
	uint64_t ticks;  /* full stamp */
	size_t position; /* in the order of reading */
	uint64_t words[3];
	uint32_t thread;
	uint32_t tid;
	uint32_t type;
	uint32_t arg;
};

struct test_ring {
	const uint8_t *image;
	size_t image_bytes;
	const struct ky_ring_header *header;
	struct test_record *records; /* in claim order, position order inside a slot */
	size_t count;
	size_t capacity;
	size_t torn_count; /* slots that changed while being copied */
	size_t bad_count;  /* slots whose content contradicts the contract */
	uint32_t slot_states[5];
};

/* Maps the file. Returns 0 or -1. */
int test_ring_open(struct test_ring *ring, const char *path);
void test_ring_close(struct test_ring *ring);

/* Reads everything there is now, replacing what was read before. */
void test_ring_read(struct test_ring *ring);

/* One slot's records, appended. Returns 0, 1 when it was torn. */
int test_ring_read_slot(struct test_ring *ring, uint32_t slot);

size_t test_ring_count(const struct test_ring *ring, uint32_t thread, uint32_t type);

/* Records of a thread missing before the last one that is there. */
uint64_t test_ring_lost(const struct test_ring *ring, uint32_t thread);

/* n-th directory entry of a kind (from 0), NULL when there are fewer. */
const struct ky_entry *test_ring_entry(const struct test_ring *ring, uint32_t kind, size_t n);

#endif
