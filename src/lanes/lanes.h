/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* lanes.h - a trace as lanes over one time axis, each of layers that are drawn by strip.h: workers
 * (polls, delays, parks, waits for a CPU, times off CPU), the blocking pool, spans by name, and one
 * lane for the polls of a chosen task.
 *
 * Invariants:  a row of a layer is an index of what the trace has: a poll or park of the worker, a
 *              blocking run, a sample, a span; of the task's lane an entry of `task_polls`. The
 *              lane of the task is the last one and empty until a task is chosen.
 * Memory:      4.3 bytes a poll, 2.2 a park; 6.2 a span and an off-CPU interval; 24 a poll of the
 *              chosen task.
 * Threads:     owner while it is made or a task is chosen; any number of readers otherwise.
 */
#ifndef KY_LANES_LANES_H
#define KY_LANES_LANES_H

#include <lanes/strip.h>
#include <read/trace.h>

#define KY_LANES_SPAN_NAMES 24u /* names of spans with a lane: those of most time */
#define KY_TASK_POLLS_SHOWN (1u << 22)

enum ky_lane_kind {
	KY_LANE_WORKER = 1,
	KY_LANE_BLOCKING,
	KY_LANE_SPANS,
	KY_LANE_TASK
};

enum ky_lane_layer {
	KY_LAYER_MAIN,      /* polls, runs or spans */
	KY_LAYER_DELAY,     /* by poll, at its begin; of a task: from ready to poll */
	KY_LAYER_PARK,      /* the worker was parked */
	KY_LAYER_RUN_DELAY, /* by park: its thread waited for a CPU before it went on */
	KY_LAYER_OFF_CPU,   /* by sample: its thread was off CPU, not in a park */
	KY_LANE_LAYERS
};

struct ky_lane_task_poll {
	uint64_t start_ns, duration_ns;
	uint32_t worker, row;
};

struct ky_lanes;

struct ky_lane {
	const struct ky_lanes *lanes;
	uint8_t kind;      /* enum ky_lane_kind */
	uint32_t worker;   /* index; of others KY_NONE */
	uint32_t name;     /* of spans: name index */
	uint64_t total_ns; /* of spans */
	struct ky_forest layers[KY_LANE_LAYERS];
	uint32_t *rows; /* of spans, and of off-CPU times of a worker: indexes */
	uint32_t row_count, row_capacity;
	uint32_t *cpu_rows; /* CPU samples of a worker, by time */
	uint32_t cpu_count, cpu_capacity;
};

struct ky_lanes {
	const struct ky_trace *trace;
	struct ky_lane *list;
	uint32_t count;
	uint32_t span_names_more; /* names of spans without a lane */
	struct ky_lane_task_poll *task_polls;
	uint32_t task_poll_count, task_poll_capacity;
	uint32_t task; /* index of the chosen one; KY_NONE */
};

/* Returns 0, -ENOMEM. The trace has to live as long. */
int ky_lanes_open(struct ky_lanes **out, const struct ky_trace *trace);
void ky_lanes_close(struct ky_lanes *lanes);

/* Fills the last lane with the polls of a task, the first KY_TASK_POLLS_SHOWN. Returns 0,
 * -ENOMEM. */
int ky_lanes_choose_task(struct ky_lanes *lanes, uint32_t task);

/* The row of a pixel as an index of the trace: what ky_trace_poll() takes (of the lane of the task
 * the worker changes), or an index in spans, blocking_runs, samples.rows. */
uint32_t ky_lane_item(const struct ky_lane *lane, enum ky_lane_layer layer, uint32_t row,
		      uint32_t *worker);

/* How many CPU samples of the lane lie in [from, to). */
uint32_t ky_lane_cpu_samples(const struct ky_lane *lane, uint64_t from_ns, uint64_t to_ns);

/* What a poll is called: its task, else what the poll says; KY_NONE: neither. */
uint32_t ky_lane_poll_name(const struct ky_trace *trace, const struct ky_poll *poll);

#endif
