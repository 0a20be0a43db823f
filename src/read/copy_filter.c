/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Event by event: is it another trace's to give? */
#include <base/alloc.h>
#include <base/hash.h>
#include <read/copies_state.h>
#include <string.h>

#define SEEN_MAX 65536u
#define SEEN_APART_NS UINT64_C(1000000) /* one event, by two readings of the clocks */

/* ---- the counter's clock ---- */

/* a * b / 2^48, in halves: not every machine that reads has numbers of 128 bits. */
static uint64_t scale(uint64_t a, uint64_t b)
{
	uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
	uint64_t middle = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
	uint64_t other = (a & UINT32_MAX) * (b >> 32) + (middle & UINT32_MAX);
	uint64_t high = (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);

	if (high >> 48)
		return UINT64_MAX;
	return high << 16 | (other & UINT32_MAX) >> 16;
}

uint64_t ky_clock_line_ns(const struct ky_clock_line *line, uint64_t ticks)
{
	uint64_t length;

	if (ticks >= line->ticks) {
		length = scale(ticks - line->ticks, line->q48);
		return length > UINT64_MAX - line->ns ? UINT64_MAX : line->ns + length;
	}
	length = scale(line->ticks - ticks, line->q48);
	return length > line->ns ? 0 : line->ns - length;
}

bool ky_clock_line_read(struct ky_clock_line *line, const struct ky_frame *frame)
{
	struct ky_clock_line now = {ky_frame_number(frame, KY_F_COUNTER_CLOCK_ticks, 0),
				    ky_frame_number(frame, KY_F_COUNTER_CLOCK_clock_ns, 0),
				    ky_frame_number(frame, KY_F_COUNTER_CLOCK_rate_q48, 0)};

	if (!now.q48)
		return false;
	*line = now;
	return true;
}

/* ---- whose is this moment? ---- */

