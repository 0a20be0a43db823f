/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stack_walk.h - the calling thread's stack, by the tables of the ring: what kymo/stack.h promises,
 * and the same for a thread with tables of its own.
 *
 * A thread's own stack is read as it stands, from where it is known to be mapped: the thread's
 * control block, or for the first thread what the kernel put on the stack, lies at its end, and
 * each page in between was asked for once. Every other stack is read by a system call, a few words
 * at a time, unless calls are confined; a walk that begins on the thread's own makes none.
 *
 * Threads:     any.      Signals: safe.
 */
#ifndef KY_RECORD_SAMPLE_STACK_WALK_H
#define KY_RECORD_SAMPLE_STACK_WALK_H

#include <kymo/stack.h>
#include <unwind/unwind_walk.h>

/* The tables of this process's ring. False: none, or a forked child. */
bool ky_stack_tables(struct ky_unwind_view *out);

/* Another thread asked for a stack, with or without tables. */
bool ky_stack_is_wanted(void);

/* Asks the thread that makes tables in this process for them, if no thread has. */
void ky_stack_want(void);

/* All of it is known to lie on the calling thread's own stack. */
bool ky_stack_is_own(uint64_t low, uint64_t high);

/* Where the calling thread's own stack ends, once that is known; 0: not yet. */
uint64_t ky_stack_own_end(void);

/* Not known to lie on another stack, which takes system calls to read. */
bool ky_stack_may_be_own(uint64_t sp);

/* may_call: system calls beyond those that no thread can do without. */
void ky_stack_capture_by(struct ky_walk *walk, const struct ky_unwind_view *view,
			 const struct kymo_stack_start *start, bool may_call);
void ky_stack_context_by(struct ky_walk *walk, const struct ky_unwind_view *view,
			 const void *context, bool may_call);

#endif
