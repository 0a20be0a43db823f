/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/hash.h>
#include <kymo/base.h>
#include <read/load.h>
#include <string.h>

#define WEIGHT_MAX 4294967296.0

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

/* ---- stacks, each once ---- */

static uint64_t hash_of(const uint8_t *frames, uint32_t count, uint32_t turn)
{
	return ky_hash_bytes(KY_HASH_START + turn, frames, (size_t)count * sizeof(uint64_t));
}

static bool grow_slots(struct ky_trace *trace)
{
	struct ky_samples *samples = &trace->samples;
	uint32_t count = samples->slot_count ? samples->slot_count * 2 : 1024, i;
	uint32_t *slots;

	if (count < samples->slot_count) {
		trace->pages.failed = KYMO_E_LIMIT;
		return false;
	}
	slots = ky_pages_alloc(&trace->pages, (size_t)count * sizeof(*slots));
	if (!slots)
		return false;
	for (i = 0; i < samples->stack_count; i++) {
		const struct ky_stack *stack = &samples->stacks[i];
		uint64_t hash = hash_of((const uint8_t *)(samples->frames + stack->first),
					stack->count, stack->turn);
		uint32_t at = (uint32_t)ky_hash_number(hash) & (count - 1);

		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = i + 1;
	}
	ky_pages_free(&trace->pages, samples->slots, samples->slot_count * sizeof(*slots));
	samples->slots = slots;
	samples->slot_count = count;
	return true;
}

static bool is_same(const struct ky_samples *samples, uint32_t stack, const uint8_t *frames,
		    uint32_t count, uint32_t turn)
{
	return samples->stacks[stack].count == count && samples->stacks[stack].turn == turn &&
	       memcmp(samples->frames + samples->stacks[stack].first, frames,
		      (size_t)count * sizeof(uint64_t)) == 0;
}

static uint32_t add_stack(struct ky_trace *trace, const uint8_t *frames, uint32_t count,
			  uint64_t time_ns, uint32_t turn)
{
	struct ky_samples *samples = &trace->samples;

	if (count > UINT32_MAX - samples->frame_count) {
		trace->pages.failed = KYMO_E_LIMIT;
		return UINT32_MAX;
	}
	if (!ky_pages_array(&trace->pages, &samples->frames, &samples->frame_capacity,
			    samples->frame_count + count, sizeof(*samples->frames)))
		return UINT32_MAX;
	if (!ky_pages_array(&trace->pages, &samples->stacks, &samples->stack_capacity,
			    samples->stack_count + 1, sizeof(*samples->stacks)))
		return UINT32_MAX;
	memcpy(samples->frames + samples->frame_count, frames, (size_t)count * sizeof(uint64_t));
	samples->stacks[samples->stack_count] = (struct ky_stack){samples->frame_count, count,
								  time_ns, turn};
	samples->frame_count += count;
	return samples->stack_count++;
}

/* How often what was mapped under a stack had gone by then. */
static uint32_t turn_of(const struct ky_samples *samples, const uint8_t *frames, uint32_t count,
			uint64_t time_ns)
{
	uint32_t turn = 0;

	for (uint32_t i = 0; samples->gone_count && i < count; i++) {
		uint64_t frame;

		memcpy(&frame, frames + i * sizeof(frame), sizeof(frame));
		if (frame < samples->gone_low || frame >= samples->gone_high)
			continue;
		for (uint32_t k = 0; k < samples->gone_count; k++) {
			const struct ky_gone_code *gone = &samples->gone[k];

			turn += frame >= gone->start && frame < gone->end && time_ns >= gone->to_ns;
		}
	}
	return turn;
}

/* A module was unmapped: what is mapped there next has other names. Reported again and again. */
static bool load_gone(struct ky_trace *trace, const struct ky_frame *frame)
{
	struct ky_samples *samples = &trace->samples;
	struct ky_gone_code gone = {number(frame, KY_F_PROCESS_MAP_start),
				    number(frame, KY_F_PROCESS_MAP_end),
				    number(frame, KY_F_PROCESS_MAP_to_ns)};

	if (!gone.to_ns || gone.start >= gone.end || samples->gone_count == KY_GONE_CODE_MAX)
		return true;
	for (uint32_t i = 0; i < samples->gone_count; i++)
		if (samples->gone[i].start == gone.start && samples->gone[i].to_ns == gone.to_ns)
			return true;
	if (!ky_pages_array(&trace->pages, &samples->gone, &samples->gone_capacity,
			    samples->gone_count + 1, sizeof(gone)))
		return false;
	if (!samples->gone_count || gone.start < samples->gone_low)
		samples->gone_low = gone.start;
	if (gone.end > samples->gone_high)
		samples->gone_high = gone.end;
	samples->gone[samples->gone_count++] = gone;
	return true;
}

