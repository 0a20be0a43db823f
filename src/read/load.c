/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/load.h>
#include <read/turns.h>
#include <string.h>

/* Of each event: the engine for WebAssembly is linked with little inlining. */
#define HOT static inline __attribute__((always_inline))

static uint32_t saturate(uint64_t number)
{
	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static uint32_t find_or_add_task(struct ky_load *load, uint64_t task_id, uint64_t time_ns)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->tasks, task_id);
	struct ky_task *task;

	if (!slot)
		return UINT32_MAX;
	if (*slot)
		return *slot - 1;
	if (!ky_pages_array(&trace->pages, &trace->tasks, &trace->task_capacity,
			    trace->task_count + 1, sizeof(*trace->tasks)))
		return UINT32_MAX;
	task = &trace->tasks[trace->task_count];
	memset(task, 0, sizeof(*task));
	task->id = task_id;
	task->name = task->place = KY_NONE;
	task->parent = KY_NONE;
	task->first_ns = time_ns;
	task->flags = task_id & KY_TASK_ID_ROOT ? KY_TASK_ROOT : 0;
	*slot = ++trace->task_count;
	return trace->task_count - 1;
}

HOT uint32_t task_of(struct ky_load *load, uint64_t task_id, uint64_t time_ns)
{
	uint32_t **small = load->private->tasks.small, *page;

	if (task_id < KY_ID_MAP_SMALL_MAX && small) {
		page = small[task_id / KY_ID_MAP_PAGE_IDS];
		if (page && page[task_id % KY_ID_MAP_PAGE_IDS])
			return page[task_id % KY_ID_MAP_PAGE_IDS] - 1;
	}
	return find_or_add_task(load, task_id, time_ns);
}

uint32_t ky_load_task(struct ky_load *load, uint64_t task_id, uint64_t time_ns)
{
	return task_of(load, task_id, time_ns);
}

static uint32_t add_lane(struct ky_load *load, uint64_t worker_id)
{
	struct ky_trace *trace = load->trace;
	struct ky_worker *worker;

	if (!ky_pages_array(&trace->pages, &trace->workers, &trace->worker_capacity,
			    trace->worker_count + 1, sizeof(*trace->workers)))
		return UINT32_MAX;
	worker = &trace->workers[trace->worker_count];
	memset(worker, 0, sizeof(*worker));
	worker->id = worker_id;
	worker->runtime = KY_NONE;
	worker->index = KY_NONE;
	worker->is_shared = worker_id == 254 || worker_id == 255;
	ky_column_init(&worker->polls, &trace->pages, sizeof(struct ky_poll_row));
	worker->polls.has_extra = true;
	ky_column_init(&worker->parks, &trace->pages, sizeof(struct ky_park_row));
	ky_column_init(&worker->wakes, &trace->pages, sizeof(struct ky_wake_row));
	ky_column_init(&worker->turns, &trace->pages, sizeof(struct ky_turn_row));
	ky_column_init(&worker->edges, &trace->pages, sizeof(struct ky_edge_row));
	return trace->worker_count++;
}

static uint32_t find_lane(struct ky_load *load, uint64_t worker_id)
{
	uint32_t *slot, lane;

	if (worker_id < KY_SMALL_WORKERS)
		slot = &load->private->lane_of_worker[worker_id];
	else
		slot = ky_id_map_slot(&load->private->workers, worker_id);
	if (!slot)
		return UINT32_MAX;
	if (*slot)
		return *slot - 1;
	lane = add_lane(load, worker_id);
	if (lane != UINT32_MAX)
		*slot = lane + 1;
	return lane;
}

HOT uint32_t lane_of(struct ky_load *load, uint64_t worker_id)
{
	if (worker_id < KY_SMALL_WORKERS && load->private->lane_of_worker[worker_id])
		return load->private->lane_of_worker[worker_id] - 1;
	return find_lane(load, worker_id);
}

uint32_t ky_load_lane(struct ky_load *load, uint64_t worker_id)
{
	return lane_of(load, worker_id);
}

/* Name of a text of the stream's pool. */
static uint32_t pooled_name(struct ky_load *load, uint32_t pool_id, struct ky_slice text)
{
	uint32_t name;

	if (text.count == 0)
		return KY_NONE;
	name = ky_names_intern(&load->private->names, text.bytes, text.count);
	if (pool_id < KY_POOL_CACHE && name != UINT32_MAX) {
		load->pool_stamp[pool_id] = load->pool_serial;
		load->pool_name[pool_id] = name;
	}
	return name;
}

