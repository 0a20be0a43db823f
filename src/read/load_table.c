/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <read/borders.h>
#include <read/handovers.h>
#include <read/load.h>
#include <read/symbol_table.h>
#include <string.h>

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

/* A new zeroed element at the end of one of the trace's arrays. */
static void *push(struct ky_trace *trace, void *array, uint32_t *count, uint32_t *capacity,
		  size_t element_bytes)
{
	uint8_t *element;

	if (!ky_pages_array(&trace->pages, array, capacity, *count + 1, element_bytes))
		return NULL;
	memcpy(&element, array, sizeof(element));
	element += (size_t)(*count)++ * element_bytes;
	memset(element, 0, element_bytes);
	return element;
}

static uint32_t thread_at(struct ky_load *load, uint32_t tid)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->threads, tid);
	struct ky_trace_thread *thread;

	if (!slot)
		return UINT32_MAX;
	if (*slot)
		return *slot - 1;
	thread = push(trace, &trace->threads, &trace->thread_count, &trace->thread_capacity,
		      sizeof(*thread));
	if (!thread)
		return UINT32_MAX;
	thread->tid = tid;
	thread->name = KY_NONE;
	*slot = trace->thread_count;
	return trace->thread_count - 1;
}

static uint32_t load_runtime(struct ky_load *load, uint64_t id)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->runtimes, id);
	struct ky_trace_runtime *runtime;

	if (!slot)
		return UINT32_MAX;
	if (*slot)
		return *slot - 1;
	runtime = push(trace, &trace->runtimes, &trace->runtime_count, &trace->runtime_capacity,
		       sizeof(*runtime));
	if (!runtime)
		return UINT32_MAX;
	runtime->id = id;
	runtime->name = KY_NONE;
	*slot = trace->runtime_count;
	return trace->runtime_count - 1;
}

static bool name_task(struct ky_load *load, uint32_t task, uint32_t name)
{
	if (task == UINT32_MAX || load->trace->pages.failed)
		return false;
	if (name != KY_NONE)
		load->trace->tasks[task].name = name;
	return true;
}

static bool load_spawn(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t index = ky_load_task(load, number(frame, KY_F_TASK_SPAWN_task_id),
				      frame->timestamp_ns);
	const struct ky_value *parent = ky_frame_field(frame, KY_F_TASK_SPAWN_parent_task_id);
	uint32_t parent_index = KY_NONE;
	uint32_t place = ky_load_text(load, frame, KY_F_TASK_SPAWN_spawn_loc);
	struct ky_task *task;

	if (!name_task(load, index, place))
		return false;
	if (parent && parent->as.number != 0) {
		parent_index = ky_load_task(load, parent->as.number, frame->timestamp_ns);
		if (parent_index == UINT32_MAX)
			return false;
	}
	task = &load->trace->tasks[index];
	task->parent = parent_index;
	task->place = place;
	task->first_ns = frame->timestamp_ns;
	task->flags |= KY_TASK_SPAWN_SEEN;
	if (ky_frame_number(frame, KY_F_TASK_SPAWN_instrumented, 1) == 0)
		task->flags |= KY_TASK_NOT_INSTRUMENTED;
	return true;
}

static bool load_terminate(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t index = ky_load_task(load, number(frame, KY_F_TASK_TERMINATE_task_id),
				      frame->timestamp_ns);
	struct ky_task *task;

	if (index == UINT32_MAX)
		return false;
	task = &load->trace->tasks[index];
	task->end_ns = frame->timestamp_ns;
	task->flags |= KY_TASK_ENDED;
	if (number(frame, KY_F_TASK_TERMINATE_cancelled))
		task->flags |= KY_TASK_CANCELLED;
	return true;
}

static bool load_first_seen(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t index = ky_load_task(load, number(frame, KY_F_TASK_FIRST_SEEN_task_id),
				      frame->timestamp_ns);

	return name_task(load, index, ky_load_text(load, frame, KY_F_TASK_FIRST_SEEN_spawn_loc));
}

/* Only the snapshot that opens the trace says something new: later ones describe tasks whose polls
 * and wakes are here. */
