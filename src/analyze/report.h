/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* report.h - what `kymo report` says about a trace.
 *
 * Invariants:  deterministic: the same trace gives the same bytes on every machine. Statistics of
 *              polls leave out polls whose end is not proven (counted beside); open ones stand in
 *              the worst list, marked, because a hang is the worst poll. Delays follow
 *              "Ready R of task T" (first wake since the last PollEnd while idle; a wake during
 *              the own poll counts from that poll's end). What a retention policy held back is
 *              in all figures, by the writer's histograms; of those, the ones that begin in the
 *              range count whole.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_REPORT_H
#define KY_ANALYZE_REPORT_H

#include <analyze/histogram.h>
#include <base/buf.h>
#include <read/trace.h>

#define KY_REPORT_WORST 10u
#define KY_REPORT_WORST_MAX 1000u

struct ky_stack_profile;

struct ky_report_options {
	uint64_t from_ns, to_ns; /* polls and parks that start in [from, to); to 0: no end */
	uint32_t worst_count;    /* 0: 10; at most 1,000 */
};

struct ky_worker_use {
	uint32_t worker;  /* index in trace->workers */
	uint64_t span_ns; /* its first to its last event, cut to the range */
	/* Of span: in lost records, or in a poll or park that has such inside or whose end is not
	 * proven. Nothing is said about this time: the shares below are of the rest. */
	uint64_t unknown_ns;
	uint64_t busy_ns; /* in polls */
	uint64_t parked_ns;
	uint64_t other_ns; /* scheduler, driver, root future: the rest of span */
	/* Not parked / known time; 1000: never parks; UINT64_MAX: all is unknown, or its parks are
	 * not seen */
	uint64_t active_permille;
	uint64_t busy_permille; /* in polls / known time; UINT64_MAX as above */
	uint64_t poll_count, park_count, wake_count;
	uint64_t poll_max_ns;
	uint64_t sched_wait_ns; /* sum of what unparks measured */
	bool has_sched_wait;    /* one did; kymo's own do not */
	uint64_t cpu_permille;  /* CPU time of unparked stretches; UINT64_MAX unknown */
};

struct ky_worst {
	struct ky_poll poll; /* task, name, worker, times, flags */
	uint64_t row;
	/* Of the poll, and of the wait before it: for so long the process was stopped. No list
	 * and no figure counts it. */
	uint64_t stopped_ns, delay_stopped_ns;
	uint32_t waker; /* of worst delays: task that woke it, KY_NONE unknown */
	/* ... index of the worker that did, in whose queue it stood then; KY_NONE: none */
	uint32_t wake_worker;
	struct ky_wake wake; /* stack, tid and origin alone; origin 0: it is not known */
};

static inline uint64_t ky_worst_poll_ns(const struct ky_worst *worst)
{
	return worst->poll.duration_ns - worst->stopped_ns;
}

static inline uint64_t ky_worst_delay_ns(const struct ky_worst *worst)
{
	return worst->poll.delay_ns - worst->delay_stopped_ns;
}

struct ky_task_group {
	uint32_t name;        /* name index, KY_NONE unnamed */
	uint64_t task_count;  /* with a poll, a wake, their spawn or their end in the range */
	uint64_t alive_count; /* of these, not ended by the end of the range */
	uint64_t poll_count, busy_ns, poll_max_ns, wake_count;
	uint64_t delay_ns, delay_max_ns, delay_count;
	uint64_t share_ppm; /* of all poll time, parts per million */
	bool is_runtimes;   /* the runtime's own work: last, and in no list of the worst */
};

struct ky_length_sums {
	uint64_t count, total_ns, max_ns;
};
static inline void ky_length_add(struct ky_length_sums *sums, uint64_t ns)
{
	sums->count++;
	sums->total_ns += ns;
	sums->max_ns = ns > sums->max_ns ? ns : sums->max_ns;
}

struct ky_blocking_group {
	uint32_t name;
	uint64_t run_count, busy_ns, run_max_ns;
	/* In line for a thread of the pool, at least: of those whose submission is known. */
	struct ky_length_sums waits;
	bool is_runtimes; /* a worker's whole life: last */
};

struct ky_report {
	uint64_t from_ns, to_ns;
	/* An orderly end of the runtime began then; 0: none in the range. Which tasks live, and
	 * where they wait, is judged just before it, else at the end of the range. */
	uint64_t shutdown_ns;
	uint64_t spans_from_ns, spans_to_ns; /* as asked for: a span may lie outside of all polls */
	struct ky_worker_use *workers;
	uint32_t worker_count;
	struct ky_histogram poll_histogram, delay_histogram, blocking_histogram;
	struct ky_quantiles polls, delays, blocking; /* all in ns */
	struct ky_worst *worst_polls; /* longest first; then earlier start, then worker */
	uint32_t worst_poll_count;
	struct ky_worst *worst_delays;
	uint32_t worst_delay_count;
	struct ky_task_group *groups; /* most poll time first; then name */
	uint32_t group_count;
	struct ky_blocking_group *blocking_groups;
	uint32_t blocking_group_count;
	uint64_t polls_open, polls_end_unproven, polls_with_gap;
	/* Of polls, what another thread served the worker in: in no other figure. */
	struct ky_length_sums handed_over;
	uint64_t delays_no_wake, delays_withheld;
	/* Workers without a park that the kernel counted as blocked most of the time. */
	uint64_t workers_without_parks;
	/* Of the figures above: what is not in the trace one by one, so not in the worst lists. */
	uint64_t polls_counted, delays_counted, blocking_counted, wakes_counted, parks_counted;
	uint64_t busy_ns;
};

/* Returns 0, -ENOMEM. trace must outlive nothing: the report holds indexes only. */
int ky_report_make(struct ky_report **out, const struct ky_trace *trace,
		   const struct ky_report_options *options);
void ky_report_free(struct ky_report *report);

/* Does the task live at the end of the range, or just before the shutdown? */
bool ky_report_lives(const struct ky_report *report, const struct ky_task *task);

/* What the writer has counted, trace->histograms[at], into a histogram of ours. */
void ky_report_join(struct ky_histogram *histogram, const struct ky_trace *trace, uint32_t at);

/* Canonical JSON, one object, keys in fixed order: the bytes that native and wasm must share, what
 * `kymo info --json` prints, and the key "tables" of `kymo report --json`. profile: of
 * stack_profile.h; NULL: no such key. Errors: buf->failed. */
/* Keys "pid" and "service": as the trace names its process, or null. */
void ky_process_json(struct ky_buf *out, const struct ky_trace *trace);
void ky_info_json(struct ky_buf *out, const struct ky_trace *trace);
void ky_report_json(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, const struct ky_stack_profile *profile);

#endif
