/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What can only be said once every frame is in: order of tables, runtimes of dial9's metadata. */
#include <read/borders.h>
#include <read/load.h>
#include <read/sort.h>
#include <string.h>

static bool is_worker_before(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return ((const struct ky_worker *)a)->id < ((const struct ky_worker *)b)->id;
}

static bool is_loss_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_loss *x = a, *y = b;

	(void)ctx;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns;
	if (x->to_ns != y->to_ns)
		return x->to_ns < y->to_ns;
	if (x->tid != y->tid)
		return x->tid < y->tid;
	return x->record_count < y->record_count;
}

static bool is_run_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_blocking_run *x = a, *y = b;

	(void)ctx;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns;
	return x->tid != y->tid ? x->tid < y->tid : x->task < y->task;
}

static bool is_sync_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_clock_sync *x = a, *y = b;

	(void)ctx;
	if (x->monotonic_ns != y->monotonic_ns)
		return x->monotonic_ns < y->monotonic_ns;
	return x->realtime_ns < y->realtime_ns;
}

static bool is_pair_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_pair *x = a, *y = b;
	const struct ky_trace *trace = ctx;

	return strcmp(ky_trace_name(trace, x->key), ky_trace_name(trace, y->key)) < 0;
}

/* dial9 says which workers a runtime has in metadata: runtime.NAME = "0,1,2". */
static int assign_workers(struct ky_trace *trace, uint32_t name, uint32_t value)
{
	const char *at = ky_trace_name(trace, value);
	uint32_t index = trace->runtime_count;

	if (!ky_pages_array(&trace->pages, &trace->runtimes, &trace->runtime_capacity, index + 1,
			    sizeof(*trace->runtimes)))
		return trace->pages.failed;
	memset(&trace->runtimes[index], 0, sizeof(trace->runtimes[index]));
	trace->runtimes[index].id = index;
	trace->runtimes[index].name = name;
	trace->runtime_count++;
	while (*at) {
		uint64_t id = 0;
		uint32_t worker;

		while (*at && (*at < '0' || *at > '9'))
			at++;
		if (!*at)
			break;
		while (*at >= '0' && *at <= '9')
			id = id * 10 + (uint64_t)(*at++ - '0');
		worker = ky_trace_worker(trace, id);
		if (worker != KY_NONE && trace->workers[worker].runtime == KY_NONE)
			trace->workers[worker].runtime = index;
	}
	return 0;
}

static int find_runtimes(struct ky_trace *trace)
{
	static const char prefix[] = "runtime.";
	uint32_t i, name;
	int result;

	if (trace->runtime_count > 0)
		return 0;
	for (i = 0; i < trace->metadata_count; i++) {
		const char *key = ky_trace_name(trace, trace->metadata[i].key);

		if (strncmp(key, prefix, sizeof(prefix) - 1) != 0)
			continue;
		key += sizeof(prefix) - 1;
		name = ky_names_intern(&trace->private->names, key, strlen(key));
		if (name == UINT32_MAX)
			return trace->pages.failed;
		result = assign_workers(trace, name, trace->metadata[i].value);
		if (result < 0)
			return result;
	}
	return 0;
}

static void index_workers(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;
	uint32_t i, *slot;

	for (i = 0; i < trace->worker_count; i++) {
		uint64_t id = trace->workers[i].id;

		slot = id < KY_SMALL_WORKERS ? &private->lane_of_worker[id] :
					       ky_id_map_slot(&private->workers, id);
		if (slot) /* it exists since the lane was made */
			*slot = i + 1;
	}
}

/* Stretches of time in which some record is missing, merged. */
static int merge_gaps(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;
	uint32_t i;

	if (!ky_pages_array(&trace->pages, &private->gaps, &private->gap_capacity,
			    trace->loss_count, sizeof(*private->gaps)))
		return trace->pages.failed;
	for (i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];
		struct ky_interval *last = private->gaps + private->gap_count - 1;

		if (private->gap_count > 0 && loss->from_ns <= last->to_ns) {
			if (loss->to_ns > last->to_ns)
				last->to_ns = loss->to_ns;
			continue;
		}
		private->gaps[private->gap_count].from_ns = loss->from_ns;
		private->gaps[private->gap_count++].to_ns = loss->to_ns;
	}
	return 0;
}

bool ky_trace_has_gap(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t low = 0, high = private->gap_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (private->gaps[middle].to_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < private->gap_count && private->gaps[low].from_ns <= to_ns;
}

static void find_bounds(struct ky_trace *trace)
{
	uint32_t i;

	for (i = 0; i < trace->file_count; i++) {
		const struct ky_trace_input *file = &trace->files[i];

		trace->raw_bytes += file->raw_bytes;
		trace->stored_bytes += file->stored_bytes;
		trace->event_count += file->event_count;
		trace->back_steps += file->back_steps;
		trace->zero_stamps += file->zero_stamps;
		if (i > 0 && file->first_ns < trace->last_ns && file->first_ns != 0)
			trace->back_steps++;
		if (file->first_ns != 0 &&
		    (trace->first_ns == 0 || file->first_ns < trace->first_ns))
			trace->first_ns = file->first_ns;
		if (file->last_ns > trace->last_ns)
			trace->last_ns = file->last_ns;
	}
	for (i = 0; i < trace->type_count; i++) {
		uint32_t event = trace->types[i].event;

		if (event == KY_EV_UNKNOWN)
			continue;
		trace->is_kymo |= !ky_event_table[event].is_dial9;
	}
	trace->is_dial9 = !trace->is_kymo;
}

/* No end came: it lasts until the end of the trace, unless the end may be among what is missing. */
static void settle_open_run(const struct ky_trace *trace, struct ky_blocking_run *run)
{
	uint32_t i;

	if (!run->is_open)
		return;
	for (i = 0; i < trace->loss_count && run->is_open; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		run->is_open = (loss->tid && loss->tid != run->tid) || loss->to_ns <= run->seen_ns;
	}
	run->is_end_unproven = !run->is_open;
	if (run->is_open && trace->last_ns > run->start_ns)
		run->duration_ns = trace->last_ns - run->start_ns;
}

int ky_load_finish(struct ky_trace *trace)
{
	int result;
	uint32_t i;

	find_bounds(trace);
	ky_sort(trace->workers, trace->worker_count, sizeof(*trace->workers), is_worker_before,
		NULL);
	index_workers(trace);
	ky_sort(trace->losses, trace->loss_count, sizeof(*trace->losses), is_loss_before, NULL);
	ky_sort(trace->clock_syncs, trace->clock_sync_count, sizeof(*trace->clock_syncs),
		is_sync_before, NULL);
	ky_sort(trace->metadata, trace->metadata_count, sizeof(*trace->metadata), is_pair_before,
		trace);
	for (i = 0; i < trace->blocking_count; i++) {
		struct ky_blocking_run *run = &trace->blocking_runs[i];
		const struct ky_task *task = &trace->tasks[run->task];

		settle_open_run(trace, run);
		if ((task->flags & KY_TASK_SPAWN_SEEN) && task->first_ns <= run->start_ns)
			run->wait_ns = run->wait_max_ns = run->start_ns - task->first_ns;
	}
	ky_sort(trace->blocking_runs, trace->blocking_count, sizeof(*trace->blocking_runs),
		is_run_before, NULL);
	result = merge_gaps(trace);
	if (result == 0)
		result = ky_borders_make(trace);
	if (result == 0)
		result = ky_retained_finish(trace);
	return result < 0 ? result : find_runtimes(trace);
}
