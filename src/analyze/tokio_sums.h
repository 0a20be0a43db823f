/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_sums.h - what metrics of tokio-metrics and lints of tokio-console are made of, added up
 * in one pass over wakes, polls and parks of all workers in the order of time.
 *
 * The state of a task follows tokio-metrics' `instrument_poll`: the first wake since the begin of
 * the last poll counts, the next poll consumes it; it is idle from the end of a poll to that wake.
 * A task has no waker before its first poll, so nothing but its spawn precedes that one.
 * Memory:      48 bytes a task while it is made; afterwards a struct for each kind and worker.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_TOKIO_SUMS_H
#define KY_ANALYZE_TOKIO_SUMS_H

#include <read/trace.h>

/* tokio-metrics: TaskMonitor::DEFAULT_SLOW_POLL_THRESHOLD, DEFAULT_LONG_DELAY_THRESHOLD. */
#define KY_SLOW_POLL_NS UINT64_C(50000)
#define KY_LONG_DELAY_NS UINT64_C(50000)
/* Tokio: HistogramBuilder's default, linear. */
#define KY_POLL_BUCKET_NS UINT64_C(100000)
#define KY_POLL_BUCKETS 10u
/* tokio-console: SelfWakePercent::DEFAULT_PERCENT, NeverYielded::DEFAULT_DURATION. */
#define KY_SELF_WAKE_PERCENT 50u
#define KY_NEVER_YIELDED_NS UINT64_C(1000000000)

struct ky_count_time {
	uint64_t count, ns;
};

/* Of the tasks of one name. What is `unknown` may or may not have been. */
struct ky_kind_sums {
	uint32_t name; /* index; KY_NONE */
	uint64_t task_count;
	uint64_t spawned, spawned_unknown; /* in the time of the trace */
	uint64_t ended;
	uint64_t first_polls, first_unknown;
	uint64_t first_delay_min_ns, first_delay_max_ns; /* max UINT64_MAX: not known */
	struct ky_count_time fast, slow;                 /* polls */
	struct ky_count_time unproven;                   /* those that took at most so long */
	uint64_t held_polls, held_poll_ns, held_delays;  /* in histograms */
	struct ky_count_time idle;
	uint64_t idle_max_ns, idle_unknown;
	struct ky_count_time scheduled, long_delays;
	uint64_t scheduled_unknown;
	/* Lints: tasks that have it at the end of the trace, or of their own. */
	uint64_t self_waking, never_yielded, never_unknown;
	uint64_t waiting; /* neither polled nor woken at the end of the trace */
};

/* Of a worker, by its index. */
struct ky_worker_counts {
	uint64_t polls, parks;
	uint64_t noops, working_parks; /* of parks: after none, after at least one poll */
	uint64_t poll_ns;              /* in polls */
	uint64_t awake_ns;             /* neither parked nor in a turn of the driver */
	uint64_t ready_min;            /* events of I/O */
	uint64_t ready_max;
	uint64_t local_wakes; /* that scheduled a task of its runtime */
	uint64_t buckets[KY_POLL_BUCKETS], unproven;
};

/* Of a runtime, by its index; after them those of workers that belong to none. */
struct ky_runtime_sums {
	uint64_t workers;
	uint64_t live, live_unknown; /* tasks at the end of the trace */
	uint64_t remote_wakes;       /* from outside of it, that scheduled a task of it */
};

struct ky_tokio_sums {
	struct ky_kind_sums *kinds; /* those that were polled longest first */
	uint32_t kind_count, kind_capacity;
	struct ky_worker_counts *workers;
	struct ky_runtime_sums *runtimes; /* trace->runtime_count + 1 */
	bool has_losses;                  /* records are missing: counts are lower bounds */
	bool has_held;                    /* polls, parks or wakes are in histograms alone */
};

/* Returns 0, -ENOMEM. */
int ky_tokio_sums_make(struct ky_tokio_sums *out, const struct ky_trace *trace);
void ky_tokio_sums_release(struct ky_tokio_sums *sums);

/* Row of a worker in `runtimes`; KY_NONE: no worker of a runtime. */
uint32_t ky_tokio_runtime(const struct ky_trace *trace, uint32_t worker);

#endif
