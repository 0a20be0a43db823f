/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rseq_mark.h - was this thread switched out since? A pointer that stands in the thread's rseq area
 * (rseq(2)) is cleared by the kernel when it takes the thread off its CPU, or sends it a signal.
 *
 * The area is the one that the C library registers, since glibc 2.35. A program's own critical
 * sections overwrite the mark, which then counts as a switch. The pointer points to a page that is
 * never unmapped: the kernel reads it, and would end the program.
 * Threads: each function says which. Memory: one page a process.
 */
#ifndef KY_RECORD_SAMPLE_RSEQ_MARK_H
#define KY_RECORD_SAMPLE_RSEQ_MARK_H

#include <stdbool.h>
#include <stdint.h>

/* What ky_rseq_open() returns where there is no mark: it stands in no thread. */
#define KY_RSEQ_NO_MARK 1u

/* What a standing mark is. The first call tests it: the calling thread blocks for a moment.
 * may_block: else an untested mark is not used. */
uint64_t ky_rseq_open(bool may_block);
/* Where the calling thread's mark stands, NULL: nowhere. */
uint64_t *ky_rseq_mark(void);
/* Any thread: why there is none; NULL: there is. */
const char *ky_rseq_refusal(void);
/* why: a text that stays. */
void ky_rseq_refuse(const char *why);

#endif