static bool load_live_task(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace_private *private = load->private;
	uint64_t id = number(frame, KY_F_LIVE_TASK_task_id);
	bool is_new = ky_id_map_find(&private->tasks, id) == UINT32_MAX;
	uint32_t index = ky_load_task(load, id, frame->timestamp_ns);
	uint64_t ready_ns = number(frame, KY_F_LIVE_TASK_ready_ns);

	if (!name_task(load, index, ky_load_text(load, frame, KY_F_LIVE_TASK_spawn_loc)))
		return false;
	if (!is_new)
		return true;
	load->trace->tasks[index].flags |= KY_TASK_LIVE_AT_START;
	if (!number(frame, KY_F_LIVE_TASK_is_ready) || ready_ns == 0)
		return true;
	if (!ky_pages_array(&load->trace->pages, &private->live_ready,
			    &private->live_ready_capacity, private->live_ready_count + 2,
			    sizeof(uint64_t)))
		return false;
	private->live_ready[private->live_ready_count++] = index;
	private->live_ready[private->live_ready_count++] = ready_ns;
	return true;
}

/* A start and the snapshot of it may be a hair apart: each converts its stamp on its own. */
static bool is_same_start(uint64_t a_ns, uint64_t b_ns)
{
	return (a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) < KY_SAME_START_NS;
}

/* Lane of the nested polls of one thread: its id lies beyond every worker's. */
static uint32_t nested_lane(struct ky_load *load, uint32_t tid)
{
	uint32_t lane = ky_load_lane(load, UINT64_MAX - tid);

	if (lane != UINT32_MAX) {
		load->trace->workers[lane].is_thread_lane = true;
		load->trace->workers[lane].tid = tid;
	}
	return lane;
}

static bool grow_open_runs(struct ky_load *load)
{
	if (!ky_pages_array(&load->trace->pages, &load->private->open_runs,
			    &load->private->open_run_capacity, load->trace->thread_count,
			    sizeof(uint32_t)))
		return false;
	return true;
}

/* A closure began on this thread. A snapshot and the begin itself may both report it; one that was
 * open there before has ended, and its end is not in the trace. */
static bool begin_run(struct ky_load *load, uint32_t tid, uint64_t start_ns, uint64_t seen_ns,
		      uint32_t task, uint32_t name)
{
	struct ky_trace *trace = load->trace;
	uint32_t thread = thread_at(load, tid), *open;
	struct ky_blocking_run *run;

	if (thread == UINT32_MAX || !name_task(load, task, name) || !grow_open_runs(load))
		return false;
	open = &load->private->open_runs[thread];
	if (*open) {
		run = &trace->blocking_runs[*open - 1];
		if (run->task == task && is_same_start(run->start_ns, start_ns)) {
			run->seen_ns = seen_ns > run->seen_ns ? seen_ns : run->seen_ns;
			return true;
		}
		run->is_end_unproven = true;
		run->is_open = false;
	}
	trace->tasks[task].flags |= KY_TASK_BLOCKING;
	run = push(trace, &trace->blocking_runs, &trace->blocking_count, &trace->blocking_capacity,
		   sizeof(*run));
	if (!run)
		return false;
	run->start_ns = start_ns;
	run->seen_ns = seen_ns;
	run->wait_ns = run->wait_max_ns = UINT64_MAX;
	run->task = task;
	run->waiter = KY_NONE;
	run->tid = tid;
	run->name = name;
	run->is_open = true;
	*open = trace->blocking_count;
	return true;
}

/* What ends it decides where it belongs: a closure's end, the end of a nested poll of its thread,
 * or that of a poll of its worker. */