static inline bool is_name_known(const struct ky_load *load, uint32_t pool_id)
{
	return pool_id < KY_POOL_CACHE && load->pool_stamp[pool_id] == load->pool_serial;
}

uint32_t ky_load_text(struct ky_load *load, const struct ky_frame *frame, uint32_t field)
{
	const struct ky_value *value = ky_frame_field(frame, field);

	if (!value || value->text.count == 0)
		return KY_NONE;
	if (value->type != KY_TYPE_POOLED_STRING)
		return pooled_name(load, UINT32_MAX, value->text);
	if (is_name_known(load, value->pool_id))
		return load->pool_name[value->pool_id];
	return pooled_name(load, value->pool_id, value->text);
}

static inline bool add_edge(struct ky_load *load, uint32_t lane, uint64_t time_ns, uint32_t kind,
			    uint32_t task, uint32_t word)
{
	struct ky_edge_row *row;

	if (lane == UINT32_MAX)
		return false;
	row = ky_column_append(&load->trace->workers[lane].edges, time_ns);
	if (!row)
		return false;
	row->task = task;
	row->word = (word & 0xffffffu) | kind << 24;
	row->duration_ns = 0;
	return true;
}

bool ky_load_edge(struct ky_load *load, uint32_t lane, uint64_t time_ns, uint32_t kind,
		  uint32_t task, uint32_t word)
{
	return add_edge(load, lane, time_ns, kind, task, word);
}

/* A poll's end. Directly after its start it becomes part of that row: half the rows to keep. */
static inline bool add_end(struct ky_load *load, uint32_t lane, uint64_t time_ns)
{
	struct ky_column *edges;
	struct ky_edge_row *last;

	if (lane == UINT32_MAX)
		return false;
	edges = &load->trace->workers[lane].edges;
	last = ky_column_last(edges);
	if (!last || last->word >> 24 != KY_EDGE_START || time_ns - edges->last_ns > UINT32_MAX)
		return ky_load_edge(load, lane, time_ns, KY_EDGE_END, 0, 0);
	last->duration_ns = (uint32_t)(time_ns - edges->last_ns);
	last->word ^= (KY_EDGE_START ^ KY_EDGE_POLL) << 24;
	edges->last_ns = time_ns; /* what comes before it is out of order */
	return true;
}

/* The worker's queue, where the event says how many stand in it. */
static bool note_depth(struct ky_load *load, const struct ky_frame *frame, uint32_t lane,
		       uint32_t field)
{
	const struct ky_value *depth = ky_frame_field(frame, field);

	return !depth ||
	       ky_load_depth(load, lane, frame->timestamp_ns,
			     depth->as.number < UINT8_MAX ? (uint8_t)depth->as.number : UINT8_MAX);
}

static bool load_poll_start(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker_id = ky_frame_number(frame, KY_F_POLL_START_worker_id, KY_ID_UNKNOWN);
	uint64_t task_id = ky_frame_number(frame, KY_F_POLL_START_task_id, 0);
	const struct ky_value *delay = ky_frame_field(frame, KY_F_POLL_START_scheduling_delay_ns);
	uint32_t task = task_of(load, task_id, frame->timestamp_ns);
	uint32_t lane = lane_of(load, worker_id), name;

	name = ky_load_text(load, frame, KY_F_POLL_START_spawn_loc);
	if (task == UINT32_MAX || load->trace->pages.failed)
		return false;
	if (!ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_START, task, name) ||
	    !note_depth(load, frame, lane, KY_F_POLL_START_local_queue))
		return false;
	return !delay || ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_DELAY,
				      (uint32_t)delay->as.number,
				      delay->as.number < UINT64_C(1) << 56 ?
					      (uint32_t)(delay->as.number >> 32) :
					      0xffffffu);
}

static bool load_poll_end(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker_id = ky_frame_number(frame, KY_F_POLL_END_worker_id, KY_ID_UNKNOWN);

	return add_end(load, lane_of(load, worker_id), frame->timestamp_ns);
}

static inline bool add_wake(struct ky_load *load, const struct ky_hot_event *wake, bool has_origin,
			    uint32_t stack)
{
	uint32_t lane = lane_of(load, wake->worker_id), woken, waker = KY_NONE;
	struct ky_wake_row *row;

	woken = task_of(load, wake->task_id, wake->timestamp_ns);
	if (wake->waker_id == wake->task_id && wake->waker_id != 0)
		waker = woken;
	else if (wake->waker_id != 0)
		waker = task_of(load, wake->waker_id, wake->timestamp_ns);
	if (lane == UINT32_MAX || load->trace->pages.failed)
		return false;
	row = ky_column_append(&load->trace->workers[lane].wakes, wake->timestamp_ns);
	if (!row)
		return false;
	row->woken = woken;
	row->waker = waker;
	row->word = (uint32_t)(wake->worker_id & 0xff);
	if (has_origin)
		row->word |= (uint32_t)wake->origin << 8 | 1u << 16 |
			     ky_load_wake_source(load, stack, wake->tid) << KY_WAKE_SOURCE_SHIFT;
	return !load->trace->pages.failed;
}

