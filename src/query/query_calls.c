/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_calls.h>

#include <analyze/findings/findings.h>
#include <analyze/span_tail.h>
#include <analyze/tokio_metrics.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <base/text.h>
#include <query/query_put.h>
#include <read/requests.h>
#include <read/spawns.h>
#include <report/event_format.h>
#include <report/syscall_name.h>
#include <string.h>

/* ---- polls, parks, wakes ---- */

KY_CALL(poll_end)
{
	const struct ky_poll *poll = row;

	(void)source;
	ky_query_put(out, poll->start_ns + poll->duration_ns);
}

KY_CALL(poll_site)
{
	const struct ky_poll *poll = row;
	const struct ky_trace *trace = source->trace;

	ky_query_put_name(out, trace,
			  poll->name != KY_NONE          ? poll->name :
			  poll->task < trace->task_count ? trace->tasks[poll->task].name :
							   KY_NONE);
}

KY_CALL(poll_delay_state)
{
	const struct ky_poll *poll = row;

	(void)source;
	ky_query_put_text(out, poll->delay_state == 0                 ? "measured" :
			       poll->delay_state == KY_DELAY_NO_WAKE  ? "no wake" :
			       poll->delay_state == KY_DELAY_WITHHELD ? "withheld" :
									"counted");
}

static void put_cost(const struct ky_query_source *source, const struct ky_poll *poll,
		     uint32_t value, struct ky_query_value *out)
{
	const struct ky_trace_poll_cost *cost = ky_trace_poll_cost(source->trace, poll->worker,
								   poll->start_ns);

	if (cost && cost->values[value] != UINT64_MAX)
		ky_query_put(out, cost->values[value]);
}

KY_CALL(poll_cpu)
{
	const struct ky_poll *poll = row;
	const struct ky_trace_poll_cost *cost = ky_trace_poll_cost(source->trace, poll->worker,
								   poll->start_ns);

	if (cost)
		ky_query_put(out, cost->cpu_ns);
}

KY_CALL(poll_run_delay)
{
	put_cost(source, row, KY_COST_DELAY_NS, out);
}

KY_CALL(poll_major_faults)
{
	put_cost(source, row, KY_COST_MAJOR_FAULTS, out);
}

KY_CALL(poll_wakes)
{
	put_cost(source, row, KY_COST_WAKES, out);
}

KY_CALL(park_end)
{
	const struct ky_park_line *line = row;

	(void)source;
	ky_query_put(out, line->park.start_ns + line->park.duration_ns);
}

KY_CALL(park_waits_in)
{
	static const char *const texts[] = {NULL, "driver", "condvar"};
	const struct ky_park_line *line = row;

	(void)source;
	if (line->park.wait > 0 && line->park.wait < sizeof(texts) / sizeof(texts[0]))
		ky_query_put_text(out, texts[line->park.wait]);
}

KY_CALL(park_late)
{
	const struct ky_park_line *line = row;
	uint64_t late_ns = ky_park_late_ns(&line->park);

	(void)source;
	if (late_ns != UINT64_MAX)
		ky_query_put(out, late_ns);
}

KY_CALL(wake_origin)
{
	static const char *const texts[] = {NULL, "own poll", "other poll", "outside polls",
					    "off runtime"};
	const struct ky_wake *wake = row;
	uint8_t origin = wake->origin & KY_WAKE_ORIGIN;

	(void)source;
	if (origin > 0 && origin < sizeof(texts) / sizeof(texts[0]))
		ky_query_put_text(out, texts[origin]);
}

/* ---- tasks, workers, runs, spans ---- */

KY_CALL(task_life)
{
	const struct ky_task *task = row;

	(void)source;
	if (task->end_ns >= task->first_ns)
		ky_query_put(out, task->end_ns - task->first_ns);
}

static const struct ky_spawn *spawn_of(const struct ky_query_source *source,
				       const struct ky_task *task)
{
	return ky_trace_spawn(source->trace, (uint32_t)(task - source->trace->tasks));
}