static bool load_open_poll(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker = ky_frame_number(frame, KY_F_OPEN_POLL_worker_id, KY_ID_UNKNOWN);
	uint64_t start_ns = number(frame, KY_F_OPEN_POLL_start_ns);
	uint32_t tid = (uint32_t)number(frame, KY_F_OPEN_POLL_tid);
	uint32_t task, name, lane, kind = KY_EDGE_SNAPSHOT;
	bool is_nested = worker == KY_ID_UNKNOWN || number(frame, KY_F_OPEN_POLL_depth) != 0;

	if (start_ns == 0)
		return true;
	if (number(frame, KY_F_OPEN_POLL_is_at_exit))
		kind = KY_EDGE_SNAPSHOT_EXIT;
	if (frame->timestamp_ns > load->private->open_ns)
		load->private->open_ns = frame->timestamp_ns;
	task = ky_load_task(load, number(frame, KY_F_OPEN_POLL_task_id), start_ns);
	name = ky_load_text(load, frame, KY_F_OPEN_POLL_spawn_loc);
	if (task == UINT32_MAX || load->trace->pages.failed)
		return false;
	if (worker == KY_ID_BLOCKING)
		return begin_run(load, tid, start_ns, frame->timestamp_ns, task, name);
	is_nested = ky_frame_number(frame, KY_F_OPEN_POLL_is_nested, is_nested) != 0;
	lane = is_nested ? nested_lane(load, tid) : ky_load_lane(load, worker);
	return ky_load_edge(load, lane, start_ns, kind, task, name);
}

static bool load_nested_start(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t lane = nested_lane(load, (uint32_t)number(frame, KY_F_NESTED_POLL_START_tid));
	uint32_t task = ky_load_task(load, number(frame, KY_F_NESTED_POLL_START_task_id),
				     frame->timestamp_ns);
	uint32_t name = ky_load_text(load, frame, KY_F_NESTED_POLL_START_spawn_loc);

	if (task == UINT32_MAX || load->trace->pages.failed)
		return false;
	return ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_START, task, name);
}

static bool load_nested_end(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t lane = nested_lane(load, (uint32_t)number(frame, KY_F_NESTED_POLL_END_tid));

	return ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_END, 0, 0);
}

static bool load_block_in_place(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace_handover move = {
		.time_ns = frame->timestamp_ns,
		.worker_id = ky_frame_number(frame, KY_F_BLOCK_IN_PLACE_worker_id, KY_ID_UNKNOWN),
		.from_tid = (uint32_t)number(frame, KY_F_BLOCK_IN_PLACE_from_tid),
		.to_tid = (uint32_t)number(frame, KY_F_BLOCK_IN_PLACE_to_tid),
	};
	uint32_t lane = ky_load_lane(load, move.worker_id);
	struct ky_edge_row *edge;

	move.launched_ns = ky_frame_number(frame, KY_F_BLOCK_IN_PLACE_launched_ns, move.time_ns);
	if (move.launched_ns > move.time_ns || move.time_ns - move.launched_ns > UINT32_MAX)
		move.launched_ns = move.time_ns;
	if (!ky_load_handover(load, &move) ||
	    !ky_load_edge(load, lane, move.time_ns, KY_EDGE_MOVE, move.to_tid,
			  move.from_tid & 0xffffffu)) /* ids of threads have 22 bits */
		return false;
	edge = ky_column_last(&load->trace->workers[lane].edges);
	if (edge)
		edge->duration_ns = (uint32_t)(move.time_ns - move.launched_ns);
	return true;
}

static bool load_blocking_start(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t tid = (uint32_t)number(frame, KY_F_BLOCKING_START_tid);
	uint32_t task = ky_load_task(load, number(frame, KY_F_BLOCKING_START_task_id),
				     frame->timestamp_ns);
	uint32_t name = ky_load_text(load, frame, KY_F_BLOCKING_START_spawn_loc);

	return begin_run(load, tid, frame->timestamp_ns, frame->timestamp_ns, task, name);
}

static bool load_blocking_end(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t thread = thread_at(load, (uint32_t)number(frame, KY_F_BLOCKING_END_tid));
	struct ky_blocking_run *run;

	if (thread == UINT32_MAX || !grow_open_runs(load))
		return false;
	if (load->private->open_runs[thread] == 0)
		return true; /* it began before the trace */
	run = &trace->blocking_runs[load->private->open_runs[thread] - 1];
	if (trace->tasks[run->task].id == number(frame, KY_F_BLOCKING_END_task_id) &&
	    frame->timestamp_ns >= run->start_ns) {
		run->duration_ns = frame->timestamp_ns - run->start_ns;
		run->is_open = false;
		trace->tasks[run->task].flags |= KY_TASK_ENDED; /* a closure runs once */
		trace->tasks[run->task].end_ns = frame->timestamp_ns;
	} else {
		run->is_end_unproven = true;
		run->is_open = false;
	}
	load->private->open_runs[thread] = 0;
	return true;
}

