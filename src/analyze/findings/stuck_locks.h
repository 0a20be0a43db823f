/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stuck_locks.h - long waits for a lock or permit of tokio::sync that no release ended: the task
 * was cancelled, gave up by a timer, or still waits. A wait that may lie across a loss is none.
 * Memory:      40 bytes a wait.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_STUCK_LOCKS_H
#define KY_ANALYZE_FINDINGS_STUCK_LOCKS_H

#include <analyze/findings/sync_waits.h>

struct ky_stuck_lock {
	uint64_t from_ns, to_ns, since_ns; /* since: as of its await point; 0: as from_ns */
	uint32_t task, stack;              /* index; of its await point */
	uint8_t what;    /* KY_SYNC_MUTEX of any lock of tokio::sync, or KY_SYNC_SEMAPHORE */
	bool is_granted; /* a release woke the task right before, and it did not take the lock */
};

struct ky_stuck_locks {
	struct ky_stuck_lock *list; /* earliest begin first; each task once, its longest wait */
	uint32_t count, capacity;
	uint64_t ns;
	/* A task that a release of its own woke, so for a future of its own, and that did not go
	 * on: the longest. Its task index KY_NONE: there is none. */
	struct ky_stuck_lock keeper;
	bool has_victims; /* waits that did end lie in that time: set by who knows them */
};

/* Returns 0, -ENOMEM. */
int ky_stuck_locks_make(struct ky_stuck_locks *out, const struct ky_facts *facts);
void ky_stuck_locks_release(struct ky_stuck_locks *stuck);

#endif
