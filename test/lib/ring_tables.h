/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_tables.h - the tables at the end of a ring image, where tasks wait and which allocations
 * live, written as a recorder would. Threads: owner.
 */
#ifndef KY_TEST_RING_TABLES_H
#define KY_TEST_RING_TABLES_H

#include "ring_builder.h"

#include <wire/alloc_table.h>
#include <wire/place_table.h>

/* Adds both to an image that was just opened; they count as ready. */
void test_ring_add_tables(struct test_ring *ring);

struct kymo_place_row *test_place_row(struct test_ring *ring, uint32_t slot);

/* A stack of `count` frames, leaf, leaf + 1, .., at this unit. Returns its number. */
uint32_t test_place_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count);
uint32_t test_alloc_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count);

/* Points by their number. */
#define TEST_POINTS(a, b, c) ((uint64_t)(a) | (uint64_t)(b) << 16 | (uint64_t)(c) << 32)
void test_points(struct test_ring *ring, uint32_t number, uint64_t word);

/* A task waits at these points, since the end of a poll. */
struct kymo_place_row *test_place(struct test_ring *ring, uint32_t slot, uint64_t task,
				  uint32_t name, uint64_t ns, uint32_t points);
/* Its older points were cloned then. */
void test_place_since(struct test_ring *ring, uint32_t slot, uint64_t ns);

/* A live allocation of the thread 501, made then. */
struct ky_alloc_entry *test_alloc(struct test_ring *ring, uint32_t entry, uint64_t address,
				  uint64_t bytes, uint64_t ns, uint32_t stack);

#endif
