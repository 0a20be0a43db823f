/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_metrics.h - the metrics of the crate tokio-metrics (0.5.1), by its names: TaskMetrics of
 * each kind of task, RuntimeMetrics of each runtime, both over the time of the trace.
 *
 * Exact where events determine the value, between two bounds where they do not, else not recorded,
 * with what would record it.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_TOKIO_METRICS_H
#define KY_ANALYZE_TOKIO_METRICS_H

#include <analyze/tokio_sums.h>

enum ky_metric_state {
	KY_METRIC_EXACT,
	KY_METRIC_BOUNDED,
	KY_METRIC_NOT_RECORDED
};

struct ky_metric_row {
	const char *name, *unit;
	const char *why;           /* no exact value, or what would record it; NULL */
	const char *note;          /* where what is counted differs; NULL */
	uint64_t value, value_max; /* at least and at most; UINT64_MAX: not known */
	uint64_t bucket_ns;        /* of a histogram: where its bucket begins; else UINT64_MAX */
	uint64_t task_count;       /* of a lint: those checked */
	uint32_t subject;          /* name index, or index in runtimes; KY_NONE */
	uint8_t state;             /* enum ky_metric_state */
};

struct ky_metric_rows {
	struct ky_metric_row *rows;
	uint32_t count, capacity;
	bool is_full; /* memory is out */
};

/* By kind, those that were polled longest first. Returns 0, -ENOMEM. */
int ky_task_metrics(struct ky_metric_rows *out, const struct ky_trace *trace,
		    const struct ky_tokio_sums *sums);
/* By runtime. The same. */
int ky_runtime_metrics(struct ky_metric_rows *out, const struct ky_trace *trace,
		       const struct ky_tokio_sums *sums);
void ky_metric_rows_release(struct ky_metric_rows *rows);

/* "exact" .. */
const char *ky_metric_state(uint32_t state);

/* ---- for those who make rows ---- */

#define KY_METRIC_OPEN UINT64_MAX

/* What a value may be: at least and at most, KY_METRIC_OPEN: no bound is known. */
struct ky_metric_bound {
	uint64_t least, most;
};

/* A row of the state that the bound says. why: where it is not exact. */
void ky_metric_put(struct ky_metric_rows *rows, const struct ky_metric_row *like,
		   struct ky_metric_bound bound);

#endif
