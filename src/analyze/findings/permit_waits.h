/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* permit_waits.h - what a task waits for where its await point says no more than that it is a
 * permit: every lock, semaphore and bounded channel of tokio::sync is one inside, and without debug
 * information the function that tells them apart is inlined.
 *
 * What ended the waits of its kind tells: where all of those releases were of one sort, so is this.
 *
 * Memory:      1 byte a kind of tasks and a stack.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_PERMIT_WAITS_H
#define KY_ANALYZE_FINDINGS_PERMIT_WAITS_H

#include <analyze/findings/sync_waits.h>

struct ky_permit_waits {
	uint8_t *kinds; /* by kind: bits of enum ky_sync_what, what ended waits; NULL: not made */
};

/* Is it a point of a permit, which nothing names further? */
bool ky_permit_is_unnamed(const struct ky_code_stacks *code, uint32_t stack);

/* enum ky_sync_what: CHANNEL, LOCK or SEMAPHORE, NONE where it is not known. Reads all wakes when
 * it is asked first, into an object of zeros. On failure of memory: NONE. */
uint8_t ky_permit_waits_of(struct ky_permit_waits *waits, const struct ky_facts *facts,
			   uint32_t task);
void ky_permit_waits_release(struct ky_permit_waits *waits);

#endif
