/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chain_memory.h - stacks between a function and the poll it was called from, walked once and
 * recognized where they come again.
 *
 * A chain is remembered with every word that its walk read of the stack and followed: return
 * addresses, and the frame pointers by which frames were left. It is the same where all of them
 * are, so recognizing it is as exact as a walk.
 *
 * Invariants:  a change of the unwind tables, or another ring, empties the memory.
 * Memory:      static, 1,024 chains of 32 words on average. One that finds no room is walked each
 *              time, and counted.
 * Threads:     any, without a lock; no allocation.      Signals: unsafe.
 */
#ifndef KY_RECORD_SAMPLE_CHAIN_MEMORY_H
#define KY_RECORD_SAMPLE_CHAIN_MEMORY_H

#include <kymo/stack.h>
#include <record/emit/ring_file.h>
#include <record/sample/stack_store.h>

struct ky_chain {
	uint32_t stack; /* its number in the store; KY_PLACE_NO_STACK: not known */
	bool is_truncated;
};

/* start: of the calling thread; ring: that it records into; head: of its place table; frames_max:
 * at most KYMO_PLACE_FRAMES_MAX, the same in every call from one place of code, stack for stack. */
struct ky_chain ky_chain_find(const struct ky_ring *ring, struct ky_place_head *head,
			      const struct kymo_stack_start *start, uint64_t until_sp,
			      uint32_t frames_max);

/* The stacks of a place table. */
struct ky_stack_store ky_chain_store(struct ky_place_head *head);

#endif
