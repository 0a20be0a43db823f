/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sync_waits.h - waits for what another task has: a permit, room in a channel, a lock; and for a
 * thread of the blocking pool.
 *
 * Each ends with a wake that the release issues, and the functions of that wake say what was
 * released (Tokio 1.38 to 1.54); the wait begins with the end of the task's last poll before it.
 * Waits that still last are no part.
 * Memory:      32 bytes a wait, and 4 a task.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_SYNC_WAITS_H
#define KY_ANALYZE_FINDINGS_SYNC_WAITS_H

#include <analyze/findings/facts.h>

enum ky_sync_what {
	KY_SYNC_NONE,
	KY_SYNC_CHANNEL, /* bounded: the receiver makes room */
	KY_SYNC_MUTEX,
	KY_SYNC_RWLOCK,
	KY_SYNC_LOCK,       /* one of these two; which, no name says */
	KY_SYNC_OTHER_LOCK, /* asynchronous, of a library that is not Tokio */
	KY_SYNC_SEMAPHORE,
	KY_SYNC_NOTIFY, /* what a task of the same kind gave back: a pool of the program */
	KY_SYNC_POOL,   /* a thread of the blocking pool: up to the start of the run */
	KY_SYNC_WHATS
};

struct ky_sync_wait {
	uint64_t from_ns, to_ns;
	uint32_t task, waker; /* task indexes; waker KY_NONE: a thread */
	uint32_t stack;       /* of the wake */
	uint32_t tid;         /* of the run's thread; 0 */
	/* The wait whose end says who is to blame: of a lock that went from one to the next in a
	 * queue the one before which it was held for long. Index in the list. */
	uint32_t blamed;
	uint8_t what; /* enum ky_sync_what */
};

struct ky_sync_waits {
	struct ky_sync_wait *list; /* by task, then time; longer than KY_FIND_LONG_NS */
	uint32_t count, capacity;
	uint64_t ns;           /* of all of them */
	uint32_t pool_threads; /* most that ran closures at once */
};

/* What the release that issued a wake released: enum ky_sync_what. */
uint8_t ky_sync_what_of(const struct ky_code_stacks *code, uint32_t stack);

/* Of wakes in the range, before a shutdown. Returns 0, -ENOMEM. */
int ky_sync_waits_make(struct ky_sync_waits *out, const struct ky_facts *facts);
void ky_sync_waits_release(struct ky_sync_waits *waits);

static inline bool ky_sync_is_tokios_lock(uint8_t what)
{
	return what == KY_SYNC_MUTEX || what == KY_SYNC_RWLOCK || what == KY_SYNC_LOCK;
}

#endif