bool ky_load_wake(struct ky_load *load, const struct ky_hot_event *wake,
		  const struct ky_frame *frame, uint32_t field)
{
	bool is_truncated;
	uint32_t stack;

	return ky_load_stack(load, frame, field, &stack, &is_truncated) &&
	       add_wake(load, wake, true, stack);
}

static bool load_wake(struct ky_load *load, const struct ky_frame *frame)
{
	const struct ky_value *origin = ky_frame_field(frame, KY_F_WAKE_origin);
	struct ky_hot_event wake = {
		.timestamp_ns = frame->timestamp_ns,
		.worker_id = ky_frame_number(frame, KY_F_WAKE_target_worker, KY_ID_UNKNOWN),
		.task_id = ky_frame_number(frame, KY_F_WAKE_woken_task_id, 0),
		.waker_id = ky_frame_number(frame, KY_F_WAKE_waker_task_id, 0),
		.origin = origin ? (uint8_t)origin->as.number : 0,
		.tid = ky_frame_tid(frame, KY_F_WAKE_tid),
	};

	if (origin)
		return ky_load_wake(load, &wake, frame, KY_F_WAKE_callchain);
	return add_wake(load, &wake, false, KY_NONE);
}

/* CPU clocks only compare within one thread, and the clock may stand for wall time (metadata). */
static void note_cpu(struct ky_worker *worker, uint32_t tid, uint64_t cpu_ns, uint64_t time_ns,
		     bool is_park)
{
	if (is_park && worker->cpu_tid == tid && worker->cpu_mark_ns != 0 &&
	    cpu_ns >= worker->cpu_mark_ns && time_ns > worker->cpu_mark_at_ns) {
		worker->cpu_ns += cpu_ns - worker->cpu_mark_ns;
		worker->cpu_span_ns += time_ns - worker->cpu_mark_at_ns;
	}
	worker->cpu_tid = tid;
	worker->cpu_mark_ns = is_park ? 0 : cpu_ns;
	worker->cpu_mark_at_ns = time_ns;
}

/* In ms + 1; 0: none, or not known. */
static uint32_t park_timeout(const struct ky_frame *frame)
{
	const struct ky_value *timeout = ky_frame_field(frame, KY_F_WORKER_PARK_timeout_ms);

	if (!timeout)
		return 0;
	return timeout->as.number < KY_PARK_TIMEOUT_MAX ? (uint32_t)timeout->as.number + 1 :
							  KY_PARK_TIMEOUT_MAX;
}

static bool load_park(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker_id = ky_frame_number(frame, KY_F_WORKER_PARK_worker_id, KY_ID_UNKNOWN);
	uint32_t tid = (uint32_t)ky_frame_number(frame, KY_F_WORKER_PARK_tid, 0);
	uint64_t wait = ky_frame_number(frame, KY_F_WORKER_PARK_wait, 0);
	uint32_t lane = lane_of(load, worker_id);

	if (lane == UINT32_MAX)
		return false;
	note_cpu(&load->trace->workers[lane], tid,
		 ky_frame_number(frame, KY_F_WORKER_PARK_cpu_time_ns, 0), frame->timestamp_ns,
		 true);
	return note_depth(load, frame, lane, KY_F_WORKER_PARK_local_queue) &&
	       ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_PARK, tid,
			    (uint32_t)(wait & 0xff) | park_timeout(frame) << 8);
}

