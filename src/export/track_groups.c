/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/track_events.h>

#include <base/alloc.h>
#include <base/text.h>
#include <errno.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/queues.h>
#include <string.h>

#define FLUSH_ROWS 1024u

enum track_group {
	GROUP_TASKS,
	GROUP_SPANS,
	GROUP_BLOCKING,
	GROUP_LOSSES,
	GROUP_COUNTERS,
	GROUP_EVENTS,
	GROUPS
};

struct groups {
	struct ky_export *export;
	const struct ky_track_sink *sink;
	uint64_t *track;          /* the last id given */
	uint64_t ids[GROUPS];     /* 0: not declared yet */
	uint64_t *span_tracks;    /* by span; 0: not exported */
	uint64_t *counter_tracks; /* by name; 0: not declared yet */
	struct ky_track_value values[KY_TRACK_VALUES_MAX];
	uint32_t value_count;
};

static uint64_t add_track(struct groups *groups, uint64_t parent, uint32_t kind, const char *name)
{
	struct ky_track track = {.id = ++*groups->track,
				 .parent = parent,
				 .kind = kind,
				 .name = name,
				 .lane = KY_NONE};

	groups->sink->track(groups->sink->ctx, &track);
	return track.id;
}

static uint64_t group_of(struct groups *groups, enum track_group group)
{
	static const char *const names[GROUPS] = {
		[GROUP_TASKS] = "tasks",
		[GROUP_SPANS] = "spans",
		[GROUP_BLOCKING] = "blocking pool",
		[GROUP_LOSSES] = "losses",
		[GROUP_COUNTERS] = "counters",
		[GROUP_EVENTS] = "events and marks",
	};

	if (!groups->ids[group])
		groups->ids[group] = add_track(groups, KY_TRACK_PROCESS, KY_TRACK_GROUP,
					       names[group]);
	return groups->ids[group];
}

static const char *name_or(const struct groups *groups, uint32_t name)
{
	return name == KY_NONE ? ky_track_name_text(KY_TRACK_NAME_UNNAMED) :
				 ky_trace_name(groups->export->trace, name);
}

static void add_number(struct groups *groups, const char *name, uint64_t number)
{
	if (groups->value_count < KY_TRACK_VALUES_MAX)
		groups->values[groups->value_count++] = (struct ky_track_value){name, NULL, number};
}

static void add_text(struct groups *groups, const char *name, const char *text)
{
	if (groups->value_count < KY_TRACK_VALUES_MAX)
		groups->values[groups->value_count++] = (struct ky_track_value){name, text, 0};
}

static struct ky_track_event event_at(struct groups *groups, uint64_t track, uint64_t time_ns,
				      uint32_t name)
{
	struct ky_track_event event = {.time_ns = time_ns,
				       .track = track,
				       .lane = KY_NONE,
				       .name = name,
				       .named = name == KY_NONE ? KY_TRACK_NAME_UNNAMED :
								  KY_TRACK_NAME_OF_TRACE,
				       .values = groups->values,
				       .value_count = groups->value_count};

	groups->value_count = 0;
	return event;
}

/* end_ns 0: it has none. */
static void put_slice(struct groups *groups, struct ky_track_event *event, uint64_t end_ns)
{
	groups->sink->begin(groups->sink->ctx, event);
	if (!end_ns)
		return;
	event->time_ns = end_ns < event->time_ns ? event->time_ns : end_ns;
	event->values = NULL;
	event->value_count = 0;
	groups->sink->end(groups->sink->ctx, event);
}

static int flush(struct groups *groups, uint32_t row)
{
	return row % FLUSH_ROWS == FLUSH_ROWS - 1 ? groups->sink->flush(groups->sink->ctx) : 0;
}

