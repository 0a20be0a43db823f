/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/poll_facts.h>

#include <analyze/wake_cause.h>
#include <base/text.h>
#include <lanes/facts_json.h>
#include <read/spawns.h>

static void put_id(struct ky_buf *out, const char *kind, uint64_t of, uint64_t start_ns)
{
	ky_json_key(out, "id");
	ky_text(out, "\"");
	ky_text(out, kind);
	ky_text(out, ":");
	ky_text_u64(out, of);
	ky_text(out, ":");
	ky_text_u64(out, start_ns);
	ky_text(out, "\"");
}

/* ---- a poll ---- */

static void put_task(struct ky_buf *out, const struct ky_trace *trace, uint32_t index)
{
	const struct ky_task *task = &trace->tasks[index];
	const struct ky_spawn *spawn = ky_trace_spawn(trace, index);

	ky_json_open(out, "task", "{");
	ky_json_number(out, "index", index);
	ky_json_number(out, "id", task->id);
	ky_facts_name(out, "name", trace, task->name);
	ky_json_flag(out, "is_root", (task->flags & KY_TASK_ROOT) != 0);
	ky_json_flag(out, "is_spawn_seen", (task->flags & KY_TASK_SPAWN_SEEN) != 0);
	ky_facts_moment(out, "first_ns", trace, task->first_ns);
	if (task->end_ns)
		ky_facts_moment(out, "end_ns", trace, task->end_ns);
	ky_json_number(out, "polls", task->poll_count);
	ky_json_number(out, "busy_ns", task->busy_ns);
	ky_json_number(out, "poll_max_ns", task->poll_max_ns);
	ky_json_number(out, "delay_ns", task->delay_ns);
	ky_json_number(out, "wakes", task->wake_count);
	if (task->parent != KY_NONE && task->parent < trace->task_count) {
		ky_json_number(out, "parent", trace->tasks[task->parent].id);
		ky_facts_name(out, "parent_name", trace, trace->tasks[task->parent].name);
	}
	ky_json_flag(out, "is_spawner_unseen", spawn && spawn->is_place_unseen);
	ky_json_close(out, "}");
}

static void put_flags(struct ky_buf *out, uint32_t flags)
{
	static const struct {
		uint32_t flag;
		const char *words;
	} rows[] = {
		{KY_POLL_ENDED_BY_PARK, "its end is not recorded: the worker's park proves it"},
		{KY_POLL_END_UNPROVEN, "its end is not recorded: it reaches to the next poll"},
		{KY_POLL_OPEN, "still open where the trace ends"},
		{KY_POLL_AT_EXIT, "the process ended inside it"},
		{KY_POLL_FROM_SNAPSHOT, "it began before the trace"},
		{KY_POLL_NESTED, "inside another poll of the same thread"},
		{KY_POLL_GAP, "records are missing inside it: its length is not certain"},
	};

	ky_json_open(out, "notes", "[");
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (flags & rows[i].flag) {
			ky_json_key(out, NULL);
			ky_text(out, "\"");
			ky_text(out, rows[i].words);
			ky_text(out, "\"");
		}
	ky_json_close(out, "]");
}

static void put_delay(struct ky_buf *out, const struct ky_trace *trace, const struct ky_poll *poll)
{
	const char *state = "";

	if (poll->delay_state == KY_DELAY_NO_WAKE)
		state = "no recorded wake made it ready";
	else if (poll->delay_state == KY_DELAY_WITHHELD)
		state = "records are missing between its wake and its poll";
	else if (poll->delay_state == KY_DELAY_COUNTED)
		state = "it is counted in a histogram only";
	ky_json_number_or_null(out, "delay_ns", !poll->delay_state, poll->delay_ns);
	ky_json_text(out, "delay_unknown", state);
	if (!poll->delay_state)
		ky_facts_moment(out, "ready_ns", trace, poll->start_ns - poll->delay_ns);
}

