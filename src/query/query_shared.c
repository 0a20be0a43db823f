/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the tables of a query share, and what is concluded when one of them asks for it first. */
#include <query/query_cursor.h>

#include <analyze/console_lints.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <stddef.h>
#include <string.h>

static bool is_lane_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	const struct ky_worker *one = &trace->workers[*(const uint32_t *)a];
	const struct ky_worker *other = &trace->workers[*(const uint32_t *)b];

	if (one->is_thread_lane != other->is_thread_lane)
		return one->is_thread_lane;
	return (int64_t)one->id < (int64_t)other->id;
}

uint32_t *ky_query_shared_begins(const struct ky_query_shared *shared, uint8_t rows)
{
	return shared->lane_begins +
	       (size_t)(rows - KY_ROWS_POLLS) * (shared->source.trace->worker_count + 1u);
}

static void sum_worker(const struct ky_trace *trace, uint32_t worker, struct ky_worker_sum *sum)
{
	struct ky_poll poll;
	struct ky_park park;

	for (uint64_t row = 0; row < trace->workers[worker].polls.row_count; row++) {
		ky_trace_poll(trace, worker, row, &poll);
		if (!(poll.flags & KY_POLL_NESTED))
			sum->busy_ns += poll.duration_ns;
	}
	for (uint64_t row = 0; row < trace->workers[worker].parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		sum->parked_ns += park.duration_ns;
	}
}

int ky_query_shared_init(struct ky_query_shared *shared, const struct ky_trace *trace)
{
	size_t count = (size_t)trace->worker_count + 1u;

	shared->source.trace = trace;
	shared->lanes = ky_alloc(count * sizeof(*shared->lanes));
	shared->lane_begins = ky_alloc(3u * count * sizeof(*shared->lane_begins));
	shared->source.scratch = ky_alloc(sizeof(*shared->source.scratch));
	if (!shared->lanes || !shared->lane_begins || !shared->source.scratch)
		return -ENOMEM;
	ky_buf_init(shared->source.scratch, 0);
	for (uint32_t i = 0; i < trace->worker_count; i++)
		shared->lanes[i] = i;
	ky_sort(shared->lanes, trace->worker_count, sizeof(*shared->lanes), is_lane_before, trace);
	for (int kind = KY_ROWS_POLLS; kind <= KY_ROWS_WAKES; kind++) {
		const uint8_t rows = (uint8_t)kind;
		uint32_t *begins = ky_query_shared_begins(shared, rows);
		uint64_t at = 0;

		for (uint32_t i = 0; i < trace->worker_count; i++) {
			begins[i] = (uint32_t)at;
			at += ky_query_lane(&trace->workers[i], rows)->row_count;
		}
		begins[trace->worker_count] = (uint32_t)at;
	}
	return 0;
}

static void release_metrics(struct ky_query_shared *shared)
{
	ky_tokio_sums_release(&shared->tokio);
	for (uint32_t i = 0; i < 3; i++)
		ky_metric_rows_release(&shared->metrics[i]);
}

void ky_query_shared_release(struct ky_query_shared *shared)
{
	for (uint32_t i = 0; i < 4; i++)
		ky_row_order_release(&shared->orders[i / 2][i % 2]);
	if (shared->source.scratch)
		ky_buf_release(shared->source.scratch);
	ky_free(shared->source.scratch);
	ky_free((void *)(uintptr_t)shared->source.sums);
	ky_free(shared->source.splits);
	if (shared->source.wakes)
		ky_wake_namer_release(shared->source.wakes);
	ky_free(shared->source.wakes);
	ky_free(shared->queues);
	ky_span_tail_release(&shared->tail);
	release_metrics(shared);
	ky_free(shared->lanes);
	ky_free(shared->lane_begins);
}

