/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/queues.h>

#include <read/load.h>
#include <string.h>

#define ROWS_MAX (1u << 22)
#define QUEUES_MAX 4096u       /* of runtimes */
#define RUN_MAX_NS 1000000000u /* a runtime's sample tells about that time after it */
#define SCAN_MAX (1u << 16)    /* rows: beyond, it is not known */
#define UNNAMED (UINT64_C(1) << 32)

static struct ky_trace_queue *add_queue(struct ky_trace *trace)
{
	struct ky_trace_queue *queue;

	if (!ky_pages_array(&trace->pages, &trace->queues, &trace->queue_capacity,
			    trace->queue_count + 1, sizeof(*trace->queues)))
		return NULL;
	queue = &trace->queues[trace->queue_count];
	*queue = (struct ky_trace_queue){.worker_id = UINT64_MAX, .runtime = KY_NONE};
	ky_column_init(&queue->rows, &trace->pages, sizeof(struct ky_queue_row));
	trace->queue_count++;
	return queue;
}

static bool add_row(struct ky_load *load, struct ky_trace_queue *queue, uint64_t time_ns,
		    uint32_t depth, uint32_t alive_tasks)
{
	struct ky_queue_row *row;

	if (load->private->queue_rows >= ky_list_max(load, ROWS_MAX))
		return ky_leave_out(load->private, KY_LEFT_QUEUE_SAMPLES);
	row = ky_column_append(&queue->rows, time_ns);
	if (!row)
		return false;
	row->depth = depth;
	row->alive_tasks = alive_tasks;
	load->private->queue_rows++;
	return true;
}

/* ---- runtimes ---- */

static bool add_of_runtime(struct ky_load *load, uint64_t time_ns, uint32_t name, uint64_t depth,
			   uint64_t alive)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->queues, name == KY_NONE ? UNNAMED : name);
	struct ky_trace_queue *queue;

	if (!slot)
		return false;
	if (!*slot) {
		if (load->private->runtime_queues == QUEUES_MAX)
			return ky_leave_out(load->private, KY_LEFT_QUEUE_SAMPLES);
		queue = add_queue(trace);
		if (!queue)
			return false;
		queue->runtime = name;
		load->private->runtime_queues++;
		*slot = trace->queue_count;
	}
	queue = &trace->queues[*slot - 1];
	queue->sample_count++;
	return add_row(load, queue, time_ns, depth < UINT32_MAX ? (uint32_t)depth : UINT32_MAX,
		       alive < UINT32_MAX ? (uint32_t)alive : UINT32_MAX);
}

bool ky_load_runtime_metrics(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t name = ky_load_text(load, frame, KY_F_RUNTIME_METRICS_runtime_name);

	return !load->trace->pages.failed &&
	       add_of_runtime(load, frame->timestamp_ns, name,
			      ky_frame_number(frame, KY_F_RUNTIME_METRICS_global_queue_depth, 0),
			      ky_frame_number(frame, KY_F_RUNTIME_METRICS_alive_tasks, UINT32_MAX));
}

bool ky_load_queue_sample(struct ky_load *load, const struct ky_frame *frame)
{
	return add_of_runtime(load, frame->timestamp_ns, KY_NONE,
			      ky_frame_number(frame, KY_F_QUEUE_SAMPLE_global_queue, 0),
			      ky_frame_number(frame, KY_F_QUEUE_SAMPLE_active_tasks, UINT32_MAX));
}

/* ---- workers ---- */

static bool make_of_worker(struct ky_trace *trace, struct ky_worker *worker)
{
	struct ky_trace_queue *queue = add_queue(trace);

	if (!queue)
		return false;
	queue->worker_id = worker->id;
	queue->depths = ky_pages_alloc(&trace->pages, KY_QUEUE_DEPTHS * sizeof(*queue->depths));
	worker->queue = trace->queue_count;
	return queue->depths != NULL;
}

bool ky_load_depth_change(struct ky_load *load, struct ky_worker *worker, uint64_t time_ns,
			  uint8_t depth)
{
	struct ky_trace_queue *queue;
	bool is_change = depth != worker->queue_depth;

	if (!worker->queue && !make_of_worker(load->trace, worker))
		return false;
	queue = &load->trace->queues[worker->queue - 1];
	queue->depths[depth]++;
	worker->queue_depth = depth;
	/* What comes late from another thread's batch may have been between two that are equal. */
	if (!is_change && time_ns >= queue->rows.last_ns)
		return true;
	return add_row(load, queue, time_ns, depth, UINT32_MAX);
}