static int put_tasks(struct groups *groups)
{
	struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;
	int result = 0;

	for (uint32_t i = 0; i < trace->task_count && !result; i++) {
		const struct ky_task *task = &trace->tasks[i];
		struct ky_track_event event;
		uint64_t track;

		if (ky_trace_is_run(task) || !ky_track_has(export, task->first_ns) ||
		    (export->task != KY_NONE && export->task != i))
			continue;
		track = add_track(groups, group_of(groups, GROUP_TASKS), KY_TRACK_OWN,
				  name_or(groups, task->name));
		add_number(groups, "polls", task->poll_count);
		add_number(groups, "busy_ns", task->busy_ns);
		add_number(groups, "poll_max_ns", task->poll_max_ns);
		add_number(groups, "delay_ns", task->delay_ns);
		if (task->parent != KY_NONE)
			add_number(groups, "parent", trace->tasks[task->parent].id);
		event = event_at(groups, track, task->first_ns, task->name);
		event.has_task = true;
		event.task = task->id;
		export->counts.tasks++;
		put_slice(groups, &event, task->end_ns);
		result = flush(groups, i);
	}
	return result;
}

static int put_spans(struct groups *groups)
{
	struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;
	int result = 0;

	for (uint32_t i = 0; i < trace->span_count && !result; i++) {
		const struct ky_trace_span *span = &trace->spans[i];
		struct ky_track_event event;
		uint64_t parent = 0;

		if (!ky_track_has(export, span->start_ns) ||
		    (export->task != KY_NONE && export->task != span->task))
			continue;
		if (span->parent != KY_NONE && span->parent < i)
			parent = groups->span_tracks[span->parent];
		if (!parent)
			parent = group_of(groups, GROUP_SPANS);
		groups->span_tracks[i] = add_track(groups, parent, KY_TRACK_OWN,
						   name_or(groups, span->name));
		for (uint32_t k = 0; k < span->field_count; k++)
			add_text(groups,
				 ky_trace_name(trace, trace->span_fields[span->field_at + k].key),
				 ky_trace_name(trace,
					       trace->span_fields[span->field_at + k].value));
		event = event_at(groups, groups->span_tracks[i], span->start_ns, span->name);
		event.has_task = span->task != KY_NONE;
		event.task = event.has_task ? trace->tasks[span->task].id : 0;
		export->counts.spans++;
		put_slice(groups, &event, span->is_open ? 0 : span->start_ns + span->duration_ns);
		result = flush(groups, i);
	}
	return result;
}

static int put_runs(struct groups *groups)
{
	struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;
	int result = 0;

	for (uint32_t i = 0; i < trace->blocking_count && !result; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];
		struct ky_track_event event;
		uint64_t track;

		if (!ky_track_has(export, run->start_ns) ||
		    (export->task != KY_NONE && export->task != run->task))
			continue;
		track = add_track(groups, group_of(groups, GROUP_BLOCKING), KY_TRACK_OWN,
				  name_or(groups, run->name));
		add_number(groups, "tid", run->tid);
		if (run->is_end_unproven)
			add_text(groups, "end", "not recorded");
		event = event_at(groups, track, run->start_ns, run->name);
		event.has_task = run->task != KY_NONE;
		event.task = event.has_task ? trace->tasks[run->task].id : 0;
		export->counts.runs++;
		put_slice(groups, &event, run->is_open ? 0 : run->start_ns + run->duration_ns);
		result = flush(groups, i);
	}
	return result;
}

