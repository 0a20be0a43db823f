/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* retain.h - what of a stream is written and what is only counted; for the files of
 * the convert stage; what the driver calls is in convert.h.
 *
 * A poll that ends below the threshold, within what is queued, becomes a value of a histogram and
 * leaves no event; one whose end is not known yet is written. Of spans only ends are written,
 * with their start: when one begins its length is not known. A wake waits in its task's entry
 * until the poll comes: late ones are written, the others counted. Whatever is held back is
 * counted exactly, by kind and task name and by worker, and reported every KY_RETAIN_REPORT_NS and
 * at the end of each segment; what the policy is, at the start of each segment and when it changes.
 * Everything else (tasks, workers, snapshots, losses) continues as without a policy.
 *
 * Memory: KY_RETAIN_ROWS_MAX rows of buckets; beyond, values count and lack a bucket.
 * Threads: owner.
 */
#ifndef KY_DRAIN_RETAIN_H
#define KY_DRAIN_RETAIN_H

#include <base/buf.h>
#include <base/log_buckets.h>
#include <drain/drain.h>
#include <drain/thread_table.h>

#define KY_RETAIN_REPORT_NS UINT64_C(5000000000)
#define KY_RETAIN_NAMES_MAX 65536u /* with a histogram of their own */
#define KY_RETAIN_ROWS_MAX 65536u
#define KY_RETAIN_HELD_MAX (1u << 20) /* wakes waiting for their poll; beyond: counted */

struct ky_convert;

/* What the lengths are of. */
enum ky_retain_table_kind {
	KY_RETAIN_POLLS,
	KY_RETAIN_DELAYS,
	KY_RETAIN_RUNS, /* blocking */
	KY_RETAIN_PARKS,
	KY_RETAIN_TURNS,
	KY_RETAIN_MARKS,
	KY_RETAIN_SPANS,
	KY_RETAIN_TABLES
};

struct ky_counted {
	uint64_t count, sum, min, max;
	uint64_t *rows[KY_BUCKET_ROWS]; /* of KY_BUCKETS_PER_ROW; NULL: no value there yet */
};

struct ky_counted_table {
	struct ky_counted **by_name;
	uint32_t capacity;
};

struct ky_worker_sums {
	uint64_t poll_count, busy_ns, poll_max_ns, nested_count, wake_count, park_count, parked_ns;
	uint64_t first_ns, last_ns; /* of the polls and parks; 0: none */
	uint64_t parked_since_ns;   /* a park that is held back began; 0: none */
};

struct ky_held_wake {
	uint64_t woken_ns, waker, woken;
	uint32_t worker_index; /* in `workers` */
	uint32_t next_free;
	uint32_t stack, tid; /* as in its WAKE; of its thread, or 0 */
	uint8_t worker_id, origin;
	bool is_record; /* else reported by the end of its own poll */
	bool is_used;
};

struct ky_throttle_budget {
	uint64_t from_ns; /* of this second */
	uint32_t used;
};

/* Of a span whose begin is not written; its end reports it. */
struct ky_span_parent {
	uint64_t id, parent;
};
#define KY_RETAIN_PARENTS 65536u

struct ky_retain {
	bool is_given;                  /* the settings may change it */
	struct ky_retain_policy opened; /* what the options said */
	struct ky_retain_policy policy; /* in force */
	bool is_on;                     /* anything is held back */
	bool holds_polls;
	bool holds_wakes; /* until their poll comes */
	bool holds_spans; /* their begins; those that end in time are counted */
	uint64_t spans_from_ticks;
	struct ky_span_parent *parents; /* by id, the last one of each place; NULL: none yet */
	uint32_t generation;
	bool was_read; /* `generation` has been applied */
	struct ky_counted_table tables[KY_RETAIN_TABLES];
	uint32_t row_count;
	struct ky_worker_sums *workers; /* 0: threads that serve none; else worker index + 1 */
	uint32_t worker_capacity;
	struct ky_held_wake *held; /* place 0 is not used */
	uint32_t held_capacity, held_used, held_free;
	struct ky_throttle_budget budgets[KY_RETAIN_COUNT];
	uint64_t from_ns;         /* counted since */
	uint64_t reported_ns;     /* of the step's clock */
	uint64_t records_pending; /* ring records counted and not yet reported */
	bool has_counts;
	struct ky_buf scratch;
};