/* Where the trace has depths of workers at all, one that was always empty has a queue, too. */
static bool make_empty_ones(struct ky_trace *trace)
{
	const char *says = ky_trace_metadata(trace, "tokio.local_queue");
	bool has_any = says && strcmp(says, "true") == 0;

	for (uint32_t i = 0; i < trace->worker_count && !has_any; i++)
		has_any = trace->workers[i].queue != 0;
	if (!has_any || (says && strcmp(says, "false") == 0))
		return true;
	for (uint32_t i = 0; i < trace->worker_count; i++) {
		struct ky_worker *worker = &trace->workers[i];

		if (worker->depth_count && !worker->queue && !make_of_worker(trace, worker))
			return false;
	}
	return true;
}

static void count_empty(struct ky_trace_queue *queue, uint64_t all)
{
	uint64_t others = 0;

	for (uint32_t depth = 1; depth < KY_QUEUE_DEPTHS; depth++)
		others += queue->depths[depth];
	queue->sample_count = all > others ? all : others;
	queue->depths[0] = queue->sample_count - others;
}

/* Runtimes by name first, then workers by id. */
static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_queue *one = a, *other = b;

	(void)ctx;
	if (!one->depths != !other->depths)
		return !one->depths;
	return one->depths ? one->worker_id < other->worker_id : one->runtime < other->runtime;
}

int ky_queues_finish(struct ky_trace *trace)
{
	int result = make_empty_ones(trace) ? 0 : trace->pages.failed;

	for (uint32_t i = 0; i < trace->worker_count && result == 0; i++) {
		struct ky_worker *worker = &trace->workers[i];
		struct ky_trace_queue *queue;

		if (!worker->queue)
			continue;
		queue = &trace->queues[worker->queue - 1];
		count_empty(queue, worker->depth_count);
		if (worker->runtime != KY_NONE)
			queue->runtime = trace->runtimes[worker->runtime].name;
		worker->queue = 0;
	}
	for (uint32_t i = 0; i < trace->queue_count && result == 0; i++)
		result = ky_column_sort(&trace->queues[i].rows);
	if (result)
		return result;
	ky_sort(trace->queues, trace->queue_count, sizeof(*trace->queues), is_before, NULL);
	for (uint32_t i = 0; i < trace->queue_count; i++) {
		uint32_t worker = trace->queues[i].depths ?
					  ky_trace_worker(trace, trace->queues[i].worker_id) :
					  KY_NONE;

		if (worker != KY_NONE)
			trace->workers[worker].queue = i + 1;
	}
	return 0;
}

void ky_queues_release(struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->queue_count; i++) {
		ky_column_release(&trace->queues[i].rows);
		ky_pages_free(&trace->pages, trace->queues[i].depths, 0);
	}
	ky_pages_free(&trace->pages, trace->queues, 0);
}

/* ---- reading ---- */

void ky_queue_sample(const struct ky_trace_queue *queue, uint64_t row, struct ky_queue_sample *out)
{
	const struct ky_queue_row *at = ky_column_row(&queue->rows, row);

	out->time_ns = ky_column_time(&queue->rows, row);
	out->depth = at->depth;
	out->alive_tasks = at->alive_tasks;
}

bool ky_queue_depth_max(const struct ky_trace_queue *queue, uint64_t from_ns, uint64_t to_ns,
			uint32_t *depth)
{
	uint64_t row = ky_column_find(&queue->rows, from_ns);
	struct ky_queue_sample sample;
	bool is_known = false;

	*depth = 0;
	if (ky_column_find(&queue->rows, to_ns) - row > SCAN_MAX)
		return false;
	if (row) { /* the last one before it; of a worker it holds until the next */
		ky_queue_sample(queue, row - 1, &sample);
		is_known = queue->depths || from_ns - sample.time_ns <= RUN_MAX_NS;
		*depth = is_known ? sample.depth : 0;
	}
	for (; row < queue->rows.row_count; row++) {
		ky_queue_sample(queue, row, &sample);
		if (sample.time_ns > to_ns)
			break;
		is_known = true;
		if (sample.depth > *depth)
			*depth = sample.depth;
	}
	return is_known || (queue->depths && queue->sample_count);
}

const struct ky_trace_queue *ky_trace_worker_queue(const struct ky_trace *trace, uint32_t worker)
{
	uint32_t queue = trace->workers[worker].queue;

	return queue ? &trace->queues[queue - 1] : NULL;
}

const struct ky_trace_queue *ky_trace_runtime_queue(const struct ky_trace *trace, uint32_t worker)
{
	uint32_t runtime = trace->workers[worker].runtime;
	uint32_t name = runtime == KY_NONE ? KY_NONE : trace->runtimes[runtime].name;
	uint32_t low = 0, high = trace->queue_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_trace_queue *queue = &trace->queues[middle];

		if (!queue->depths && queue->runtime < name)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < trace->queue_count && !trace->queues[low].depths &&
	    trace->queues[low].runtime == name)
		return &trace->queues[low];
	/* Where there is one runtime's alone, it is this one's. */
	return trace->queue_count && !trace->queues[0].depths &&
			       (trace->queue_count == 1 || trace->queues[1].depths) ?
		       &trace->queues[0] :
		       NULL;
}
