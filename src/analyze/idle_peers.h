/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* idle_peers.h - when another worker could have polled what stood ready: it was parked, and no
 * notification was on its way to it.
 *
 * Peers:       the workers of the same runtime, and those of others that are like it: with as many
 *              workers, and half of the kinds of tasks that either polls are the other's, too. Such
 *              are runtimes side by side, one a core.
 * Bound:       time that is counted is not counted twice, and parks that may have been notified
 *              are left out where the trace has notifications: so it is a lower bound of the time.
 * Memory:      48 bytes a park within the ranges, at most KY_IDLE_SPANS_MAX for each set of
 *              runtimes; with several runtimes 4 bytes a name. Beyond: nothing is counted. Of the
 *              kinds of tasks the first KY_IDLE_KINDS_MAX are looked at.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_IDLE_PEERS_H
#define KY_ANALYZE_IDLE_PEERS_H

#include <analyze/notified.h>

#define KY_IDLE_SPANS_MAX (1u << 21)
#define KY_IDLE_SETS_MAX 16u
#define KY_IDLE_RUNTIMES_MAX 256u
#define KY_IDLE_KINDS_MAX 4096u

struct ky_idle_range {
	uint64_t from_ns, to_ns;
};

/* One of them is idle in [from, to); before_ns: so long in all spans before. */
struct ky_idle_span {
	uint64_t from_ns, to_ns, before_ns;
};

struct ky_idle_mask {
	uint64_t bits[KY_IDLE_RUNTIMES_MAX / 64];
};

struct ky_idle_set {
	struct ky_idle_mask runtimes;
	struct ky_idle_span *spans; /* ascending, apart */
	uint32_t count, capacity;
	uint32_t last; /* span of the last question: the next one is near it */
	bool is_full;  /* there were more: it is empty */
};

struct ky_idle_peers {
	const struct ky_trace *trace;
	const struct ky_notified *notified;
	struct ky_idle_range *ranges; /* ascending, apart */
	uint32_t range_count;
	uint8_t *runtime_of; /* by worker: a number of its runtime */
	uint32_t worker_counts[KY_IDLE_RUNTIMES_MAX];
	struct ky_idle_mask *alike; /* by runtime: it and those like it */
	uint32_t runtime_count;
	struct ky_idle_set sets[KY_IDLE_SETS_MAX];
	uint32_t set_count;
};

/* Of times within these ranges, which may overlap and are sorted in place; they and the rest have
 * to live as long. Returns 0, -ENOMEM. */
int ky_idle_peers_make(struct ky_idle_peers *out, const struct ky_trace *trace,
		       const struct ky_notified *notified, struct ky_idle_range *ranges,
		       size_t range_count);
void ky_idle_peers_release(struct ky_idle_peers *peers);

/* Of [from, to), in which `worker` was in a poll: how long at least a peer of it was idle. Returns
 * false where memory is short. */
bool ky_idle_peers_ns(struct ky_idle_peers *peers, uint32_t worker, uint64_t from_ns,
		      uint64_t to_ns, uint64_t *out);

/* Is `other` a peer of the worker? */
bool ky_idle_peers_are(const struct ky_idle_peers *peers, uint32_t worker, uint32_t other);

#endif