static void put_cost(struct ky_buf *out, const struct ky_trace *trace, const struct ky_poll *poll)
{
	static const char *const keys[KY_COST_VALUES] = {
		[KY_COST_DELAY_NS] = "run_delay_ns",
		[KY_COST_MINOR_FAULTS] = "minor_faults",
		[KY_COST_MAJOR_FAULTS] = "major_faults",
		[KY_COST_VOLUNTARY] = "voluntary",
		[KY_COST_INVOLUNTARY] = "involuntary",
		[KY_COST_WAKES] = "wakes",
		[KY_COST_NESTED] = "nested",
	};
	const struct ky_trace_poll_cost *cost = ky_trace_poll_cost(trace, poll->worker,
								   poll->start_ns);
	struct ky_own_poll own;

	if (cost) {
		ky_json_open(out, "cost", "{");
		ky_json_number(out, "cpu_ns", cost->cpu_ns);
		for (uint32_t i = 0; i < KY_COST_VALUES; i++)
			if (keys[i] && cost->values[i] != UINT64_MAX)
				ky_json_number(out, keys[i], cost->values[i]);
		ky_json_close(out, "}");
	}
	ky_own_split(&own, trace, poll);
	ky_json_open(out, "parts", "[");
	for (uint32_t part = 0; part < KY_OWN_PARTS; part++) {
		if (!own.sums[part])
			continue;
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "part", ky_own_part_key(part));
		ky_json_text(out, "words", ky_own_part_words(part));
		ky_json_number(out, "ns", own.sums[part]);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_frames(struct ky_buf *out, const struct ky_code_stacks *stacks, uint32_t stack)
{
	const struct ky_code_line *line, *own = ky_code_own_line(stacks, stack);
	struct ky_code_walk walk;
	uint32_t count = 0;

	ky_json_open(out, "frames", "[");
	ky_code_walk_begin(&walk, stacks, stack);
	while ((line = ky_code_walk_next(&walk)) && count++ < KY_FACTS_FRAMES_MAX) {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", line->name);
		if (line->file[0]) {
			ky_json_text(out, "file", line->file);
			ky_json_number(out, "line", line->line);
		}
		ky_json_flag(out, "is_own", line == own || ky_code_is_own(line));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static bool is_inside(const struct ky_stack_row *row, const struct ky_poll *poll)
{
	return row->worker == poll->worker && row->poll_start_ns == poll->start_ns &&
	       (row->kind == KY_STACK_CPU || row->kind == KY_STACK_OFF_CPU ||
		row->kind == KY_STACK_SWITCH || row->kind == KY_STACK_ALLOC);
}

static void put_samples(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_poll *poll, const struct ky_code_stacks *stacks)
{
	static const char *const kinds[KY_STACK_KINDS] = {
		[KY_STACK_CPU] = "cpu",
		[KY_STACK_OFF_CPU] = "off_cpu",
		[KY_STACK_SWITCH] = "switch",
		[KY_STACK_ALLOC] = "alloc",
	};
	const struct ky_samples *samples = &trace->samples;
	uint64_t end_ns = poll->start_ns + poll->duration_ns;
	uint32_t counts[KY_STACK_KINDS] = {0}, shown = 0;

	ky_json_open(out, "samples", "[");
	for (uint32_t i = ky_samples_from(samples, poll->start_ns);
	     i < samples->row_count && samples->rows[i].time_ns <= end_ns; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (!is_inside(row, poll))
			continue;
		counts[row->kind]++;
		if (shown++ >= KY_FACTS_SAMPLES_MAX)
			continue;
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "kind", kinds[row->kind]);
		ky_facts_moment(out, "time_ns", trace, row->time_ns);
		ky_json_number(out, "value", row->value);
		if (stacks && row->stack != KY_NONE)
			put_frames(out, stacks, row->stack);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "cpu_samples", counts[KY_STACK_CPU]);
	ky_json_number(out, "off_cpu_times", counts[KY_STACK_OFF_CPU] + counts[KY_STACK_SWITCH]);
	ky_json_number(out, "allocations", counts[KY_STACK_ALLOC]);
}

void ky_poll_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t worker,
			uint64_t row, const struct ky_code_stacks *stacks)
{
	struct ky_poll poll;

	ky_trace_poll(trace, worker, row, &poll);
	ky_json_open(out, NULL, "{");
	put_id(out, "poll", trace->workers[worker].id, poll.start_ns);
	ky_json_number(out, "lane", worker);
	ky_json_number(out, "row", row);
	ky_json_number(out, "worker", trace->workers[worker].id);
	ky_facts_name(out, "name", trace, ky_lane_poll_name(trace, &poll));
	ky_facts_moment(out, "start_ns", trace, poll.start_ns);
	ky_json_number(out, "duration_ns", poll.duration_ns);
	put_flags(out, poll.flags);
	put_task(out, trace, poll.task);
	put_delay(out, trace, &poll);
	put_cost(out, trace, &poll);
	put_samples(out, trace, &poll, stacks);
	ky_json_close(out, "}");
}

/* ---- spans and runs ---- */

void ky_span_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t index)
{
	const struct ky_trace_span *span = &trace->spans[index];

	ky_json_open(out, NULL, "{");
	put_id(out, "span", span->id, span->start_ns);
	ky_facts_name(out, "name", trace, span->name);
	ky_facts_moment(out, "start_ns", trace, span->start_ns);
	ky_json_number(out, "duration_ns", span->duration_ns);
	ky_json_number(out, "active_ns", span->active_ns);
	ky_json_number(out, "enters", span->enter_count);
	ky_json_flag(out, "is_open", span->is_open);
	if (span->task < trace->task_count)
		put_task(out, trace, span->task);
	if (span->parent != KY_NONE && span->parent < trace->span_count)
		ky_facts_name(out, "parent", trace, trace->spans[span->parent].name);
	ky_json_open(out, "fields", "[");
	for (uint32_t i = 0; i < span->field_count; i++) {
		const struct ky_pair *pair = &trace->span_fields[span->field_at + i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "key", ky_trace_name(trace, pair->key));
		ky_json_text(out, "value", ky_trace_name(trace, pair->value));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

void ky_run_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t index)
{
	const struct ky_blocking_run *run = &trace->blocking_runs[index];

	ky_json_open(out, NULL, "{");
	put_id(out, "run", run->tid, run->start_ns);
	ky_facts_name(out, "name", trace, run->name);
	ky_json_number(out, "tid", run->tid);
	ky_facts_moment(out, "start_ns", trace, run->start_ns);
	ky_json_number(out, "duration_ns", run->duration_ns);
	ky_json_number_or_null(out, "wait_ns", run->wait_ns != UINT64_MAX, run->wait_ns);
	ky_json_flag(out, "is_open", run->is_open);
	if (run->task < trace->task_count)
		put_task(out, trace, run->task);
	if (run->waiter < trace->task_count) {
		ky_json_number(out, "waiter", trace->tasks[run->waiter].id);
		ky_facts_name(out, "waiter_name", trace, trace->tasks[run->waiter].name);
	}
	ky_json_close(out, "}");
}

/* ---- words ---- */

const char *ky_part_words(enum ky_part part)
{
	static const char *const words[KY_PARTS] = {
		[KY_PART_RECORDER_GAP] = "records of the worker are missing",
		[KY_PART_STOPPED] = "the process was stopped",
		[KY_PART_LIFO] = "in the poll that woke it, right before its own",
		[KY_PART_BEHIND_CPU] = "waited for polls of other tasks that ran on a CPU",
		[KY_PART_BEHIND_BLOCKED] = "waited for polls of other tasks that were blocked",
		[KY_PART_BEHIND_RUNNABLE] = "waited for polls of other tasks that waited for a CPU",
		[KY_PART_BEHIND_UNSPLIT] = "waited for polls of other tasks",
		[KY_PART_PARKED] = "the worker was parked",
		[KY_PART_PARKED_NOTIFIED] = "the worker was notified, the kernel woke it late",
		[KY_PART_PARKED_QUIET] = "the worker was parked and not notified",
		[KY_PART_HANDOVER] = "the worker changed its thread (block_in_place)",
		[KY_PART_SCHEDULER_READY] = "the worker waited for a CPU between polls",
		[KY_PART_RUNTIME] = "in the runtime: scheduler, driver, block_on",
		[KY_PART_NO_HOME] = "unknown: what woke it is not recorded",
		[KY_PART_UNKNOWN_STEAL] = "unknown: another worker stole it",
	};

	return part < KY_PARTS ? words[part] : "unknown";
}

const char *ky_own_part_words(enum ky_own_part part)
{
	static const char *const words[KY_OWN_PARTS] = {
		[KY_OWN_GAP] = "records are missing",
		[KY_OWN_STOPPED] = "the process was stopped",
		[KY_OWN_NESTED] = "in a poll inside it",
		[KY_OWN_CPU] = "ran on a CPU",
		[KY_OWN_BLOCKED] = "was blocked",
		[KY_OWN_RUNNABLE] = "waited for a CPU",
		[KY_OWN_UNSPLIT] = "not known: on a CPU or blocked",
	};

	return part < KY_OWN_PARTS ? words[part] : "unknown";
}