KY_CALL(task_parents)
{
	const struct ky_task *task = row;
	const struct ky_spawn *spawn = spawn_of(source, task);

	if (spawn)
		ky_query_put(out, (uint64_t)spawn->polls + spawn->runs +
					  (spawn->is_place_unseen && spawn->polls + spawn->runs));
	else if (task->parent != KY_NONE)
		ky_query_put(out, 1);
}

KY_CALL(task_spawned_from)
{
	const struct ky_spawn *spawn = spawn_of(source, row);

	if (spawn)
		ky_query_put(out, spawn->from_ns);
}

KY_CALL(task_spawned_to)
{
	const struct ky_spawn *spawn = spawn_of(source, row);

	if (spawn)
		ky_query_put(out, spawn->to_ns);
}

static uint32_t parent_of(const struct ky_query_source *source, const struct ky_blocking_run *run)
{
	return source->trace->tasks[run->task].parent;
}

KY_CALL(run_parent)
{
	ky_query_put_task(out, source->trace, parent_of(source, row));
}

KY_CALL(run_parent_site)
{
	ky_query_put_task_site(out, source->trace, parent_of(source, row));
}

KY_CALL(run_waiter)
{
	const struct ky_blocking_run *run = row;

	ky_query_put_task(out, source->trace, run->waiter);
}

KY_CALL(run_waiter_site)
{
	const struct ky_blocking_run *run = row;

	ky_query_put_task_site(out, source->trace, run->waiter);
}

static uint32_t worker_index(const struct ky_query_source *source, const struct ky_worker *worker)
{
	return (uint32_t)(worker - source->trace->workers);
}

KY_CALL(worker_busy)
{
	ky_query_put(out, source->sums[worker_index(source, row)].busy_ns);
}

KY_CALL(worker_parked)
{
	ky_query_put(out, source->sums[worker_index(source, row)].parked_ns);
}

KY_CALL(worker_life)
{
	const struct ky_worker *worker = row;

	(void)source;
	if (worker->last_ns >= worker->first_ns)
		ky_query_put(out, worker->last_ns - worker->first_ns);
}

KY_CALL(worker_runtime)
{
	const struct ky_worker *worker = row;
	const struct ky_trace *trace = source->trace;

	if (worker->runtime < trace->runtime_count)
		ky_query_put_name(out, trace, trace->runtimes[worker->runtime].name);
}

KY_CALL(run_end)
{
	const struct ky_blocking_run *run = row;

	(void)source;
	if (!run->is_end_unproven)
		ky_query_put(out, run->start_ns + run->duration_ns);
}

KY_CALL(span_end)
{
	const struct ky_trace_span *span = row;

	(void)source;
	if (!span->is_open)
		ky_query_put(out, span->start_ns + span->duration_ns);
}

KY_CALL(span_parent)
{
	const struct ky_trace_span *span = row;

	(void)source;
	if (span->parent_id)
		ky_query_put(out, span->parent_id);
}

KY_CALL(span_parent_name)
{
	const struct ky_trace_span *span = row;

	if (span->parent != KY_NONE)
		ky_query_put_name(out, source->trace, source->trace->spans[span->parent].name);
}

/* NULL: it is open. */
static const struct ky_span_split *split_of(const struct ky_query_source *source,
					    const struct ky_trace_span *span)
{
	return span->is_open || !source->splits ? NULL :
						  &source->splits[span - source->trace->spans];
}

