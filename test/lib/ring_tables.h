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

struct ky_place_slot *test_place_slot(struct test_ring *ring, uint32_t slot);
struct kymo_place_set *test_place_set(struct test_ring *ring, uint32_t set);

/* A stack of `count` frames, leaf, leaf + 1, .., at this unit. Returns its number. */
uint32_t test_place_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count);
uint32_t test_alloc_stack(struct test_ring *ring, uint32_t number, uint32_t unit, uint64_t leaf,
			  uint32_t count);

/* A task waits: at one stack, since and taken at a moment. Whatever else it has is the caller's. */
struct ky_place_slot *test_place(struct test_ring *ring, uint32_t slot, uint64_t task,
				 uint32_t name, uint64_t ns, uint32_t stack);
/* Its last poll ended then. */
void test_place_polled(struct test_ring *ring, uint64_t task, uint64_t ns);

/* A live allocation of the thread 501, made then. */
struct ky_alloc_slot *test_alloc(struct test_ring *ring, uint32_t slot, uint64_t address,
				 uint64_t bytes, uint64_t ns, uint32_t stack);

#endif
