/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chain.h - what a task's time depended on: its wakes followed backward over tasks, closures of the
 * blocking pool, spawns, timers and I/O. What it waited for is told as what that did meanwhile.
 *
 * Invariants:  links ascend in time, do not overlap, and cover the range: its length is the sum of
 *              theirs. A link of depth n lies in a wait of one of depth n - 1.
 * Memory:      72 bytes a link, at most KY_LINKS_MAX of them, and what task_rows.h says.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_CHAIN_H
#define KY_ANALYZE_CHAIN_H

#include <analyze/delay_parts.h>
#include <analyze/own_parts.h>
#include <analyze/wake_cause.h>

#define KY_LINKS_MAX (1u << 16)
#define KY_CHAIN_DEPTH_MAX 16u

enum ky_link_kind {
	KY_LINK_POLL,  /* the task is polled */
	KY_LINK_READY, /* woken, or spawned, and not polled yet */
	KY_LINK_RUN,   /* a closure runs on the blocking pool */
	KY_LINK_LINE,  /* ... stands in line for a thread of it */
	KY_LINK_WAIT,  /* for what is no task: its cause says; or not followed further */
	KY_LINK_UNKNOWN,
	KY_LINK_KINDS
};

struct ky_link {
	uint64_t from_ns, to_ns;
	uint64_t start_ns;          /* of the poll or run, which may lie before the range */
	struct ky_wake_cause cause; /* of a wait */
	uint32_t task;              /* index: whose it is */
	uint32_t waker;             /* of a wait that is not followed: task index; KY_NONE */
	uint32_t tid;               /* of a run; of a wait: of the thread that ended it; 0 */
	uint32_t worker;            /* of a poll: index; KY_NONE */
	uint8_t kind;               /* enum ky_link_kind */
	uint8_t depth;              /* 0: the task that was asked for */
};

/* Links that say the same, together. */
struct ky_chain_group {
	uint64_t ns, longest_ns, count;
	uint64_t own[KY_OWN_PARTS]; /* of polls */
	struct ky_wake_cause cause; /* of waits */
	uint32_t name;              /* of the tasks whose it is: name index */
	/* Of a ready task: those in whose polls; of a wait that is not followed: whose wake. */
	uint32_t culprit;
	uint32_t tid;       /* of waits */
	uint8_t kind, part; /* enum ky_part, of a ready task */
};

struct ky_task_chain {
	const struct ky_trace *trace;
	uint64_t from_ns, to_ns;
	uint32_t task;
	struct ky_link *links;
	uint32_t link_count, link_capacity;
	struct ky_chain_group *groups; /* most time first */
	uint32_t group_count, group_capacity;
	uint32_t *group_slots; /* chain_groups.c: number of a group + 1; while it is made */
	uint32_t group_slot_count;
	bool is_cut; /* there would be more links: the first one is not followed */
};

/* to_ns 0: the end of its last poll; from_ns 0: its spawn, or first sight. code NULL: no causes.
 * Returns 0, -ENOMEM. */
int ky_chain_make(struct ky_task_chain **out, const struct ky_trace *trace, uint32_t task,
		  uint64_t from_ns, uint64_t to_ns, const struct ky_code_stacks *code);
void ky_chain_free(struct ky_task_chain *chain);

/* "poll", "ready" ..: the name in JSON. */
const char *ky_link_kind_key(uint32_t kind);

/* One object; key NULL: it has none. The first `limit` links, 0: all. */
void ky_chain_json(struct ky_buf *out, const char *key, const struct ky_task_chain *chain,
		   uint64_t limit);

#endif