#define SPLIT(name, member)                                                                        \
	KY_CALL(span_##name)                                                                       \
	{                                                                                          \
		const struct ky_span_split *split = split_of(source, row);                         \
                                                                                                   \
		if (split)                                                                         \
			ky_query_put(out, split->member);                                          \
	}
SPLIT(polls, polls)
SPLIT(cpu, cpu_ns)
SPLIT(off_cpu, off_cpu_ns)
SPLIT(polled, polled_ns)
SPLIT(ready, ready_ns)
SPLIT(waiting, waiting_ns)
SPLIT(client, client_ns)
SPLIT(unknown, unknown_ns)

KY_CALL(span_request)
{
	const struct ky_trace_span *span = row;

	(void)source;
	if (span->request)
		ky_query_put_text(out, span->request == KY_REQUEST_OUT ? "out" : "in");
}

KY_CALL(span_idle)
{
	const struct ky_trace_span *span = row;

	(void)source;
	if (span->idle_since_ns && span->idle_since_ns <= span->start_ns)
		ky_query_put(out, span->start_ns - span->idle_since_ns);
}

KY_CALL(span_lead)
{
	const struct ky_trace_span *span = row;

	(void)source;
	if (span->request)
		ky_query_put(out, span->lead_ns);
}

KY_CALL(span_fields)
{
	const struct ky_trace_span *span = row;

	if (!span->field_count)
		return;
	ky_buf_clear(source->scratch);
	ky_json_open(source->scratch, NULL, "{");
	for (uint32_t i = 0; i < span->field_count; i++) {
		const struct ky_pair *pair = &source->trace->span_fields[span->field_at + i];

		ky_json_text(source->scratch, ky_trace_name(source->trace, pair->key),
			     ky_trace_name(source->trace, pair->value));
	}
	ky_json_close(source->scratch, "}");
	ky_query_put_scratch(source, out);
}

KY_CALL(tail_kind)
{
	const struct ky_tail_row *tail = row;

	(void)source;
	ky_query_put_text(out, ky_tail_kind_key(tail->kind));
}

KY_CALL(tail_what)
{
	const struct ky_tail_row *tail = row;

	if (tail->part)
		ky_query_put_text(out, tail->part);
	else if (tail->kind == KY_TAIL_FIELD)
		ky_query_put_name(out, source->trace, tail->key);
}

static bool is_function_row(const struct ky_tail_row *tail)
{
	return tail->kind == KY_TAIL_CPU || tail->kind == KY_TAIL_OFF_CPU;
}

KY_CALL(tail_value)
{
	const struct ky_tail_row *tail = row;

	if (is_function_row(tail))
		return;
	if (tail->kind != KY_TAIL_CONCURRENCY) {
		ky_query_put_name(out, source->trace, tail->value);
		return;
	}
	ky_buf_clear(source->scratch);
	ky_text_u64(source->scratch, tail->at_least);
	ky_text(source->scratch, " and more");
	ky_query_put_scratch(source, out);
}

/* Of parts and functions that have a time; or of what is no part. */
#define TAIL(name, member, is_of_parts)                                                            \
	KY_CALL(tail_##name)                                                                       \
	{                                                                                          \
		const struct ky_tail_row *tail = row;                                              \
                                                                                                   \
		(void)source;                                                                      \
		if ((is_of_parts) ? tail->kind == KY_TAIL_PART || tail->has_ns :                   \
				    tail->kind != KY_TAIL_PART)                                    \
			ky_query_put(out, tail->member);                                           \
	}
TAIL(slow_ns, slow_ns, true)
TAIL(typical_ns, typical_ns, true)
TAIL(explains, explains_ppm, true)
TAIL(slow_ppm, slow_ppm, false)
TAIL(typical_ppm, typical_ppm, false)
TAIL(p, p_ppb, false)

KY_CALL(metadata_key)
{
	const struct ky_pair *pair = row;

	ky_query_put_name(out, source->trace, pair->key);
}

/* ---- metrics ---- */

KY_CALL(metric_name)
{
	const struct ky_metric_row *metric = row;

	(void)source;
	ky_query_put_text(out, metric->name);
}

KY_CALL(metric_unit)
{
	const struct ky_metric_row *metric = row;

	(void)source;
	ky_query_put_text(out, metric->unit);
}

KY_CALL(metric_state)
{
	const struct ky_metric_row *metric = row;

	(void)source;
	ky_query_put_text(out, ky_metric_state(metric->state));
}

KY_CALL(metric_note)
{
	const struct ky_metric_row *metric = row;

	if (!metric->why || !metric->note) {
		if (metric->why || metric->note)
			ky_query_put_text(out, metric->why ? metric->why : metric->note);
		return;
	}
	ky_buf_clear(source->scratch);
	ky_out_format(source->scratch, "%s; %s", metric->why, metric->note);
	ky_query_put_scratch(source, out);
}

KY_CALL(metric_runtime)
{
	const struct ky_metric_row *metric = row;

	if (metric->subject < source->trace->runtime_count)
		ky_query_put(out, source->trace->runtimes[metric->subject].id);
}

KY_CALL(metric_runtime_name)
{
	const struct ky_metric_row *metric = row;

	if (metric->subject < source->trace->runtime_count)
		ky_query_put_name(out, source->trace,
				  source->trace->runtimes[metric->subject].name);
}

/* ---- findings ---- */

KY_CALL(finding_id)
{
	(void)source;
	ky_query_put_text(out, ky_finding_name(row));
}

KY_CALL(finding_severity)
{
	const struct ky_finding *finding = row;

	(void)source;
	ky_query_put_text(out, ky_severity_name(finding->severity));
}

KY_CALL(finding_confidence)
{
	const struct ky_finding *finding = row;

	(void)source;
	ky_query_put_text(out, ky_confidence_name(finding->confidence));
}

static void put_sentence(struct ky_query_value *out, const struct ky_query_source *source,
			 const struct ky_buf *text)
{
	ky_buf_clear(source->scratch);
	(void)ky_buf_append(source->scratch, text->bytes, text->used);
	ky_query_put_scratch(source, out);
}

KY_CALL(finding_statement)
{
	put_sentence(out, source, &((const struct ky_finding *)row)->statement);
}

KY_CALL(finding_impact)
{
	put_sentence(out, source, &((const struct ky_finding *)row)->impact);
}

KY_CALL(finding_action)
{
	put_sentence(out, source, &((const struct ky_finding *)row)->action);
}

KY_CALL(finding_kind)
{
	const struct ky_finding *finding = row;

	(void)source;
	ky_query_put_text(out, finding->culprit.kind);
}

KY_CALL(finding_function)
{
	const struct ky_finding *finding = row;

	(void)source;
	if (finding->culprit.code)
		ky_query_put_text(out, finding->culprit.code->name);
}

KY_CALL(finding_resource)
{
	const struct ky_finding *finding = row;

	(void)source;
	if (finding->culprit.resource)
		ky_query_put_text(out, finding->culprit.resource);
}

KY_CALL(stuck_state)
{
	const struct ky_trace_stuck *stuck = row;
	const char text[] = {(char)stuck->state};

	if (stuck->state < ' ' || stuck->state > '~')
		return;
	ky_buf_clear(source->scratch);
	(void)ky_buf_append(source->scratch, text, 1);
	ky_query_put_scratch(source, out);
}

/* ---- samples ---- */

KY_CALL(off_reason)
{
	static const char *const texts[] = {"unknown", "call", "futex", "page fault", "preempted"};
	const struct ky_stack_row *sample = row;

	(void)source;
	ky_query_put_text(
		out, texts[sample->reason < sizeof(texts) / sizeof(texts[0]) ? sample->reason : 0]);
}

KY_CALL(off_syscall)
{
	const struct ky_stack_row *sample = row;
	const char *name;

	if (sample->syscall == KY_NO_SYSCALL)
		return;
	name = ky_trace_call_name(source->trace, sample->syscall);
	if (name) {
		ky_query_put_text(out, name);
		return;
	}
	ky_buf_clear(source->scratch);
	ky_out_format(source->scratch, "%u", sample->syscall);
	ky_query_put_scratch(source, out);
}

/* What is certainly not a wait for a CPU. */
KY_CALL(off_blocked)
{
	const struct ky_stack_row *sample = row;

	(void)source;
	if (sample->runnable_max_ns < sample->value)
		ky_query_put(out, sample->value - sample->runnable_max_ns);
	else
		ky_query_put(out, 0);
}

KY_CALL(thread_name)
{
	const struct ky_stack_row *sample = row;

	ky_query_put_name(out, source->trace, ky_trace_thread_name(source->trace, sample->tid));
}

static uint64_t weighted(const struct ky_stack_row *sample)
{
	double value = (double)sample->value * sample->weight;

	return value < 9e18 ? (uint64_t)value : INT64_MAX;
}

KY_CALL(cpu_weighted)
{
	const struct ky_stack_row *sample = row;

	(void)source;
	if (sample->value)
		ky_query_put(out, weighted(sample));
}

KY_CALL(heap_estimated)
{
	(void)source;
	ky_query_put(out, weighted(row));
}

KY_CALL(heap_freed)
{
	const struct ky_stack_row *sample = row;

	(void)source;
	if (sample->flags & KY_ROW_FREED)
		ky_query_put(out, sample->end_ns);
}

KY_CALL(idle_is_counted)
{
	(void)source;
	ky_query_put(out, ky_place_has_time(row));
}

static void put_line(const struct ky_query_source *source, const struct ky_code_line *line,
		     struct ky_query_value *out)
{
	if (!line)
		return;
	if (!line->file[0]) {
		ky_query_put_text(out, line->name);
		return;
	}
	ky_buf_clear(source->scratch);
	ky_out_format(source->scratch, "%s (%s", line->name, line->file);
	if (line->line)
		ky_out_format(source->scratch, ":%u", line->line);
	ky_out_text(source->scratch, ")");
	ky_query_put_scratch(source, out);
}

KY_CALL(wake_cause)
{
	uint32_t kind = source->wakes ? ky_wake_namer_cause(source->wakes, row).kind :
					KY_WAKE_UNKNOWN;

	if (kind != KY_WAKE_UNKNOWN)
		ky_query_put_text(out, ky_wake_kind_key(kind));
}

/* is_inferred: how it is known. */
static uint32_t descriptor_of(const struct ky_query_source *source, const void *row,
			      bool *is_inferred)
{
	uint32_t descriptor = KY_NONE;

	*is_inferred = false;
	if (source->wakes)
		descriptor = ky_wake_descriptor(source->trace, row,
						ky_wake_namer_cause(source->wakes, row));
	if (descriptor != KY_NONE || !source->wakes)
		return descriptor;
	*is_inferred = true;
	return ky_wake_inferred_descriptor(source->wakes, row);
}

KY_CALL(wake_descriptor)
{
	bool is_inferred;
	uint32_t descriptor = descriptor_of(source, row, &is_inferred);

	if (descriptor != KY_NONE)
		ky_query_put(out, descriptor);
}

KY_CALL(wake_is_inferred)
{
	bool is_inferred;

	if (descriptor_of(source, row, &is_inferred) != KY_NONE)
		ky_query_put(out, is_inferred);
}

KY_CALL(wake_function)
{
	if (source->wakes)
		put_line(source, ky_wake_namer_cause(source->wakes, row).line, out);
}

KY_CALL(function)
{
	const struct ky_stack_row *sample = row;

	if (source->stacks && sample->stack != KY_NONE)
		put_line(source, ky_code_own_line(source->stacks, sample->stack), out);
}

KY_CALL(leaf)
{
	const struct ky_stack_row *sample = row;

	if (source->stacks && sample->stack != KY_NONE)
		put_line(source, ky_code_leaf_line(source->stacks, sample->stack), out);
}

KY_CALL(stack)
{
	const struct ky_stack_row *sample = row;
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (!source->stacks || sample->stack == KY_NONE)
		return;
	ky_buf_clear(source->scratch);
	ky_code_walk_begin(&walk, source->stacks, sample->stack);
	while ((line = ky_code_walk_next(&walk)) != NULL) {
		ky_out_text(source->scratch, source->scratch->used ? " < " : "");
		ky_out_text(source->scratch, line->name);
	}
	ky_query_put_scratch(source, out);
}

/* ---- events ---- */

KY_CALL(event_type)
{
	const struct ky_event_type *type = row;

	(void)source;
	ky_query_put_text(out, type->name);
}

KY_CALL(event_time)
{
	const struct ky_event_line *line = row;

	(void)source;
	if (line->event->has_timestamp && line->event->timestamp_ns)
		ky_query_put(out, line->event->timestamp_ns);
}

KY_CALL(event_name)
{
	const struct ky_event_line *line = row;
	const struct ky_slice *name = &line->event->schema->name;

	ky_buf_clear(source->scratch);
	(void)ky_buf_append(source->scratch, name->bytes, name->count);
	ky_query_put_scratch(source, out);
}

KY_CALL(event_fields)
{
	const struct ky_event_line *line = row;

	ky_buf_clear(source->scratch);
	ky_event_fields_json(source->scratch, line->stream, line->event, NULL);
	ky_query_put_scratch(source, out);
}