/* Index of a stack; KY_NONE: it has no frames, or trace->pages.failed is set. */
static uint32_t intern_stack(struct ky_trace *trace, const uint8_t *frames, uint32_t count,
			     uint64_t time_ns)
{
	struct ky_samples *samples = &trace->samples;
	uint32_t at, stack, turn = turn_of(samples, frames, count, time_ns);
	uint64_t hash;

	if (samples->stack_count >= samples->slot_count / 2 && !grow_slots(trace))
		return KY_NONE;
	hash = hash_of(frames, count, turn);
	at = (uint32_t)ky_hash_number(hash) & (samples->slot_count - 1);
	while (samples->slots[at]) {
		stack = samples->slots[at] - 1;
		if (is_same(samples, stack, frames, count, turn)) {
			if (time_ns < samples->stacks[stack].first_ns)
				samples->stacks[stack].first_ns = time_ns;
			return stack;
		}
		at = (at + 1) & (samples->slot_count - 1);
	}
	stack = add_stack(trace, frames, count, time_ns, turn);
	if (stack != UINT32_MAX)
		samples->slots[at] = stack + 1;
	return stack;
}

uint32_t ky_load_frames(struct ky_trace *trace, const uint8_t *frames, uint32_t count,
			uint64_t time_ns)
{
	if (!frames || !count)
		return KY_NONE;
	if (count > KY_STACK_FRAMES_MAX)
		count = KY_STACK_FRAMES_MAX;
	return intern_stack(trace, frames, count, time_ns);
}

/* ---- rows ---- */

static struct ky_stack_row *add_row(struct ky_load *load, const struct ky_frame *frame,
				    uint8_t kind)
{
	struct ky_samples *samples = &load->trace->samples;
	struct ky_stack_row *row;

	if (!ky_pages_array(&load->trace->pages, &samples->rows, &samples->row_capacity,
			    samples->row_count + 1, sizeof(*samples->rows)))
		return NULL;
	row = &samples->rows[samples->row_count];
	memset(row, 0, sizeof(*row));
	row->time_ns = frame->timestamp_ns;
	row->weight = 1.0;
	row->stack = row->worker = row->task = row->name = KY_NONE;
	row->waker_name = row->waker_task = row->waker_kind = KY_NONE;
	row->syscall = KY_NO_SYSCALL;
	row->fd = -1;
	row->moved_bytes = UINT64_MAX;
	row->order = samples->row_count++;
	row->kind = kind;
	return row;
}

bool ky_load_stack(struct ky_load *load, const struct ky_frame *frame, uint32_t field,
		   uint32_t *stack, bool *is_truncated)
{
	const struct ky_value *value = ky_frame_field(frame, field);
	uint32_t count;

	*is_truncated = false;
	*stack = KY_NONE;
	if (!value || !value->frame_count || !value->frames)
		return true;
	count = value->frame_count;
	if (count > KY_STACK_FRAMES_MAX) {
		count = KY_STACK_FRAMES_MAX;
		*is_truncated = true;
	}
	*stack = intern_stack(load->trace, value->frames, count, frame->timestamp_ns);
	return *stack != KY_NONE;
}

/* field: of the frames. */
static bool set_stack(struct ky_load *load, const struct ky_frame *frame, uint32_t field,
		      struct ky_stack_row *row)
{
	bool is_truncated, is_good = ky_load_stack(load, frame, field, &row->stack, &is_truncated);

	if (is_truncated)
		row->flags |= KY_ROW_TRUNCATED;
	return is_good;
}

static bool set_task(struct ky_load *load, uint64_t id, struct ky_stack_row *row)
{
	if (id)
		row->task = ky_load_task(load, id, row->time_ns);
	return !id || row->task != UINT32_MAX;
}

