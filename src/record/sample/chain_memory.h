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
#include <record/sample/chain_memo.h>
#include <record/sample/stack_store.h>

/* Where the thread's own memory of chains does not have it: in the one of all, or by a walk. */
struct ky_chain ky_chain_search(const struct ky_ring *ring, struct ky_place_head *head,
				const struct kymo_stack_start *start, uint64_t until_sp,
				uint32_t frames_max);

/* start: of the calling thread; ring: that it records into; head: of its place table; frames_max:
 * at most KYMO_PLACE_FRAMES_MAX, the same in every call from one place of code, stack for stack. */
KY_MEMO_INLINE struct ky_chain ky_chain_find(const struct ky_ring *ring, struct ky_place_head *head,
					     const struct kymo_stack_start *start,
					     uint64_t until_sp, uint32_t frames_max)
{
	const struct ky_memo_chain *known = ky_chain_memo_find(head, start, until_sp);

	if (KYMO_LIKELY(known != NULL))
		return known->is;
	return ky_chain_search(ring, head, start, until_sp, frames_max);
}

/* The stacks of a place table. */
struct ky_stack_store ky_chain_store(struct ky_place_head *head);

#endif