static bool load_runtime_event(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t index = load_runtime(load, number(frame, KY_F_RUNTIME_runtime_id));
	uint32_t name = ky_load_text(load, frame, KY_F_RUNTIME_name);
	struct ky_trace_runtime *runtime;

	if (index == UINT32_MAX || load->trace->pages.failed)
		return false;
	runtime = &load->trace->runtimes[index];
	runtime->name = name;
	runtime->flavor = (uint8_t)number(frame, KY_F_RUNTIME_flavor);
	runtime->copy_index = (uint8_t)number(frame, KY_F_RUNTIME_copy_index);
	return true;
}

static bool load_worker(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t id = ky_frame_number(frame, KY_F_WORKER_worker_id, KY_ID_UNKNOWN);
	const struct ky_value *runtime = ky_frame_field(frame, KY_F_WORKER_runtime_id);
	const struct ky_value *index = ky_frame_field(frame, KY_F_WORKER_worker_index);
	uint32_t lane = ky_load_lane(load, id), runtime_index = KY_NONE;
	struct ky_worker *worker;

	if (lane == UINT32_MAX)
		return false;
	if (runtime) {
		runtime_index = load_runtime(load, runtime->as.number);
		if (runtime_index == UINT32_MAX)
			return false;
	}
	worker = &load->trace->workers[lane];
	worker->is_worker = true;
	if (runtime)
		worker->runtime = runtime_index;
	if (index)
		worker->index = (uint32_t)index->as.number;
	worker->is_index_exact = number(frame, KY_F_WORKER_is_exact) != 0;
	worker->tid = (uint32_t)number(frame, KY_F_WORKER_tid);
	worker->has_ended = number(frame, KY_F_WORKER_has_ended) != 0;
	return ky_load_parked_on(load, frame, lane);
}

static bool load_thread_event(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t index = thread_at(load, (uint32_t)number(frame, KY_F_THREAD_tid));
	uint32_t name = ky_load_text(load, frame, KY_F_THREAD_name);
	struct ky_trace_thread *thread;

	if (index == UINT32_MAX || load->trace->pages.failed)
		return false;
	thread = &load->trace->threads[index];
	thread->name = name;
	thread->start_ns = number(frame, KY_F_THREAD_start_ns);
	if (number(frame, KY_F_THREAD_has_exited)) {
		thread->has_exited = true;
		thread->end_ns = frame->timestamp_ns;
	}
	return true;
}

static bool load_cpu_sample(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t tid = (uint32_t)number(frame, KY_F_CPU_SAMPLE_tid);
	uint32_t index = thread_at(load, tid);
	uint32_t name = ky_load_text(load, frame, KY_F_CPU_SAMPLE_thread_name);

	if (index == UINT32_MAX || load->trace->pages.failed)
		return false;
	if (name != KY_NONE)
		load->trace->threads[index].name = name;
	return ky_load_sample(load, frame);
}

static void add_lost(uint64_t *sum, uint64_t count)
{
	*sum = count > UINT64_MAX - *sum ? UINT64_MAX : *sum + count;
}

/* "cpu-samples" and its kin: a sample that is missing is no gap in what its thread did. */
static bool is_of_samples(const struct ky_load *load, uint32_t cause)
{
	static const char tail[] = "-samples";
	const char *text = cause != KY_NONE ? ky_trace_name(load->trace, cause) : "";
	size_t bytes = strlen(text);

	return bytes >= sizeof(tail) &&
	       memcmp(text + bytes - (sizeof(tail) - 1), tail, sizeof(tail) - 1) == 0;
}