/* The first of the process' intervals that ends at this time or after it. */
static uint32_t find_owned(const struct ky_copies_source *source, uint64_t ns)
{
	const struct ky_copies_process *process = source->process;
	uint32_t low = 0, high = process->owned_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ky_clock_line_ns(&source->line, process->owned[middle].hi) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void find_symbol(struct ky_copies_source *source, uint64_t ns)
{
	const struct ky_copies_process *process = source->process;
	const struct ky_clock_line *line = &source->line;
	uint32_t at = find_owned(source, ns);
	const struct ky_owned *owned = process->owned + at;
	uint64_t begin_ns = at < process->owned_count ? ky_clock_line_ns(line, owned->lo) : 0;

	source->least_ns = 0;
	source->most_ns = UINT64_MAX;
	if (at < process->owned_count && (ns > begin_ns || owned->lo == 0)) {
		source->from_ns = owned->lo ? begin_ns + 1 : 0;
		source->to_ns = ky_clock_line_ns(line, owned->hi);
		source->is_taking = owned->group == source->group;
		source->least_ns = owned->lo_ns;
		source->most_ns = owned->hi_ns;
		return;
	}
	/* Of no owner. */
	source->from_ns = at ? ky_clock_line_ns(line, owned[-1].hi) + 1 : 0;
	source->to_ns = at < process->owned_count ? begin_ns : UINT64_MAX;
	source->is_taking = true;
}

static inline bool is_own(struct ky_copies_source *source, uint64_t ns)
{
	if (!source->line.q48)
		return true;
	if (ns < source->from_ns || ns > source->to_ns)
		find_symbol(source, ns);
	return source->is_taking;
}

/* After is_own(). */
static inline uint64_t settle(const struct ky_copies_source *source, uint64_t ns)
{
	if (!source->line.q48)
		return ns;
	if (ns < source->least_ns)
		return source->least_ns;
	return ns > source->most_ns ? source->most_ns : ns;
}

/* ---- workers ---- */

static uint64_t worker_of(const struct ky_copies_source *source, uint64_t id)
{
	for (uint32_t i = 0; i < source->worker_count; i++) {
		if (source->workers[i].id == id)
			return source->workers[i].to;
	}
	return id;
}

/* Fields that hold a worker; UINT32_MAX: none. */
static uint32_t worker_field(uint32_t event)
{
	static const struct {
		uint32_t event, field;
	} fields[] = {
		{KY_EV_POLL_START, KY_F_POLL_START_worker_id},
		{KY_EV_POLL_END, KY_F_POLL_END_worker_id},
		{KY_EV_WORKER_PARK, KY_F_WORKER_PARK_worker_id},
		{KY_EV_WORKER_UNPARK, KY_F_WORKER_UNPARK_worker_id},
		{KY_EV_TASK_SPAWN, KY_F_TASK_SPAWN_worker_id},
		{KY_EV_CPU_SAMPLE, KY_F_CPU_SAMPLE_worker_id},
		{KY_EV_NESTED_POLL_START, KY_F_NESTED_POLL_START_worker_id},
		{KY_EV_NESTED_POLL_END, KY_F_NESTED_POLL_END_worker_id},
		{KY_EV_BLOCK_IN_PLACE, KY_F_BLOCK_IN_PLACE_worker_id},
		{KY_EV_WAKER_CLONE, KY_F_WAKER_CLONE_worker_id},
		{KY_EV_DRIVER_TURN, KY_F_DRIVER_TURN_worker_id},
		{KY_EV_OFF_CPU, KY_F_OFF_CPU_worker_id},
		{KY_EV_FAILED_CALLS, KY_F_FAILED_CALLS_worker_id},
		{KY_EV_SOCKET_WAIT, KY_F_SOCKET_WAIT_worker_id},
		{KY_EV_SPAWN_WINDOW, KY_F_SPAWN_WINDOW_worker_id},
		{KY_EV_CONN_ENTER, KY_F_CONN_ENTER_worker_id},
		{KY_EV_WORKER, KY_F_WORKER_worker_id},
		{KY_EV_OPEN_POLL, KY_F_OPEN_POLL_worker_id},
		{KY_EV_WORKER_SUMS, KY_F_WORKER_SUMS_worker_id},
		{KY_EV_POLL_DELAY, KY_F_POLL_DELAY_worker_id},
		{KY_EV_THREAD_CPU, KY_F_THREAD_CPU_worker_id},
		{KY_EV_POLL_COST, KY_F_POLL_COST_worker_id},
		{KY_EV_STUCK_THREAD, KY_F_STUCK_THREAD_worker_id},
		{KY_EV_CRASH, KY_F_CRASH_worker_id},
		{KY_EV_WAKE, KY_F_WAKE_target_worker},
		{KY_EV_LATE_WAKE, KY_F_LATE_WAKE_target_worker},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].event == event)
			return fields[i].field;
	}
	return UINT32_MAX;
}

static void rename_worker(const struct ky_copies_source *source, struct ky_frame *frame)
{
	uint32_t field = worker_field(frame->schema->event);
	const struct ky_value *found;
	struct ky_value *value;

	if (field == UINT32_MAX)
		return;
	found = ky_frame_field(frame, field);
	if (!found)
		return;
	value = (struct ky_value *)(uintptr_t)found; /* the decoder's own, until its next frame */
	value->as.number = worker_of(source, value->as.number);
}

/* ---- events ---- */

/* What says whose it is but for times, which differ from trace to trace. */
static uint64_t hash_event(const struct ky_frame *frame)
{
	uint64_t hash = ky_hash_number(frame->schema->event);

	for (uint32_t i = 0; i < frame->schema->field_count; i++) {
		const struct ky_schema_field *field = &frame->schema->fields[i];
		const struct ky_value *value = &frame->values[i];
		size_t bytes = field->name.count;

		if (!value->is_present || value->type == KY_TYPE_STACK ||
		    (bytes > 3 && memcmp(field->name.bytes + bytes - 3, "_ns", 3) == 0))
			continue;
		if (value->text.bytes)
			hash = ky_hash_bytes(hash, value->text.bytes, value->text.count);
		else if (value->type != KY_TYPE_POOLED_STRING)
			hash = ky_hash_number(hash ^ value->as.number);
	}
	return hash;
}