/* 1 / p as written, or p itself; what no sampler writes counts once. */
static void set_weight(const struct ky_frame *frame, uint32_t field, bool is_probability,
		       struct ky_stack_row *row)
{
	const struct ky_value *value = ky_frame_field(frame, field);
	double weight = value ? value->as.f64 : 0.0;

	if (is_probability)
		weight = weight > 1.0 / WEIGHT_MAX ? 1.0 / weight : 0.0;
	if (weight >= 1.0 && weight <= WEIGHT_MAX)
		row->weight = weight;
	else
		row->flags |= KY_ROW_UNWEIGHTED;
}

static bool load_cpu(struct ky_load *load, const struct ky_frame *frame)
{
	bool is_switch = number(frame, KY_F_CPU_SAMPLE_source) == 1;
	struct ky_stack_row *row = add_row(load, frame, is_switch ? KY_STACK_SWITCH : KY_STACK_CPU);

	if (!row)
		return false;
	row->tid = (uint32_t)number(frame, KY_F_CPU_SAMPLE_tid);
	row->value = number(frame, KY_F_CPU_SAMPLE_weight_ns);
	row->sampler = (uint8_t)number(frame, KY_F_CPU_SAMPLE_sampler);
	row->address = ky_frame_number(frame, KY_F_CPU_SAMPLE_worker_id, KY_ID_UNKNOWN);
	row->poll_start_ns = number(frame, KY_F_CPU_SAMPLE_poll_start_ns);
	if (ky_frame_field(frame, KY_F_CPU_SAMPLE_poll_start_ns))
		row->flags |= KY_ROW_REPORTED;
	if (number(frame, KY_F_CPU_SAMPLE_is_truncated))
		row->flags |= KY_ROW_TRUNCATED;
	return set_task(load, number(frame, KY_F_CPU_SAMPLE_task_id), row) &&
	       set_stack(load, frame, KY_F_CPU_SAMPLE_callchain, row);
}

static void load_runnable(const struct ky_frame *frame, struct ky_stack_row *row)
{
	uint64_t most = ky_frame_number(frame, KY_F_OFF_CPU_runnable_max_ns, row->value);
	uint64_t least = number(frame, KY_F_OFF_CPU_runnable_min_ns);

	if (row->reason == KY_WAIT_PREEMPTED)
		least = row->value;
	row->runnable_max_ns = most < row->value ? most : row->value;
	row->runnable_min_ns = least < row->value ? least : row->value;
	if (row->runnable_max_ns < row->runnable_min_ns)
		row->runnable_max_ns = row->runnable_min_ns;
}

/* A moment is known where the split is. */
static bool load_waker(struct ky_load *load, const struct ky_frame *frame, struct ky_stack_row *row)
{
	row->woken_by = (uint8_t)number(frame, KY_F_OFF_CPU_woken_by);
	if (row->woken_by > KY_ROW_WOKEN_BY_INTERRUPT)
		row->woken_by = 0;
	if (!row->woken_by)
		return true;
	row->waker_tid = (uint32_t)number(frame, KY_F_OFF_CPU_waker_tid);
	row->waker_pid = (uint32_t)number(frame, KY_F_OFF_CPU_waker_pid);
	row->waker_name = ky_load_text(load, frame, KY_F_OFF_CPU_waker_name);
	if (row->runnable_min_ns == row->runnable_max_ns)
		row->woken_ns = row->end_ns - row->runnable_min_ns;
	return !load->trace->pages.failed;
}

static uint16_t small_number(const struct ky_frame *frame, uint32_t field)
{
	uint64_t value = number(frame, field);

	return value <= UINT16_MAX ? (uint16_t)value : 0;
}

static void load_call(const struct ky_frame *frame, struct ky_stack_row *row)
{
	uint64_t fd = ky_frame_number(frame, KY_F_OFF_CPU_fd, UINT64_MAX);
	uint64_t kind = number(frame, KY_F_OFF_CPU_fd_kind);

	row->fd = fd <= INT32_MAX ? (int32_t)fd : -1;
	row->fd_kind = kind < KY_FD_KINDS_KNOWN ? (uint8_t)kind : 0;
	row->tcp_state = (uint8_t)number(frame, KY_F_OFF_CPU_tcp_state);
	row->peer_port = small_number(frame, KY_F_OFF_CPU_peer_port);
	row->local_port = small_number(frame, KY_F_OFF_CPU_local_port);
	row->moved_bytes = ky_frame_number(frame, KY_F_OFF_CPU_moved_bytes, UINT64_MAX);
	row->error = small_number(frame, KY_F_OFF_CPU_error);
	row->lock = number(frame, KY_F_OFF_CPU_lock_addr);
}