/* Losses, and what a policy held back. */
static void put_losses(struct groups *groups)
{
	struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;

	for (uint32_t i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];
		bool is_gap = strcmp(ky_trace_name(trace, loss->cause), KY_CAUSE_NOT_RECORDED) == 0;
		uint64_t from_ns = loss->from_ns ? loss->from_ns : trace->run_first_ns;
		struct ky_track_event event;

		if (!ky_track_has(export, from_ns))
			continue;
		add_number(groups, "records", loss->record_count);
		add_text(groups, "cause", ky_trace_name(trace, loss->cause));
		if (loss->tid)
			add_number(groups, "tid", loss->tid);
		event = event_at(groups,
				 add_track(groups, group_of(groups, GROUP_LOSSES), KY_TRACK_OWN,
					   "lost records"),
				 from_ns, KY_NONE);
		event.named = is_gap ? KY_TRACK_NAME_UNRECORDED : KY_TRACK_NAME_LOST;
		export->counts.losses++;
		put_slice(groups, &event, loss->to_ns ? loss->to_ns : from_ns);
	}
	for (uint32_t i = 0; i < trace->histogram_count; i++) {
		const struct ky_trace_histogram *counted = &trace->histograms[i];
		struct ky_track_event event;

		if (counted->kind != KY_COUNTED_POLL || !ky_track_has(export, counted->from_ns))
			continue;
		add_number(groups, "polls", counted->count);
		add_number(groups, "sum_ns", counted->sum);
		add_text(groups, "site", name_or(groups, counted->name));
		event = event_at(groups,
				 add_track(groups, group_of(groups, GROUP_LOSSES), KY_TRACK_OWN,
					   "counted polls"),
				 counted->from_ns, KY_NONE);
		event.named = KY_TRACK_NAME_COUNTED;
		export->counts.counted_polls += counted->count;
		put_slice(groups, &event, counted->to_ns);
	}
}

static void put_value(struct groups *groups, uint64_t track, uint64_t time_ns, int64_t value)
{
	struct ky_track_event event = event_at(groups, track, time_ns, KY_NONE);

	event.counter = value;
	groups->export->counts.counter_values++;
	groups->sink->counter(groups->sink->ctx, &event);
}

static int put_counters(struct groups *groups)
{
	const struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;
	int result = 0;

	for (uint32_t i = 0; i < trace->counter_count && !result; i++) {
		const struct ky_trace_counter *counter = &trace->counters[i];
		uint64_t *track = counter->name == KY_NONE ? NULL :
							     &groups->counter_tracks[counter->name];

		if (!track || !ky_track_has(export, counter->time_ns))
			continue;
		if (!*track)
			*track = add_track(groups, group_of(groups, GROUP_COUNTERS),
					   KY_TRACK_COUNTER, name_or(groups, counter->name));
		put_value(groups, *track, counter->time_ns, counter->value);
		result = flush(groups, i);
	}
	return result;
}

static uint64_t queue_track(struct groups *groups, const struct ky_trace_queue *queue,
			    const char *what)
{
	const struct ky_trace *trace = groups->export->trace;
	struct ky_buf name;
	uint64_t track;

	ky_buf_init(&name, 0);
	ky_text(&name, what);
	if (queue->runtime != KY_NONE && *ky_trace_name(trace, queue->runtime)) {
		ky_text(&name, " ");
		ky_text(&name, ky_trace_name(trace, queue->runtime));
	}
	if (queue->depths) {
		ky_text(&name, " worker ");
		ky_text_u64(&name, queue->worker_id);
	}
	(void)ky_buf_append(&name, "", 1);
	track = add_track(groups, group_of(groups, GROUP_COUNTERS), KY_TRACK_COUNTER,
			  name.failed ? what : (const char *)name.bytes);
	ky_buf_release(&name);
	return track;
}

static int put_queue(struct groups *groups, const struct ky_trace_queue *queue)
{
	uint64_t depth_track = 0, alive_track = 0;
	int result = 0;

	for (uint64_t row = 0; row < queue->rows.row_count && !result; row++) {
		struct ky_queue_sample sample;

		ky_queue_sample(queue, row, &sample);
		if (!ky_track_has(groups->export, sample.time_ns))
			continue;
		if (!depth_track)
			depth_track = queue_track(groups, queue, "queue depth");
		put_value(groups, depth_track, sample.time_ns, sample.depth);
		if (sample.alive_tasks != UINT32_MAX) {
			if (!alive_track)
				alive_track = queue_track(groups, queue, "alive tasks");
			put_value(groups, alive_track, sample.time_ns, sample.alive_tasks);
		}
		result = flush(groups, (uint32_t)row);
	}
	return result;
}

