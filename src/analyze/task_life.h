/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_life.h - everything that a trace has of one task, in the order of time: spawn, wakes with
 * their wakers, polls, waits with their await points, times off CPU, spawns by it, losses, end.
 *
 * Threads: owner.
 */
#ifndef KY_ANALYZE_TASK_LIFE_H
#define KY_ANALYZE_TASK_LIFE_H

#include <analyze/code_stacks.h>
#include <base/buf.h>

enum ky_life_kind {
	KY_LIFE_SPAWN, /* or when it was seen first: KY_TASK_SPAWN_SEEN */
	KY_LIFE_LOSS,  /* records are missing from here on: index in trace->losses */
	KY_LIFE_WAKE,
	KY_LIFE_POLL,
	KY_LIFE_RUN,     /* on the blocking pool: index in trace->blocking_runs */
	KY_LIFE_AWAITED, /* a closure begins that it awaits: the same */
	KY_LIFE_CHILD,   /* it spawned another: index in trace->tasks */
	KY_LIFE_OFF_CPU, /* index in trace->samples.rows */
	KY_LIFE_WAIT,    /* at an await point: the same */
	KY_LIFE_END,
	KY_LIFE_KINDS
};

struct ky_life_event {
	uint64_t time_ns;
	uint64_t row;    /* of a poll or wake: in its worker's column */
	uint32_t worker; /* index; of a poll or wake */
	uint32_t index;
	uint8_t kind; /* enum ky_life_kind */
	/* Of a wake: it changed nothing, as the task was ready already; it came in its own poll. */
	bool is_redundant, is_in_own_poll;
};

struct ky_task_life {
	const struct ky_trace *trace;
	uint32_t task; /* index */
	struct ky_life_event *events;
	uint32_t count, capacity;
	uint64_t counts[KY_LIFE_KINDS];
};

struct ky_task_life_options {
	uint32_t task;           /* index in trace->tasks */
	uint64_t from_ns, to_ns; /* events that begin in [from, to); to 0: no end */
};

/* Returns 0, -ENOMEM. */
int ky_task_life_make(struct ky_task_life **out, const struct ky_trace *trace,
		      const struct ky_task_life_options *options);
void ky_task_life_free(struct ky_task_life *life);

/* "spawn", "wake" .. */
const char *ky_life_kind_key(uint32_t kind);

/* One object; events: the first `limit` of them, 0: all. stacks: NULL: no functions. */
void ky_task_life_json(struct ky_buf *out, const struct ky_task_life *life, uint64_t limit,
		       const struct ky_code_stacks *stacks);

#endif
