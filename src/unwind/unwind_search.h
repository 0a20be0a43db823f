/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_search.h - the frame pointer of a thread of which only sp and pc are known.
 *
 * A function that keeps its frame pointer has saved its caller's right below the return address. So
 * that pair is searched for above sp: a return address after a call instruction that goes to the
 * beginning of this very function, or whose target is not known. A pair that an earlier call has
 * left there can be the same: what is found is a guess, and counted as one.
 *
 * Threads:     any.      Cost: a read of some words for each candidate; x86-64 alone.
 */
#ifndef KY_UNWIND_UNWIND_SEARCH_H
#define KY_UNWIND_UNWIND_SEARCH_H

#include <unwind/unwind_walk.h>

/* code: of pc, whose rule is "fp + 16" with the caller's fp right below the return address. False:
 * not found. */
bool ky_unwind_search_fp(const struct ky_unwind_view *view, const struct ky_walk_memory *memory,
			 const struct ky_unwind_code *code, uint64_t pc, uint64_t sp, uint64_t *fp);

#endif
