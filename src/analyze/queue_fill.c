/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/queue_fill.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <errno.h>
#include <read/ascending.h>

#define PERCENTILES 3u

static const uint32_t percents[PERCENTILES] = {50, 90, 99};

/* Which of the sorted samples it is, from 0: the nearest rank. */
static uint64_t rank_of(uint64_t count, uint32_t percent)
{
	uint64_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100;

	return rank ? rank - 1 : 0;
}

static void use_counts(struct ky_queue_fill *use, const uint64_t *depths)
{
	uint32_t *values[PERCENTILES] = {&use->p50, &use->p90, &use->p99};
	uint64_t sum = 0;
	uint32_t at = 0;
	bool has_min = false;

	for (uint32_t depth = 0; depth < KY_QUEUE_DEPTHS; depth++) {
		if (!depths[depth])
			continue;
		if (!has_min)
			use->min = depth;
		has_min = true;
		use->max = depth;
		sum += depths[depth];
		for (; at < PERCENTILES && rank_of(use->sample_count, percents[at]) < sum; at++)
			*values[at] = depth;
	}
}

/* Returns whether memory was enough. */
static bool use_rows(struct ky_queue_fill *use, const struct ky_trace_queue *queue)
{
	uint64_t count = queue->rows.row_count;
	uint64_t *depths = ky_alloc((size_t)(count + 1) * sizeof(*depths));
	struct ky_queue_sample sample;

	if (!depths)
		return false;
	for (uint64_t row = 0; row < count; row++) {
		ky_queue_sample(queue, row, &sample);
		depths[row] = sample.depth;
	}
	ky_ascending_sort(depths, (uint32_t)count);
	if (count) {
		use->min = (uint32_t)depths[0];
		use->p50 = (uint32_t)depths[rank_of(count, 50)];
		use->p90 = (uint32_t)depths[rank_of(count, 90)];
		use->p99 = (uint32_t)depths[rank_of(count, 99)];
		use->max = (uint32_t)depths[count - 1];
	}
	ky_free(depths);
	return true;
}

static void find_fullest(struct ky_queue_fill *use, const struct ky_trace_queue *queue)
{
	struct ky_queue_sample sample;

	for (uint64_t row = 0; use->max && row < queue->rows.row_count; row++) {
		ky_queue_sample(queue, row, &sample);
		if (sample.depth == use->max) {
			use->max_ns = sample.time_ns;
			return;
		}
	}
}

int ky_queue_fills(const struct ky_trace *trace, struct ky_queue_fill **out)
{
	*out = ky_alloc((trace->queue_count + (size_t)1) * sizeof(**out));
	for (uint32_t i = 0; *out && i < trace->queue_count; i++) {
		const struct ky_trace_queue *queue = &trace->queues[i];
		struct ky_queue_fill *use = &(*out)[i];

		*use = (struct ky_queue_fill){.sample_count = queue->sample_count,
					      .worker_id = queue->worker_id,
					      .runtime = queue->runtime,
					      .is_worker = queue->depths != NULL};
		if (queue->depths) {
			use_counts(use, queue->depths);
		} else if (!use_rows(use, queue)) {
			ky_free(*out);
			*out = NULL;
			break;
		}
		find_fullest(use, queue);
	}
	return *out ? 0 : -ENOMEM;
}

void ky_queue_fills_json(struct ky_buf *out, const struct ky_trace *trace)
{
	struct ky_queue_fill *uses;

	if (!trace->queue_count)
		return;
	if (ky_queue_fills(trace, &uses)) {
		out->failed = -ENOMEM;
		return;
	}
	ky_json_open(out, "queues", "[");
	for (uint32_t i = 0; i < trace->queue_count; i++) {
		const struct ky_queue_fill *use = &uses[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "kind", use->is_worker ? "worker" : "runtime");
		if (use->runtime != KY_NONE)
			ky_json_text(out, "runtime", ky_trace_name(trace, use->runtime));
		else
			ky_json_null(out, "runtime");
		ky_json_number_or_null(out, "worker", use->is_worker, use->worker_id);
		ky_json_number(out, "samples", use->sample_count);
		ky_json_number(out, "min", use->min);
		ky_json_number(out, "p50", use->p50);
		ky_json_number(out, "p90", use->p90);
		ky_json_number(out, "p99", use->p99);
		ky_json_number(out, "max", use->max);
		ky_json_number_or_null(out, "max_ns", use->max_ns != 0, use->max_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_free(uses);
}