/* How a poll that begins continues. */
struct ky_retain_choice {
	bool is_kept;
	uint64_t ready_ns; /* its task was ready since; 0: not known */
	uint32_t held;     /* the wake that made it ready, if it was held back; 0: none */
};

/* opened: what is in force until the ring's settings say otherwise; NULL: nothing is ever held
 * back. Returns 0, -ENOMEM. */
int ky_retain_init(struct ky_convert *convert, const struct ky_retain_policy *opened);
void ky_retain_release(struct ky_convert *convert);

/* ---- retain_event.c: the chunk has room ---- */
void ky_retain_write_wake(struct ky_convert *convert, const struct ky_held_wake *held, uint64_t ns);
void ky_retain_write_delay(struct ky_convert *convert, uint32_t worker, uint32_t nested_tid,
			   uint64_t ready_ns, uint64_t ns);

/* ---- only while is_on ---- */

/* rec: the begin of a poll at the head of its thread's queue. */
void ky_retain_choose(struct ky_convert *convert, const struct ky_dthread *thread,
		      const struct ky_rec *rec, uint64_t task, uint64_t ns,
		      struct ky_retain_choice *out);
/* After the poll's start, written or not: its delay. `poll_worker` as its start said; nested_tid:
 * 0, or the thread of a nested poll. */
void ky_retain_delay(struct ky_convert *convert, const struct ky_retain_choice *choice,
		     uint32_t name, uint32_t poll_worker, uint32_t nested_tid, uint64_t ns);
/* A poll that is not written: begins, loses its worker (its rest is a nested one), ends. */
void ky_retain_poll_begin(struct ky_convert *convert, struct ky_drain_poll *poll);
void ky_retain_poll_moved(struct ky_convert *convert, struct ky_drain_poll *poll, uint64_t ns);
void ky_retain_poll_end(struct ky_convert *convert, const struct ky_drain_poll *poll, uint64_t ns);
/* False: the wake is held back or counted. */
bool ky_retain_writes_wake(struct ky_convert *convert, const struct ky_dthread *thread,
			   uint64_t waker, uint64_t woken, uint32_t origin, uint32_t stack,
			   uint64_t ns);
/* The task is over and may have a wake waiting. */
void ky_retain_task_end(struct ky_convert *convert, uint64_t task, uint64_t ns);
bool ky_retain_writes_run(struct ky_convert *convert, const struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns);
void ky_retain_run_end(struct ky_convert *convert, uint32_t name, uint64_t length_ns);
/* A park (then its unpark), a driver turn, a mark: only a throttle holds them back. */
bool ky_retain_writes_park(struct ky_convert *convert, uint32_t worker, bool is_park, uint64_t ns);
bool ky_retain_writes(struct ky_convert *convert, enum ky_retain_kind kind, uint64_t length_ns,
		      uint64_t ns);
/* The begin of a span: false while a policy holds spans back, whatever their length. */
bool ky_retain_writes_span_begin(struct ky_convert *convert, uint64_t id, uint64_t parent);
/* That a thread enters or leaves one: the same. */
bool ky_retain_writes_span_run(struct ky_convert *convert);
/* Its end. *parent: of one whose begin was not written; 0: none, or not known. False: counted. */
bool ky_retain_writes_span(struct ky_convert *convert, uint64_t word, uint64_t begin_ticks,
			   uint64_t length_ns, uint64_t ns, uint64_t *parent);

#endif