static bool load_off_cpu(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_stack_row *row = add_row(load, frame, KY_STACK_OFF_CPU);
	uint64_t syscall = ky_frame_number(frame, KY_F_OFF_CPU_syscall_number, KY_NO_SYSCALL);

	if (!row)
		return false;
	row->value = number(frame, KY_F_OFF_CPU_duration_ns);
	row->end_ns = frame->timestamp_ns;
	row->time_ns -= row->value < row->time_ns ? row->value : row->time_ns;
	row->tid = (uint32_t)number(frame, KY_F_OFF_CPU_tid);
	row->reason = (uint8_t)number(frame, KY_F_OFF_CPU_reason);
	row->syscall = syscall < KY_NO_SYSCALL ? (uint32_t)syscall : KY_NO_SYSCALL;
	row->address = ky_frame_number(frame, KY_F_OFF_CPU_worker_id, KY_ID_UNKNOWN);
	row->poll_start_ns = number(frame, KY_F_OFF_CPU_poll_start_ns);
	if (ky_frame_field(frame, KY_F_OFF_CPU_poll_start_ns))
		row->flags |= KY_ROW_REPORTED;
	if (number(frame, KY_F_OFF_CPU_is_truncated))
		row->flags |= KY_ROW_TRUNCATED;
	row->sampler = (uint8_t)number(frame, KY_F_OFF_CPU_source);
	row->clipped = (uint8_t)number(frame, KY_F_OFF_CPU_clipped);
	load_runnable(frame, row);
	load_call(frame, row);
	set_weight(frame, KY_F_OFF_CPU_weight, false, row);
	return load_waker(load, frame, row) &&
	       set_task(load, number(frame, KY_F_OFF_CPU_task_id), row) &&
	       set_stack(load, frame, KY_F_OFF_CPU_callchain, row);
}

/* Of a task that the rest of the trace may not know. */
static bool name_task(struct ky_load *load, const struct ky_frame *frame,
		      const struct ky_stack_row *row)
{
	uint32_t name = ky_load_text(load, frame, KY_F_AWAIT_PLACE_task_name);

	if (row->task != KY_NONE && load->trace->tasks[row->task].name == KY_NONE)
		load->trace->tasks[row->task].name = name;
	return !load->trace->pages.failed;
}

/* One that ended at the event's moment, or one that lasts. */
static void set_wait(const struct ky_frame *frame, uint64_t since_ns, struct ky_stack_row *row)
{
	uint64_t wait_ns = number(frame, KY_F_AWAIT_PLACE_wait_ns);
	uint64_t state = number(frame, KY_F_AWAIT_PLACE_state);
	uint64_t polled_ns = number(frame, KY_F_AWAIT_PLACE_polled_ns);

	row->since_ns = since_ns;
	row->end_ns = row->time_ns;
	row->reason = (uint8_t)(KY_PLACE_REPORTED_WAITS + (state < 2 ? state : 2));
	/* Beside samples of the same wait: not counted again. */
	if (!ky_frame_field(frame, KY_F_AWAIT_PLACE_wait_ns)) {
		row->time_ns = since_ns;
		row->flags |= KY_ROW_UNWEIGHTED;
		return;
	}
	if (wait_ns)
		row->reason = KY_PLACE_WAITED;
	if (wait_ns && wait_ns <= row->time_ns)
		row->time_ns -= wait_ns;
	else if (polled_ns && polled_ns <= row->time_ns)
		row->time_ns = polled_ns;
	else
		row->time_ns = since_ns;
	if (number(frame, KY_F_AWAIT_PLACE_point))
		row->flags |= KY_ROW_ALSO;
}