static bool load_unpark(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker_id = ky_frame_number(frame, KY_F_WORKER_UNPARK_worker_id, KY_ID_UNKNOWN);
	uint32_t tid = (uint32_t)ky_frame_number(frame, KY_F_WORKER_UNPARK_tid, 0);
	uint32_t ready = ky_ready_pack(ky_frame_number(frame, KY_F_WORKER_UNPARK_ready_count, 0),
				       ky_frame_field(frame, KY_F_WORKER_UNPARK_ready_descriptor));
	const struct ky_value *wait = ky_frame_field(frame, KY_F_WORKER_UNPARK_sched_wait_ns);
	uint32_t lane = lane_of(load, worker_id);

	if (lane == UINT32_MAX)
		return false;
	note_cpu(&load->trace->workers[lane], tid,
		 ky_frame_number(frame, KY_F_WORKER_UNPARK_cpu_time_ns, 0), frame->timestamp_ns,
		 false);
	if (!note_depth(load, frame, lane, KY_F_WORKER_UNPARK_local_queue) ||
	    !ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_UNPARK, tid, ready))
		return false;
	return !wait || ky_load_edge(load, lane, frame->timestamp_ns, KY_EDGE_SCHED_WAIT,
				     saturate(wait->as.number), 0);
}

static struct ky_event_type *add_type(struct ky_load *load, const struct ky_schema *schema)
{
	struct ky_trace *trace = load->trace;
	uint32_t i, name;

	name = ky_names_intern(&load->private->names, schema->name.bytes, schema->name.count);
	if (name == UINT32_MAX)
		return NULL;
	for (i = 0; i < trace->type_count; i++)
		if (trace->types[i].name == load->private->names.names[name].text)
			return &trace->types[i];
	if (!ky_pages_array(&trace->pages, &trace->types, &trace->type_capacity,
			    trace->type_count + 1, sizeof(*trace->types)))
		return NULL;
	memset(&trace->types[i], 0, sizeof(trace->types[i]));
	trace->types[i].name = load->private->names.names[name].text;
	trace->types[i].name_bytes = load->private->names.names[name].bytes;
	trace->types[i].event = schema->event;
	trace->types[i].span_kind = ky_span_kind_of(trace->types[i].name);
	trace->types[i].span_name = KY_NONE;
	if (trace->types[i].span_kind) {
		trace->types[i].is_request_span = ky_request_is_type(trace->types[i].name);
		trace->types[i].is_single_span = ky_span_is_single(trace->types[i].name);
		trace->types[i].span_name = ky_span_place(&load->private->names,
							  trace->types[i].name);
		if (trace->pages.failed)
			return NULL;
	}
	trace->type_count++;
	return &trace->types[i];
}

static struct ky_event_type *find_new_type(struct ky_load *load, const struct ky_schema *schema)
{
	struct ky_event_type *type = add_type(load, schema);

	if (!type || schema->serial == UINT32_MAX ||
	    !ky_pages_array(&load->trace->pages, &load->type_of_serial, &load->serial_capacity,
			    schema->serial + 1, sizeof(*load->type_of_serial)))
		return NULL;
	load->type_of_serial[schema->serial] = (uint32_t)(type - load->trace->types) + 1;
	return type;
}

HOT struct ky_event_type *find_type(struct ky_load *load, const struct ky_schema *schema)
{
	if (schema->serial < load->serial_capacity && load->type_of_serial[schema->serial])
		return &load->trace->types[load->type_of_serial[schema->serial] - 1];
	return find_new_type(load, schema);
}

static inline void note_time(struct ky_load *load, struct ky_event_type *type, uint64_t time_ns)
{
	struct ky_trace_input *file = &load->trace->files[load->file];

	file->back_steps += time_ns < load->last_ns;
	load->last_ns = time_ns;
	if (time_ns == 0) { /* symbols and their like: no moment */
		file->zero_stamps++;
		return;
	}
	if (time_ns <= type->first_ns - 1) /* 0: none yet */
		type->first_ns = time_ns;
	if (time_ns > type->last_ns)
		type->last_ns = time_ns;
	if (time_ns <= file->first_ns - 1)
		file->first_ns = time_ns;
	if (time_ns >= load->max_ns)
		load->max_ns = time_ns;
	else if (load->max_ns - time_ns > file->reorder_ns)
		file->reorder_ns = load->max_ns - time_ns;
}

/* Counts an event that has a time. */
static inline bool note_event(struct ky_load *load, struct ky_event_type *type, uint64_t time_ns)
{
	note_time(load, type, time_ns);
	return !load->damage_from_ns || time_ns == 0 || ky_load_damage(load, time_ns);
}

static inline bool is_custom(const struct ky_frame *frame, const struct ky_event_type *type)
{
	return frame->schema->event == KY_EV_UNKNOWN && !type->span_kind;
}