/* A rule that fired is in the dump that it made, and in the stream. */
static bool is_first_to_report(struct ky_copies_source *source, const struct ky_frame *frame)
{
	struct ky_copies *copies = source->copies;
	uint64_t hash = hash_event(frame), ns = frame->timestamp_ns;
	bool is_new = true;

	for (uint32_t i = 0; i < copies->seen_count; i++) {
		const struct ky_seen_event *seen = &copies->seen[i];
		uint64_t apart = seen->ns > ns ? seen->ns - ns : ns - seen->ns;

		if (seen->hash != hash || apart > SEEN_APART_NS)
			continue;
		if (seen->source == source->index && apart == 0)
			return seen->is_taken; /* it is read once more */
		is_new &= seen->source == source->index;
	}
	if (copies->seen_count < SEEN_MAX &&
	    !ky_grow(&copies->seen, &copies->seen_capacity, copies->seen_count + 1,
		     sizeof(*copies->seen)))
		copies->seen[copies->seen_count++] = (struct ky_seen_event){hash, ns, source->index,
									    is_new};
	return is_new;
}

static bool takes(struct ky_copies_source *source, const struct ky_frame *frame)
{
	uint64_t start_ns;

	switch (frame->schema->event) {
	case KY_EV_SEGMENT_METADATA:
	case KY_EV_SEGMENT_INDEX:
	case KY_EV_CLOCK_SYNC:
	case KY_EV_THREAD:
	case KY_EV_RUNTIME:
	case KY_EV_PROCESS_MAP:
	case KY_EV_SYMBOL:
	case KY_EV_RECORDER_REPORT:
	case KY_EV_RETENTION:
	case KY_EV_HISTOGRAM:
	case KY_EV_WORKER_SUMS:
		return true;
	case KY_EV_TRIGGER:
	case KY_EV_STUCK_THREAD:
	case KY_EV_CRASH:
		return is_first_to_report(source, frame);
	case KY_EV_OPEN_POLL: /* a reader that has its start reports more */
		start_ns = ky_frame_number(frame, KY_F_OPEN_POLL_start_ns, 0);
		if (start_ns && !is_own(source, start_ns))
			return false;
		return is_own(source, frame->timestamp_ns);
	default:
		return is_own(source, frame->timestamp_ns);
	}
}

bool ky_copies_takes(struct ky_copies_source *source, struct ky_frame *frame)
{
	if (!source->process)
		return true;
	if (frame->schema->event == KY_EV_COUNTER_CLOCK &&
	    ky_clock_line_read(&source->line, frame)) {
		source->from_ns = 1; /* no time is inside */
		source->to_ns = 0;
	}
	if (!frame->schema->has_timestamp || !frame->timestamp_ns)
		return true;
	if (!takes(source, frame)) {
		source->copy_count++;
		return false;
	}
	if (is_own(source, frame->timestamp_ns))
		frame->timestamp_ns = settle(source, frame->timestamp_ns);
	if (source->has_other_ids)
		rename_worker(source, frame);
	return true;
}

uint32_t ky_copies_hot(struct ky_copies_source *source, struct ky_hot_event *events, uint32_t count)
{
	uint32_t kept = 0;

	if (!source->process)
		return count;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_own(source, events[i].timestamp_ns))
			continue;
		events[kept] = events[i];
		events[kept].timestamp_ns = settle(source, events[i].timestamp_ns);
		if (source->has_other_ids)
			events[kept].worker_id = worker_of(source, events[i].worker_id);
		kept++;
	}
	source->copy_count += count - kept;
	return kept;
}

void ky_copies_begin(struct ky_copies_source *source)
{
	if (!source)
		return;
	source->line = (struct ky_clock_line){0, 0, 0};
	source->from_ns = 1;
	source->to_ns = 0;
	source->copy_count = 0;
}

uint64_t ky_copies_count(const struct ky_copies *copies)
{
	uint64_t count = 0;

	for (uint32_t i = 0; copies && i < copies->source_count; i++)
		count += copies->sources[i].copy_count;
	return count;
}