static bool load_loss(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t cause = ky_load_text(load, frame, KY_F_LOSS_cause);
	struct ky_trace_loss *loss;
	uint32_t thread;

	if (cause != KY_NONE && strcmp(ky_trace_name(trace, cause), "unsent-segments") == 0) {
		add_lost(&trace->unsent_segments, number(frame, KY_F_LOSS_record_count));
		return true;
	}
	if (is_of_samples(load, cause)) {
		ky_load_lost_samples(load, ky_trace_name(trace, cause),
				     number(frame, KY_F_LOSS_record_count));
		return true;
	}
	loss = push(trace, &trace->losses, &trace->loss_count, &trace->loss_capacity,
		    sizeof(*loss));
	if (!loss || trace->pages.failed)
		return false;
	loss->from_ns = number(frame, KY_F_LOSS_from_ns);
	loss->to_ns = number(frame, KY_F_LOSS_to_ns);
	if (loss->to_ns < loss->from_ns)
		loss->to_ns = loss->from_ns;
	loss->record_count = number(frame, KY_F_LOSS_record_count);
	loss->tid = (uint32_t)number(frame, KY_F_LOSS_tid);
	loss->cause = cause;
	loss->is_exact = number(frame, KY_F_LOSS_is_exact) != 0;
	add_lost(&trace->lost_records, loss->record_count);
	trace->unrecorded_count += strcmp(ky_trace_name(trace, cause), KY_CAUSE_NOT_RECORDED) == 0;
	if (loss->tid == 0)
		return true;
	thread = thread_at(load, loss->tid);
	if (thread == UINT32_MAX)
		return false;
	add_lost(&trace->threads[thread].lost_count, loss->record_count);
	return true;
}

static struct ky_trace_loss *add_loss(struct ky_load *load, const char *cause, uint64_t from_ns,
				      uint64_t to_ns)
{
	struct ky_trace *trace = load->trace;
	uint32_t name = ky_names_intern(&load->private->names, cause, strlen(cause));
	struct ky_trace_loss *loss;

	loss = push(trace, &trace->losses, &trace->loss_count, &trace->loss_capacity,
		    sizeof(*loss));
	if (!loss || name == UINT32_MAX)
		return NULL;
	loss->from_ns = from_ns < to_ns ? from_ns : to_ns;
	loss->to_ns = from_ns < to_ns ? to_ns : from_ns;
	loss->cause = name;
	return loss;
}

bool ky_load_damage(struct ky_load *load, uint64_t to_ns)
{
	struct ky_trace_loss *loss = add_loss(load, "damaged input", load->damage_from_ns, to_ns);

	if (!loss)
		return false;
	loss->record_count = 1; /* at least */
	add_lost(&load->trace->lost_records, 1);
	load->damage_from_ns = 0;
	return true;
}

bool ky_load_unrecorded(struct ky_load *load)
{
	const struct ky_unrecorded *list;
	uint32_t count = ky_copies_unrecorded(load->copies, &list);

	for (uint32_t i = 0; i < count; i++) {
		struct ky_trace_loss *loss = add_loss(load, KY_CAUSE_NOT_RECORDED, list[i].from_ns,
						      list[i].to_ns);

		if (!loss)
			return false;
		loss->is_exact = true;
		load->trace->unrecorded_count++;
	}
	return true;
}

static bool load_clock_sync(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_clock_sync *sync;

	sync = push(trace, &trace->clock_syncs, &trace->clock_sync_count,
		    &trace->clock_sync_capacity, sizeof(*sync));
	if (!sync)
		return false;
	sync->monotonic_ns = frame->timestamp_ns;
	sync->realtime_ns = number(frame, KY_F_CLOCK_SYNC_realtime_ns);
	return true;
}

static bool set_pair(struct ky_load *load, const struct ky_value *key, const struct ky_value *value)
{
	struct ky_trace *trace = load->trace;
	uint32_t key_name, value_name, i;
	struct ky_pair *pair;

	key_name = ky_names_intern(&load->private->names, key->text.bytes, key->text.count);
	value_name = ky_names_intern(&load->private->names, value->text.bytes, value->text.count);
	if (key_name == UINT32_MAX || value_name == UINT32_MAX)
		return false;
	for (i = 0; i < trace->metadata_count; i++)
		if (trace->metadata[i].key == key_name) {
			trace->metadata[i].value = value_name;
			return true;
		}
	if (trace->metadata_count >= 4096)
		return true; /* a search per pair: nothing describes a process with more */
	pair = push(trace, &trace->metadata, &trace->metadata_count, &trace->metadata_capacity,
		    sizeof(*pair));
	if (!pair)
		return false;
	pair->key = key_name;
	pair->value = value_name;
	return true;
}