static void add_custom_value(struct groups *groups, const struct ky_custom_row *row, uint32_t field)
{
	const struct ky_trace *trace = groups->export->trace;
	const struct ky_custom_type *type = &trace->custom_types[row->type];
	const char *name = ky_trace_name(trace, trace->custom_fields[type->field_at + field].name);
	struct ky_custom_value value;

	ky_custom_value(trace, row, field, &value);
	switch (value.kind) {
	case KY_CUSTOM_NUMBER:
		add_number(groups, name, value.as.number);
		break;
	case KY_CUSTOM_SIGNED:
		add_number(groups, name, (uint64_t)value.as.i64);
		break;
	case KY_CUSTOM_FLAG:
		add_text(groups, name, value.as.number ? "true" : "false");
		break;
	case KY_CUSTOM_TEXT:
		add_text(groups, name,
			 value.text == KY_NONE ? "" : ky_trace_name(trace, value.text));
		break;
	case KY_CUSTOM_REAL:
	case KY_CUSTOM_WHOLE:
		add_text(groups, name, "(in the trace)");
		break;
	default:
		break;
	}
}

/* Events of the program's own types, each type on a track; marks on another. */
static int put_events(struct groups *groups)
{
	struct ky_export *export = groups->export;
	const struct ky_trace *trace = export->trace;
	size_t types = trace->custom_type_count;
	uint64_t *tracks = ky_alloc((types + 1) * sizeof(*tracks));
	struct ky_track_event event;
	int result = tracks ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < trace->custom_row_count && !result; i++) {
		const struct ky_custom_row *row = &trace->custom_rows[i];
		const struct ky_custom_type *type = &trace->custom_types[row->type];

		if (!row->time_ns || !ky_track_has(export, row->time_ns))
			continue;
		if (!tracks[row->type])
			tracks[row->type] = add_track(groups, group_of(groups, GROUP_EVENTS),
						      KY_TRACK_OWN, name_or(groups, type->name));
		for (uint32_t k = 0; k < type->field_count; k++)
			add_custom_value(groups, row, k);
		event = event_at(groups, tracks[row->type], row->time_ns, type->name);
		export->counts.instants++;
		groups->sink->instant(groups->sink->ctx, &event);
		result = flush(groups, i);
	}
	for (uint32_t i = 0; i < trace->annotation_count && !result; i++) {
		const struct ky_trace_annotation *mark = &trace->annotations[i];

		if (!ky_track_has(export, mark->time_ns))
			continue;
		if (!tracks[types])
			tracks[types] = add_track(groups, group_of(groups, GROUP_EVENTS),
						  KY_TRACK_OWN, "marks");
		event = event_at(groups, tracks[types], mark->time_ns, mark->label);
		export->counts.instants++;
		groups->sink->instant(groups->sink->ctx, &event);
	}
	ky_free(tracks);
	return result;
}

int ky_track_groups(struct ky_export *export, const struct ky_track_sink *sink, uint64_t *track)
{
	const struct ky_trace *trace = export->trace;
	struct groups groups = {.export = export, .sink = sink, .track = track};
	int result = -ENOMEM;

	groups.span_tracks = ky_alloc((trace->span_count + (size_t)1) * sizeof(uint64_t));
	groups.counter_tracks = ky_alloc((ky_trace_name_count(trace) + (size_t)1) *
					 sizeof(uint64_t));
	if (groups.span_tracks && groups.counter_tracks)
		result = 0;
	/* Of one worker: its lane, and what is of all. */
	if (!result && export->worker == KY_NONE) {
		result = put_tasks(&groups);
		result = result ? result : put_spans(&groups);
		result = result ? result : put_runs(&groups);
	}
	if (!result) {
		put_losses(&groups);
		result = put_counters(&groups);
	}
	for (uint32_t i = 0; i < trace->queue_count && !result; i++)
		result = put_queue(&groups, &trace->queues[i]);
	if (!result)
		result = put_events(&groups);
	ky_free(groups.span_tracks);
	ky_free(groups.counter_tracks);
	return result;
}