/* The sums of workers, when their table is used first. */
static int make_sums(struct ky_query_shared *shared)
{
	const struct ky_trace *trace = shared->source.trace;
	struct ky_worker_sum *sums = ky_alloc(((size_t)trace->worker_count + 1u) * sizeof(*sums));

	if (!sums)
		return SQLITE_NOMEM;
	for (uint32_t i = 0; i < trace->worker_count; i++)
		sum_worker(trace, i, &sums[i]);
	shared->source.sums = sums;
	return SQLITE_OK;
}

/* The metrics and lints of Tokio's tools, when one of their tables is used first. */
static int make_metrics(struct ky_query_shared *shared)
{
	const struct ky_trace *trace = shared->source.trace;
	const struct ky_tokio_sums *sums = &shared->tokio;

	if (ky_tokio_sums_make(&shared->tokio, trace) ||
	    ky_task_metrics(&shared->metrics[0], trace, sums) ||
	    ky_runtime_metrics(&shared->metrics[1], trace, sums) ||
	    ky_console_lints(&shared->metrics[2], sums)) {
		release_metrics(shared);
		return SQLITE_NOMEM;
	}
	shared->has_metrics = true;
	return SQLITE_OK;
}

int ky_query_shared_name_code(struct ky_query_shared *shared)
{
	struct ky_query_source *source = &shared->source;

	if (shared->is_code_named)
		return 0;
	shared->is_code_named = true;
	if (shared->name_code && shared->name_code(shared->ctx))
		return -ENOMEM;
	source->wakes = ky_alloc(sizeof(*source->wakes));
	return source->wakes ? ky_wake_namer_make(source->wakes, source->trace, source->stacks) :
			       -ENOMEM;
}

/* What the rows of the table are made of beside themselves. */
static int make_beside(struct ky_query_shared *shared, const struct ky_query_table *table)
{
	if (table->array_offset == offsetof(struct ky_trace, workers) && !shared->source.sums)
		return make_sums(shared);
	if (table->array_offset == offsetof(struct ky_trace, spans) && !shared->source.splits)
		return ky_span_splits(shared->source.trace, &shared->source.splits) ? SQLITE_NOMEM :
										      SQLITE_OK;
	return SQLITE_OK;
}

int ky_query_shared_array(struct ky_query_shared *shared, const struct ky_query_table *table,
			  const uint8_t **rows, uint64_t *count)
{
	const struct ky_trace *trace = shared->source.trace;
	const struct ky_metric_rows *metrics;

	switch (table->rows) {
	case KY_ROWS_TAIL:
		if (!shared->has_tail && trace->span_count && trace->samples.row_count &&
		    ky_query_shared_name_code(shared))
			return SQLITE_NOMEM;
		if (!shared->has_tail &&
		    ky_span_tail_make(&shared->tail, trace, shared->source.stacks))
			return SQLITE_NOMEM;
		shared->has_tail = true;
		*rows = (const void *)shared->tail.rows;
		*count = shared->tail.count;
		return SQLITE_OK;
	case KY_ROWS_FINDINGS:
		if (shared->find && !shared->findings && shared->find(shared->ctx))
			return SQLITE_NOMEM;
		*rows = shared->findings ? (const void *)shared->findings->list : NULL;
		*count = shared->findings ? shared->findings->count : 0;
		return SQLITE_OK;
	case KY_ROWS_QUEUES:
		if (!shared->queues && ky_queue_fills(trace, &shared->queues))
			return SQLITE_NOMEM;
		*rows = (const void *)shared->queues;
		*count = trace->queue_count;
		return SQLITE_OK;
	case KY_ROWS_TASK_METRICS:
	case KY_ROWS_RUNTIME_METRICS:
	case KY_ROWS_LINTS:
		if (!shared->has_metrics && make_metrics(shared))
			return SQLITE_NOMEM;
		metrics = &shared->metrics[table->rows - KY_ROWS_TASK_METRICS];
		*rows = (const void *)metrics->rows;
		*count = metrics->count;
		return SQLITE_OK;
	default:
		*count = ky_query_array(table, trace, rows);
		return make_beside(shared, table);
	}
}