static bool load_metadata(struct ky_load *load, const struct ky_frame *frame)
{
	const struct ky_value *entries = ky_frame_field(frame, KY_F_SEGMENT_METADATA_entries);
	struct ky_value key, value;
	struct ky_trc_walk walk;

	if (!entries || entries->type != KY_TYPE_STRING_MAP)
		return true;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(load->reader->dec, &walk, &key, &value) == 1)
		if (!set_pair(load, &key, &value))
			return false;
	return true;
}

static bool load_report(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t i;

	for (i = 0; i < KY_F_RECORDER_REPORT_COUNT; i++)
		load->trace->recorder_report[i] = number(frame, i);
	load->trace->has_recorder_report = true;
	return true;
}

static bool load_symbol(struct ky_load *load, const struct ky_frame *frame)
{
	int result = 0;

	if (load->symbols)
		result = ky_symbol_table_event(load->symbols, frame->schema, frame->values);
	if (result == -ENOMEM)
		load->trace->pages.failed = result;
	return result != -ENOMEM; /* a table that is full names the rest by numbers */
}

static bool check_process(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_frame_reader *reader = load->reader;
	const char *text = ky_processes_event(&load->processes, reader->dec, frame, load->file,
					      load->trace->files[load->file].name);

	if (frame->schema->event == KY_EV_SEGMENT_METADATA && !ky_borders_note(load, frame))
		return false;
	load->trace->has_processes |= text != NULL;
	return !text || reader->notice(reader->notice_ctx, reader->frame_offset, 0, text) == 0;
}

bool ky_load_table(struct ky_load *load, const struct ky_frame *frame)
{
	switch (frame->schema->event) {
	case KY_EV_TASK_SPAWN:
		return load_spawn(load, frame);
	case KY_EV_TASK_TERMINATE:
		return load_terminate(load, frame);
	case KY_EV_TASK_FIRST_SEEN:
		return load_first_seen(load, frame);
	case KY_EV_LIVE_TASK:
		return load_live_task(load, frame);
	case KY_EV_OPEN_POLL:
		return load_open_poll(load, frame);
	case KY_EV_NESTED_POLL_START:
		return load_nested_start(load, frame);
	case KY_EV_NESTED_POLL_END:
		return load_nested_end(load, frame);
	case KY_EV_BLOCK_IN_PLACE:
		return load_block_in_place(load, frame);
	case KY_EV_BLOCKING_START:
		return load_blocking_start(load, frame);
	case KY_EV_BLOCKING_END:
		return load_blocking_end(load, frame);
	case KY_EV_RUNTIME:
		return load_runtime_event(load, frame);
	case KY_EV_WORKER:
		return load_worker(load, frame);
	case KY_EV_THREAD:
		return load_thread_event(load, frame);
	case KY_EV_CPU_SAMPLE:
		return load_cpu_sample(load, frame);
	case KY_EV_LOSS:
		return load_loss(load, frame);
	case KY_EV_OFF_CPU:
	case KY_EV_AWAIT_PLACE:
	case KY_EV_TASK_DUMP:
	case KY_EV_ALLOC:
	case KY_EV_FREE:
	case KY_EV_MEMORY_OVERFLOW:
		return ky_load_sample(load, frame);
	case KY_EV_PROCESS_MAP:
		return load_symbol(load, frame) && ky_load_sample(load, frame);
	case KY_EV_SYMBOL:
		return load_symbol(load, frame);
	case KY_EV_CLOCK_SYNC:
		return check_process(load, frame) && load_clock_sync(load, frame);
	case KY_EV_SEGMENT_METADATA:
		return check_process(load, frame) && load_metadata(load, frame);
	case KY_EV_RECORDER_REPORT:
		return load_report(load, frame);
	case KY_EV_SEGMENT_INDEX:
		load->trace->files[load->file].is_sealed = true;
		return true;
	case KY_EV_POLL_COST:
		return ky_load_poll_cost(load, frame);
	case KY_EV_ROOT_POLL:
		return ky_load_root_poll(load, frame);
	case KY_EV_TRIGGER:
	case KY_EV_STUCK_THREAD:
	case KY_EV_CRASH:
	case KY_EV_THREAD_CPU:
	case KY_EV_OFF_CPU_WINDOW:
		return ky_load_watched(load, frame);
	default:
		return ky_load_resource(load, frame);
	}
}
