/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* record_gap.h - what is missing of a thread's records, and why; for the files of the copy stage.
 *
 * A thread counts its records, and each sub-buffer and each change of threads has the number: what
 * was not read before it is a gap in the thread's queue. Gaps at the end: ky_copy_last_gaps().
 * Threads: owner.
 */
#ifndef KY_DRAIN_RECORD_GAP_H
#define KY_DRAIN_RECORD_GAP_H

#include <drain/copy_stage.h>

/* The thread says here how many records it has written: what we did not see is lost. has_gap: also
 * where that is not known. Returns 0; -ENOMEM. */
int ky_gap_account(struct ky_copy *copy, struct ky_dthread *thread, uint64_t record_count,
		   uint64_t ticks, bool *has_gap);

#endif