static bool load_place(struct ky_load *load, const struct ky_frame *frame)
{
	bool is_dump = frame->schema->event == KY_EV_TASK_DUMP;
	struct ky_stack_row *row = add_row(load, frame, KY_STACK_PLACE);
	uint64_t since_ns = is_dump ? 0 : number(frame, KY_F_AWAIT_PLACE_since_ns);

	if (!row)
		return false;
	row->address = KY_ID_UNKNOWN;
	row->flags |= KY_ROW_REPORTED;
	if (is_dump)
		return set_task(load, number(frame, KY_F_TASK_DUMP_task_id), row) &&
		       set_stack(load, frame, KY_F_TASK_DUMP_callchain, row);
	set_weight(frame, KY_F_AWAIT_PLACE_inclusion_probability, true, row);
	if (since_ns)
		set_wait(frame, since_ns, row);
	if (number(frame, KY_F_AWAIT_PLACE_is_truncated))
		row->flags |= KY_ROW_TRUNCATED;
	return set_task(load, number(frame, KY_F_AWAIT_PLACE_task_id), row) &&
	       name_task(load, frame, row) &&
	       set_stack(load, frame, KY_F_AWAIT_PLACE_callchain, row);
}

static bool load_alloc(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_stack_row *row = add_row(load, frame, KY_STACK_ALLOC);

	if (!row)
		return false;
	row->tid = (uint32_t)number(frame, KY_F_ALLOC_tid);
	row->value = number(frame, KY_F_ALLOC_alloc_bytes);
	row->address = number(frame, KY_F_ALLOC_addr);
	if (ky_frame_field(frame, KY_F_ALLOC_task_id))
		row->flags |= KY_ROW_REPORTED;
	if (number(frame, KY_F_ALLOC_is_truncated))
		row->flags |= KY_ROW_TRUNCATED;
	if (number(frame, KY_F_ALLOC_since_ns)) {
		row->time_ns = number(frame, KY_F_ALLOC_since_ns);
		row->end_ns = frame->timestamp_ns; /* while loading: of the list */
		row->reason = KY_ALLOC_REPORTED_LIVE;
		row->sampler = KY_ALLOC_LISTED;
	}
	set_weight(frame, KY_F_ALLOC_weight, false, row);
	return set_task(load, number(frame, KY_F_ALLOC_task_id), row) &&
	       set_stack(load, frame, KY_F_ALLOC_callchain, row);
}

static bool load_free(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_stack_row *row = add_row(load, frame, KY_STACK_FREE);

	if (!row)
		return false;
	row->tid = (uint32_t)number(frame, KY_F_FREE_tid);
	row->address = number(frame, KY_F_FREE_addr);
	return true;
}

static void add_lost(uint64_t *sum, uint64_t count)
{
	*sum = count > UINT64_MAX - *sum ? UINT64_MAX : *sum + count;
}

static void add_lost_kind(struct ky_trace *trace, enum ky_stack_kind kind, uint64_t count)
{
	add_lost(&trace->lost_samples, count);
	add_lost(&trace->samples.lost[kind], count);
}

bool ky_load_sample(struct ky_load *load, const struct ky_frame *frame)
{
	switch (frame->schema->event) {
	case KY_EV_PROCESS_MAP:
		return load_gone(load->trace, frame);
	case KY_EV_CPU_SAMPLE:
		return load_cpu(load, frame);
	case KY_EV_OFF_CPU:
		return load_off_cpu(load, frame);
	case KY_EV_AWAIT_PLACE:
	case KY_EV_TASK_DUMP:
		return load_place(load, frame);
	case KY_EV_ALLOC:
		return load_alloc(load, frame);
	case KY_EV_FREE:
		return load_free(load, frame);
	case KY_EV_MEMORY_OVERFLOW:
		add_lost_kind(load->trace, KY_STACK_ALLOC,
			      number(frame, KY_F_MEMORY_OVERFLOW_dropped_allocs));
		add_lost_kind(load->trace, KY_STACK_FREE,
			      number(frame, KY_F_MEMORY_OVERFLOW_dropped_frees));
		return true;
	default:
		return true;
	}
}

void ky_load_lost_samples(struct ky_load *load, const char *cause, uint64_t count)
{
	static const struct {
		const char *cause;
		enum ky_stack_kind kind;
	} kinds[] = {{"cpu-samples", KY_STACK_CPU},
		     {"off-cpu-samples", KY_STACK_OFF_CPU},
		     {"place-samples", KY_STACK_PLACE},
		     {"memory-samples", KY_STACK_ALLOC}};

	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(cause, kinds[i].cause) == 0) {
			add_lost_kind(load->trace, kinds[i].kind, count);
			return;
		}
	}
	add_lost(&load->trace->lost_samples, count);
}