static bool load_event(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_event_type *type = find_type(load, frame->schema);

	if (!type)
		return false;
	type->count++;
	load->trace->files[load->file].event_count++;
	if (!frame->schema->has_timestamp)
		return is_custom(frame, type) ? ky_load_custom(load, frame) :
						ky_load_table(load, frame);
	if (!note_event(load, type, frame->timestamp_ns))
		return false;
	if (type->span_kind)
		return ky_load_span(load, frame, type);
	if (is_custom(frame, type))
		return ky_load_custom(load, frame);
	switch (frame->schema->event) {
	case KY_EV_POLL_START:
		return load_poll_start(load, frame);
	case KY_EV_POLL_END:
		return load_poll_end(load, frame);
	case KY_EV_WAKE:
		return load_wake(load, frame);
	case KY_EV_WORKER_PARK:
		return load_park(load, frame);
	case KY_EV_WORKER_UNPARK:
		return load_unpark(load, frame);
	default:
		return ky_load_table(load, frame);
	}
}

int ky_load_frame(struct ky_load *load, const struct ky_frame *frame)
{
	if (frame->kind == KY_FRAME_EVENT)
		return load_event(load, frame) ? 0 : load->trace->pages.failed;
	if (frame->kind == KY_FRAME_HEADER)
		load->trace->files[load->file].stream_count++;
	if (frame->kind == KY_FRAME_HEADER || frame->kind == KY_FRAME_POOL) {
		load->pool_serial++;
		if (load->pool_serial == 0) {
			memset(load->pool_stamp, 0, KY_POOL_CACHE * sizeof(uint32_t));
			memset(load->stack_stamp, 0, KY_STACK_CACHE * sizeof(uint32_t));
			load->pool_serial = 1;
		}
	}
	return 0;
}

static inline bool load_hot_start(struct ky_load *load, const struct ky_hot_event *event)
{
	uint32_t task = task_of(load, event->task_id, event->timestamp_ns);
	uint32_t lane = lane_of(load, event->worker_id), name;

	if (is_name_known(load, event->spawn_loc_id))
		name = load->pool_name[event->spawn_loc_id];
	else
		name = pooled_name(load, event->spawn_loc_id,
				   ky_trc_dec_string(load->reader->dec, event->spawn_loc_id));
	if (task == UINT32_MAX || load->trace->pages.failed)
		return false;
	return add_edge(load, lane, event->timestamp_ns, KY_EDGE_START, task, name) &&
	       ky_load_depth(load, lane, event->timestamp_ns, event->local_queue);
}

static inline bool load_hot_event(struct ky_load *load, const struct ky_hot_event *event)
{
	struct ky_event_type *type = find_type(load, event->schema);
	uint64_t time_ns = event->timestamp_ns;

	if (!type)
		return false;
	type->count++;
	if (time_ns - 1 < type->first_ns - 1) /* 0: none */
		type->first_ns = time_ns;
	if (time_ns > type->last_ns)
		type->last_ns = time_ns;
	switch (event->schema->event) {
	case KY_EV_POLL_START:
		return load_hot_start(load, event);
	case KY_EV_POLL_END:
		return add_end(load, lane_of(load, event->worker_id), event->timestamp_ns);
	default:
		return add_wake(load, event, true,
				ky_load_pooled_stack(load, event->stack_id, event->timestamp_ns));
	}
}

/* What note_event() does, but for types, of events whose times ascend. */
static bool note_batch(struct ky_load *load, const struct ky_hot_event *events, uint32_t count)
{
	struct ky_trace_input *file = &load->trace->files[load->file];
	uint64_t first_ns, last_ns = events[count - 1].timestamp_ns;
	uint32_t at = 0;

	file->back_steps += events[0].timestamp_ns < load->last_ns;
	load->last_ns = last_ns;
	while (at < count && events[at].timestamp_ns == 0)
		at++;
	file->zero_stamps += at;
	if (at == count)
		return true;
	first_ns = events[at].timestamp_ns;
	if (first_ns <= file->first_ns - 1) /* 0: none yet */
		file->first_ns = first_ns;
	if (first_ns < load->max_ns && load->max_ns - first_ns > file->reorder_ns)
		file->reorder_ns = load->max_ns - first_ns;
	if (last_ns > load->max_ns)
		load->max_ns = last_ns;
	return !load->damage_from_ns || ky_load_damage(load, first_ns);
}

/* Not inlined: see walk_batch() in delay.c. */
__attribute__((noinline)) int ky_load_hot(struct ky_load *load, const struct ky_hot_event *events,
					  uint32_t count)
{
	uint32_t i;

	load->trace->files[load->file].event_count += count;
	if (count && !note_batch(load, events, count))
		return load->trace->pages.failed;
	for (i = 0; i < count; i++)
		if (!load_hot_event(load, &events[i]))
			return load->trace->pages.failed;
	return 0;
}
