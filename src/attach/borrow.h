/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* borrow.h - stops one sleeping thread, lets it make a thread of ours, and lets it go.
 *
 * Invariants:  only this thread is stopped. From the moment its registers are changed it finds its
 *              way back alone: we may be killed at any point. What lies on its stack below what it
 *              uses is all that is written before.
 * Threads:     owner; the one that traces.
 */
#ifndef KY_ATTACH_BORROW_H
#define KY_ATTACH_BORROW_H

#include <attach/attach_arch.h>
#include <attach/process.h>
#include <kymo/attach.h>

struct ky_borrowed {
	pid_t tid;
	uint64_t memory;     /* in: where nothing is mapped; out: where to ask the next thread */
	uint64_t block;      /* address of the block in the process */
	uint64_t stopped_ns; /* from the stop until it was on its way back */
};

/* process->functions and everything else that the stub uses are filled in here; the rest of the
 * block is the caller's.
 *
 * Returns  0; -EAGAIN: this thread will not do, or is not asleep any more, and is as before;
 *          -EEXIST with why: it is as before, there is something mapped where we asked for memory;
 *          -errno with why: nothing can be done here at all. */
int ky_borrow(const struct ky_process *process, pid_t tid, const struct ky_arch_code *code,
	      const struct kymo_attach_block *block, struct ky_borrowed *out, char *why);

#endif
