/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_table.h - threads of the ring's process: whose records wait, what was read of each, and
 * what the records so far have said of it; for src/drain.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_THREAD_TABLE_H
#define KY_DRAIN_THREAD_TABLE_H

#include <drain/record_queue.h>

#define KY_NONE32 UINT32_MAX
#define KY_DTHREADS_MAX 65536u /* alive at once */
#define KY_DTHREADS_FULL (KY_DTHREADS_MAX / 4 * 3)
#define KY_DTHREAD_BUCKETS 4096u
#define KY_STACK_MAX 64u

enum ky_poll_kind {
	KY_POLL_OUTER = 1, /* PollStart was written: ends with PollEnd */
	KY_POLL_NESTED,    /* NestedPollStart was written */
	KY_POLL_SILENT,    /* its start is unknown: its end is not written */
	KY_POLL_COUNTED,   /* an outer one that the policy holds back */
	KY_POLL_COUNTED_NESTED
};

struct ky_drain_poll {
	uint64_t task;
	uint64_t start_ns;
	uint64_t begin_ticks;
	uint32_t name;
	uint32_t worker; /* index in workers or KY_NONE32 */
	uint32_t kind;
	uint32_t task_place; /* where the task's entry was when the poll began */
};

/* It is, or would be, the one open poll of its worker. */
static inline bool ky_poll_is_outer(const struct ky_drain_poll *poll)
{
	return poll->kind == KY_POLL_OUTER || poll->kind == KY_POLL_COUNTED;
}

struct ky_dthread {
	struct ky_dthread *next; /* in its bucket */
	uint32_t index;
	uint32_t tid;
	char name[32];
	uint64_t start_ticks;
	uint64_t exit_ticks;
	uint64_t exit_step; /* step in which the directory reported it; 0: alive */
	bool is_announced;
	bool is_exit_queued;
	bool is_done;        /* its KY_REC_EXIT was merged */
	uint64_t counted_ns; /* when the kernel's counts were read last; 0: never */
	/* reading */
	uint64_t record_next;  /* number of the next record expected */
	uint64_t read_ticks;   /* stamp of the last record read */
	uint32_t cursor_count; /* slots that hold or may get records of it */
	bool has_slot;
	bool ended_closed;  /* its last slot closed after it: there must be another one */
	uint32_t gap_cause; /* something is missing, the next slot reports how much */
	uint64_t back_step; /* the last ky_drain_resume() that found a slot of it */
	struct ky_queue queue;
	/* merging */
	uint64_t last_ns;
	uint64_t parked_on;   /* word of its last PARKED_ON */
	uint64_t boundary_ns; /* end of its last poll, park or turn: what it does is later */
	uint32_t worker;      /* the worker it serves, KY_NONE32 */
	bool is_launched;     /* ... by a WORKER_BEGIN */
	uint64_t launched_ns; /* when, until the worker moves to it; 0: not known */
	uint64_t runtime_key; /* of its last RUNTIME record */
	struct ky_drain_poll *stack;
	uint32_t depth, stack_capacity;
	uint32_t deeper; /* open polls beyond the stack */
	/* of the last poll that ended, until its POLL_COST: words of its POLL_COUNTS */
	uint64_t counts[3];
	uint32_t nested_count;
	bool has_counts;
	uint64_t blocking_task;
	uint64_t blocking_start_ns;
	uint32_t blocking_name;
	uint32_t blocking_worker; /* it served when the run began, KY_NONE32 */
	bool is_blocking;
	uint64_t root_task, root_begin_ns; /* that it polled last; not before that, 0: ever */
	bool has_gates;
	uint64_t gates;      /* as last reported */
	bool is_run_counted; /* the policy holds it back */
};

struct ky_thread_table {
	struct ky_dthread **list;
	uint32_t count, capacity;
	struct ky_dthread *buckets[KY_DTHREAD_BUCKETS];
	struct ky_queue_sums queues; /* of all threads, and of what is merged like one */
};

/* The thread of this index and kernel id; made when it is new. Returns 0; -ENOMEM; KYMO_E_LIMIT. */
int ky_thread_table_take(struct ky_thread_table *table, uint32_t index, uint32_t tid,
			 struct ky_dthread **out);
struct ky_dthread *ky_thread_table_find(const struct ky_thread_table *table, uint32_t index);
/* The one that is not over, NULL. */
struct ky_dthread *ky_thread_table_find_tid(const struct ky_thread_table *table, uint32_t tid);
/* Those that wait for nothing are over: threads whose exit was never reported. */
void ky_thread_table_retire(struct ky_thread_table *table);
/* The first from *at on that is over and empty, and its place; NULL: none. */
struct ky_dthread *ky_thread_table_over(const struct ky_thread_table *table, uint32_t *at);
void ky_thread_table_remove(struct ky_thread_table *table, uint32_t at);
void ky_thread_table_release(struct ky_thread_table *table);

/* A source of records that is no thread, with nothing to announce. NULL: no memory. */
struct ky_dthread *ky_thread_make_source(void);
void ky_thread_free(struct ky_dthread *thread); /* NULL: nothing */

/* Room for one more open poll; the caller sets every member. Returns NULL when it does not fit
 * (counted in thread->deeper). */
struct ky_drain_poll *ky_thread_push_poll_grow(struct ky_dthread *thread);
static inline struct ky_drain_poll *ky_thread_push_poll(struct ky_dthread *thread)
{
	if (__builtin_expect(thread->deeper || thread->depth == thread->stack_capacity, 0))
		return ky_thread_push_poll_grow(thread);
	return &thread->stack[thread->depth++];
}

#endif
